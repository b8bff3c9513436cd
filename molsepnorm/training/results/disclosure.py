"""Disclosure: the files of a run and of a model that show the training molecules."""

from __future__ import annotations

from collections.abc import Iterator

from molsepnorm.model import README, PropertyModel
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.nn.kernel_head import KernelHead

CONTENTS = {
    "model/config.json": "targets, classes, inputs and network",
    "model/model.safetensors": "weights",
    f"model/{TRAINING_FILE}": "structures, fingerprints and labels of the training molecules",
    f"model/{README}": "model card",
    "metrics.json": "scores; path of the model that training started from",
    "config.yaml": "settings, with the paths of the files",
    "environment.json": "machine, versions, and the command with its paths",
    "splits.json": "numbers of the rows in each split",
    "rejected.csv": "rows that were left out, with their structures",
    "predictions_*.csv": "structures, labels and predictions",
    "targets.csv": "names, classes, numbers and ranges of the labels of each target",
    "history.csv": "scores of each epoch",
    "report.html": "report of the run, with structures, labels and predictions",
    "log.txt": "what training printed: paths, and structures of rejected rows",
    "checkpoints/*": "state of training, with further copies of the network",
    "members/*": "the runs of an ensemble, each with the same files",
}
"""Content of each file of a run folder, by the pattern of its name."""

_STRUCTURES = (
    f"{TRAINING_FILE} holds the SMILES, the fingerprints and the labels of all training molecules."
)
_NO_STRUCTURES = (
    f"{TRAINING_FILE}, with the structures and labels of the training molecules, is not included, "
    "so `predict --domain` cannot be used."
)


def revealed(model: PropertyModel) -> Iterator[str]:
    """Yield sentences on what the files of a model hold about its training molecules."""
    if model.task.targets:
        yield (
            "config.json holds the names of targets, classes and feature columns, the words of "
            "feature columns, and the mean and standard deviation of the training labels."
        )
    if model.calibration:
        yield (
            "config.json holds the sizes of the errors of up to 1,000 validation molecules, for "
            "the intervals. They are sorted, so no error can be assigned to a molecule."
        )
    if model.structures:
        yield _STRUCTURES
    elif model.domain is not None:
        yield _NO_STRUCTURES
    heads = [each.head for each in model.networks if isinstance(each.head, KernelHead)]
    for head in heads:
        _, columns, counts, *others = head.sizes
        count = counts * head.compares_counts + sum(others)
        features = f", {count:,} descriptors and fingerprint counts" * bool(count)
        cells = ", the cells of its feature columns" * bool(columns)
        yield (
            f"model.safetensors holds {len(head.centers):,} training molecules in encoded form "
            f"(a kernel regression): for each of them its embedding{features}{cells} and a weight "
            "for each target. Anyone with the file can test whether a known molecule is among them "
            "and estimate their labels"
            + (", and can reconstruct parts of their structures." if features else ".")
        )
    if model.forests:
        yield (
            "model.safetensors holds the trees of a random forest. Each leaf has the mean label of "
            "its training molecules, often of a single one, and the thresholds are Morgan counts "
            "and descriptors that separate them."
        )
    if not (heads or model.forests):
        yield "model.safetensors holds network weights only, without molecules and labels."
    yield (
        "Weights can also show indirectly whether a molecule was used in training. Do not share "
        "a model if its training structures must stay secret."
    )


def without_structures(card: bytes) -> bytes:
    """Return the card of a model whose training molecules are left out."""
    return card.replace(_STRUCTURES.encode(), _NO_STRUCTURES.encode())

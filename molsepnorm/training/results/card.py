"""The model card of a run: `README.md` in its model folder, in the format of model hubs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from molsepnorm._version import __version__
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.splits import split_details
from molsepnorm.model import PropertyModel
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.pretrained import read_card, shipped_models
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.results.conclusion import conclusion, metric_label
from molsepnorm.training.results.disclosure import CONTENTS, revealed
from molsepnorm.training.results.scores import (
    MAX_TARGETS,
    calibration_table,
    domain_errors,
    listed_metrics,
    score_columns,
    score_notes,
    score_rows,
)

_ELEMENT = re.compile(
    r"\[\d*([A-Z][a-z]?|se|as|te|si|[bcnops*])[^\]]*\]|(Cl|Br|[BCNOPSFI]|[bcnops*])"
)


def model_card(
    model: PropertyModel, config: TrainConfig, dataset: Dataset, metrics: Mapping[str, Any]
) -> str:
    """Return the card as Markdown with YAML front matter.

    It names columns and the file of the data, but has no structure, label, path or user.

    Args:
        model: the model that the run keeps.
        config: the configuration of the run.
        dataset: its data.
        metrics: the content of `metrics.json`; empty if the run is not finished.
    """
    names = model.task.names
    header = {
        "license": config.run.license or "unknown",
        "library_name": "molsepnorm",
        "pipeline_tag": "graph-ml",
        "tags": ["chemistry", "molecular-property-prediction", "graphormer"],
    }
    if "test" in metrics:
        header["metrics"] = [name for name in metrics["test"] if "/" not in name]
    several = f"{len(names)} properties of molecules" if len(names) > 3 else ", ".join(names)
    title = f"Prediction of {several}" if names else "Pre-trained model of molecules"
    sections = {
        "Predictions": _predictions(model, dataset),
        "Data": _data(config, dataset, metrics),
        "Inputs": _inputs(model),
        "Model": _model(model, config, metrics),
        "Scores": _scores(metrics),
        "Uncertainty": _uncertainty(model, metrics),
        "Domain": _domain(model, dataset, metrics),
        "Use": _use(model),
        "Licence": [config.run.license or "Not stated. The setting run.license fills this in."],
        "What the model file reveals": (f"- {each}" for each in revealed(model)),
        "Confidential files": _confidential(),
    }
    parts = [f"---\n{yaml.safe_dump(header, sort_keys=False)}---", f"# {_cell(title)}"]
    for heading, lines in sections.items():
        parts += [f"## {heading}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def elements(smiles: Iterable[str]) -> set[str]:
    """Return the symbols of the elements that are written in SMILES.

    >>> sorted(elements(["C[C@@H](N)c1c[nH]cc1", "[Na+].[Cl-]"]))
    ['C', 'Cl', 'N', 'Na']
    """
    found = {match for text in smiles for match in _ELEMENT.findall(text.partition(" ")[0])}
    return {(inside or outside).capitalize() for inside, outside in found}


def _predictions(model: PropertyModel, dataset: Dataset) -> Iterator[str]:
    if not model.task.targets:
        yield "The model was trained on structures without labels. It gives embeddings of"
        yield "molecules, and training on labels can start from it."
        return
    labels = dataset.exact_labels[dataset.splits["train"]]
    counts = np.count_nonzero(~np.isnan(labels), axis=0)
    rows = []
    for target, count in zip(model.task.targets, counts, strict=True):
        transform = target.transformation
        scale = transform or ("as in the data" if target.kind == "regression" else "probability")
        if target.kind == "binary" and target.classes:
            scale = f"probability of {target.positive_class}"
        classes = ", ".join(target.classes) or ("0, 1" if target.kind == "binary" else "")
        rows.append([target.name, target.kind, scale, classes, f"{count:,}"])
    yield from _table(["target", "kind", "scale", "classes", "training labels"], rows)


def _data(config: TrainConfig, dataset: Dataset, metrics: Mapping[str, Any]) -> Iterator[str]:
    data = config.data
    name = dataset.name if data.dataset else Path(dataset.name).name  # of a pipe, it is a path
    yield f"- Source: {_cell(name)}"
    rows = {split: len(each) for split, each in dataset.splits.items()}
    molecules = metrics.get("molecules", rows)
    more = "" if molecules == rows else f" ({_counts(rows)} rows)"
    yield f"- Molecules: {_counts(molecules)}{more}"
    yield f"- Split: {_cell(split_details(data))}"
    yield f"- Rows left out because they cannot be read: {len(dataset.rejected):,}"
    if dataset.merged:
        yield f"- Rows merged into another row of the same molecule: {len(dataset.merged):,}"


def _counts(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {split}" for split, count in sizes.items())


def _inputs(model: PropertyModel) -> Iterator[str]:
    level = model.standardize
    how = "as they are written" if level == "none" else f"standardised by RDKit, level {level}"
    yield f"- Structures: SMILES, {how}"
    yield f"- Features of atoms and bonds: {model.featurizer}"
    inputs = model.inputs
    if inputs.names:
        yield f"- Columns that predictions need: {_cell(', '.join(inputs.names))}"
    if inputs.morgan:
        yield f"- Morgan fingerprint of radius 2: {inputs.morgan:,} counts"
    if inputs.descriptors:
        yield f"- RDKit descriptors: {len(inputs.descriptors)}"
    if inputs.pairs:
        yield f"- Atom-pair fingerprint: {inputs.pairs:,} counts"


def _model(model: PropertyModel, config: TrainConfig, metrics: Mapping[str, Any]) -> Iterator[str]:
    network = model.network.config
    size = f"{model.parameters:,} parameters in the final model"
    yield f"- Graphormer, layers {network.layers}, width {network.width}; {size}"
    if model.task.targets:
        yield f"- Parts: {composition(model, metrics.get('epochs', 0))}"
    if parts := metrics.get("refit"):
        yield f"- Fitted to the training and validation molecules: {', '.join(parts)}"
    yield f"- Made on {date.today().isoformat()} with molsepnorm {__version__}"
    yield f"- Start of training: {_start(config)}"
    for name, reason in model.excludes.items():
        yield f"- Must not be scored on {_cell(name)}: {_cell(reason)}"


def _start(config: TrainConfig) -> str:
    """Return the name and the licence of the model that training started from."""
    start = config.finetune.start
    if start is None:
        return "random weights"
    folder = shipped_models().get(str(start))
    if folder is None:
        return f"another model ({_cell(start.name)}), whose licence applies too"
    return f"{start}, licence {read_card(folder).licence}"


def _scores(metrics: Mapping[str, Any]) -> Iterator[str]:
    if "test" not in metrics:
        yield "There are no scores: the run is not finished, or it has no test split."
        return
    yield f"The model was chosen by {metrics['chosen_by']} on the validation split.\n"
    columns = score_columns(metrics)
    cells = score_rows(columns)
    rows = ([metric_label(metrics, name), *cells[name]] for name in listed_metrics(cells))
    yield from _table(["metric", *columns], rows)
    if notes := score_notes(columns):
        yield f"\n{notes}"
    if sentences := conclusion(metrics):
        yield f"\n{_cell(' '.join(sentences))}"


def _uncertainty(model: PropertyModel, metrics: Mapping[str, Any]) -> Iterator[str]:
    if not model.calibration:
        yield "The model has no intervals."
        return
    yield "`predict --uncertainty` adds intervals or sets of classes, which are fitted to the"
    if "calibration" not in metrics:
        yield "validation split. They were not compared with other molecules."
        return
    yield "validation split. Coverage and size are those of the test split.\n"
    headings, rows = calibration_table(metrics)
    yield from _table(headings, rows[:MAX_TARGETS])


def _domain(model: PropertyModel, dataset: Dataset, metrics: Mapping[str, Any]) -> Iterator[str]:
    train = dataset.splits["train"]
    sizes = dataset.store.sizes[train]
    yield (
        f"- Atoms of a training molecule: {sizes.min()} to {sizes.max()}, median "
        f"{np.median(sizes):g}"
    )
    if dataset.smiles is not None:
        found = sorted(elements(dataset.smiles_of(train)))
        yield f"- Elements of the training molecules: {', '.join(found)}"
    if similarity := metrics.get("nearest_train_similarity"):
        yield (
            "- Tanimoto similarity of a test molecule to the nearest training molecule: median "
            f"{similarity['median']:.2f}"
        )
    if model.domain is not None:
        yield (
            "- A molecule is in the domain (`predict --domain`) if its similarity to the nearest "
            f"training molecule is {model.domain.threshold:.2f} or more"
        )
    if domain := metrics.get("domain"):
        yield from _errors(domain)
    yield "- Expect larger errors for other molecules."


def _errors(domain: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about the entry `domain` of `metrics.json`."""
    if domain["kind"] == "training":
        yield (
            "- Validation errors do not clearly depend on this similarity. 5 % of the training "
            "molecules are less similar to the others than the threshold"
        )
    yield f"- Errors inside and outside the domain ({_cell(domain['error'])}):"
    for split in domain["inside"]:
        name = "validation" if split == "val" else split
        yield f"  - {name}: {domain_errors(domain, split)}"


def _use(model: PropertyModel) -> Iterator[str]:
    if not model.task.targets:
        use = ["molsepnorm embed --model FOLDER --input molecules.csv --output embeddings.csv"]
        use += ["molsepnorm train --data my.csv --from FOLDER"]
    else:
        use = ["molsepnorm predict --model FOLDER --input molecules.csv --output predicted.csv"]
        use += [
            "python -c \"import molsepnorm; print(molsepnorm.Predictor.from_pretrained('FOLDER')"
            ".predict(['CCO']))\""
        ]
    yield "FOLDER is the folder of this file.\n"
    yield from ("```", "pip install molsepnorm", *use, "```")


def _confidential() -> Iterator[str]:
    yield "The model was trained in a run folder, whose files hold more than the model needs."
    yield "`molsepnorm share RUN out.zip` leaves out those that hold structures, labels, paths or"
    yield "names of machines and users.\n"
    rows = [
        [f"`{name}`", what]
        for name, what in CONTENTS.items()
        if name[:5] != "model" or TRAINING_FILE in name
    ]
    yield from _table(["file of the run", "content"], rows)


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    for cells in (headings, ["---"] * len(headings), *rows):
        yield f"| {' | '.join(map(_cell, cells))} |"


def _cell(value: object) -> str:
    """Return a text on one line, in which | does not end a cell of a table."""
    return " ".join(str(value).split()).replace("|", "\\|")


_KERNEL = "kernel regression"


def composition(model: PropertyModel, epochs: int) -> str:
    """Return what a model with targets consists of, such as "35 % kernel regression, 65 % random
    forest".

    Args:
        model: the model of a run.
        epochs: number of epochs of the run. After one or more, a kernel regression without a
            network means that the fine-tuned network was left out.
    """
    shares: defaultdict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    for network, weight in zip(model.networks, model.weights, strict=True):
        name = _KERNEL if network.config.head == "kernel" else "network"
        shares[name] += weight * (1 - model.forest_share)
        counts[name] += 1
    if model.forests:
        shares["random forest"], counts["random forest"] = model.forest_share, len(model.forests)
    used = {
        name: f"{name} (mean of {counts[name]})" if counts[name] > 1 else name
        for name in shares
        if shares[name]
    }
    text = ", ".join(f"{100 * shares[name]:.0f} % {part}" for name, part in used.items())
    if len(used) == 1:
        (part,) = used.values()
        text = f"the {part} alone"
    if epochs and _KERNEL in used and "network" not in used:
        text += "; the fine-tuned network did not improve the validation score and is not used"
    return text

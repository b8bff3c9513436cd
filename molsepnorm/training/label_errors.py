"""`with_unexplained`: what a model cannot explain beside the errors of labels.

It is fitted to leave-one-out residuals of a kernel regression on descriptors and fingerprint
counts. Those of the model itself would be a little smaller, but they are known only after it is
fitted with the weights, and a resumed run or an ensemble would have to keep them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from molsepnorm.data.datasets import Dataset
from molsepnorm.errors import ConfigError, InvalidMolecule
from molsepnorm.model.molecule_columns import MoleculeColumns
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.tasks.label_errors import fit_unexplained
from molsepnorm.tasks.metrics import significant
from molsepnorm.training.completing.baseline import forest_inputs
from molsepnorm.training.inputs import with_inputs
from molsepnorm.training.probe.kernel import left_out_by_structure
from molsepnorm.training.scoring import drawn

_MOST = 3000  # training molecules of the regression, a few seconds


def with_unexplained(
    dataset: Dataset,
    inputs: ExtraInputs,
    progress: Callable[[int, int], None],
    molecules: MoleculeColumns | None = None,
) -> Dataset:
    """Return the data set with `unexplained` for the targets with errors, and a line about each.

    Args:
        inputs: inputs of the model, whose feature columns the regression compares, too.
        molecules: computes the vectors of columns of molecules.

    Raises:
        ConfigError: there are errors, and the molecules are no SMILES that RDKit reads.
    """
    if dataset.errors is None:
        return dataset
    has_errors = np.flatnonzero(np.isfinite(dataset.errors).any(axis=0))
    rows = drawn(dataset.splits["train"], _MOST)
    labels, errors = (each[rows][:, has_errors] for each in (dataset.exact_labels, dataset.errors))
    task = Task.fit([dataset.targets[i] for i in has_errors], labels, "loss", strict=False)
    reads = forest_inputs(inputs)
    try:
        if dataset.smiles is None:
            raise InvalidMolecule("there are no SMILES")
        extra = with_inputs(dataset, reads, progress, molecules=molecules)[1]
        extra = extra.of(rows).read_by(reads)
    except InvalidMolecule as error:
        raise ConfigError(f"data.error_column needs SMILES that RDKit reads: {error}") from None
    outputs = left_out_by_structure(task, labels, extra, reads, dataset.molecule_ids[rows])
    values = task.predictions(torch.from_numpy(outputs)).numpy()
    unexplained, lines = dict[str, float](), list[str]()
    for i, target in enumerate(task.targets):
        known = np.isfinite(labels[:, i] - values[:, i])
        residuals, own = (labels - values)[known, i], errors[known, i]
        found = fit_unexplained(residuals, own, target.scale) if known.any() else target.scale
        unexplained[target.name] = found
        lines.append(
            f"{target.name}: labels have the weights 1 / (σ² + τ²) with their errors σ and "
            f"τ = {significant(found, 2)}, what a model cannot explain."
        )
    return replace(dataset, unexplained=unexplained, warnings=(*dataset.warnings, *lines))

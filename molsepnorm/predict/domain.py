"""`require_domain` and `domain_columns`: is a molecule like the training molecules?"""

from __future__ import annotations

import numpy as np

from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.predict.encode import EncodedRows
from molsepnorm.tasks.target import BOUND_SIGNS

DOMAIN_COLUMNS = ("similarity", "in_domain", "nearest_smiles")
"""The columns of the applicability domain that do not depend on the targets."""


def require_domain(model: PropertyModel) -> TrainingMolecules:
    """Return the training molecules of a model that has them and the threshold of its domain."""
    model.require_targets()
    molecules = model.training_molecules()
    if model.domain is None:
        raise ConfigError(
            "this model has its training molecules, but no threshold of similarity, because one of "
            "the models that it was joined from has none. Predict without the domain"
        )
    return molecules


def domain_columns(
    model: PropertyModel, molecules: TrainingMolecules, encoded: EncodedRows
) -> dict[str, np.ndarray]:
    """Return the columns of the applicability domain by name.

    `similarity` is the Tanimoto similarity of Morgan fingerprints (radius 2, 2,048 bits) to the
    most similar training molecule, `nearest_smiles`; empty if none is similar at all. `in_domain`
    says whether the model's errors are known at this similarity, see `Domain`, and all numbers of
    feature columns are in the range of the training rows. <target>_expected_error is the mean error
    of validation molecules of this similarity. <target>_nearest is the label of the training
    molecule in the unit of the table, as text such as ">10" if some labels of the target are
    bounds; missing if the model has feature columns and the molecule has different labels.
    """
    assert model.domain is not None
    assert encoded.similarity is not None and encoded.nearest is not None
    similarity, rows = encoded.similarity, encoded.nearest
    missing = ~(similarity > 0)
    measured, signs, several = molecules.measured
    smiles = np.array([molecules.smiles[row] for row in rows], dtype=object)
    smiles[missing] = ""
    in_domain = model.domain.contains(similarity)
    expected = model.domain.expected(similarity)
    if encoded.outside is not None:
        in_domain &= ~encoded.outside.any(axis=1)
    columns = dict(zip(DOMAIN_COLUMNS, (similarity, in_domain, smiles), strict=True))
    for i, target in enumerate(model.task.targets):
        labels, bounds = measured[rows, i], signs[rows, i]
        labels[missing] = np.nan
        if model.inputs.columns:
            labels[several[rows, i]] = np.nan
        if target.classes:
            names = np.array([*target.classes, ""], dtype=object)
            labels = names[np.where(np.isnan(labels), len(target.classes), labels).astype(int)]
        elif molecules.bounds[:, i].any():
            texts = [
                "" if np.isnan(label) else f"{BOUND_SIGNS.get(sign, '')}{label:.9g}"
                for label, sign in zip(labels, bounds.tolist(), strict=True)
            ]
            labels = np.array(texts, dtype=object)
        columns[target.expected_column] = expected[:, i]
        columns[target.nearest_column] = labels
    return columns

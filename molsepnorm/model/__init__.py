"""A trained model: its parts, and everything that is needed to predict with them.

- `model`: `PropertyModel`, the model in memory;
- `parts/`: networks, kernel regressions and forests, whose predictions are averaged;
- `folder`: writes a model to a folder, reads it back, and checks that its parts fit each other;
- `training_molecules`: the molecules that a model was trained on, as a file of that folder;
- `joining`: one model of several, which predicts their mean.
"""

from molsepnorm.model.folder import (
    README,
    SCHEMA,
    SUPERVISED,
    require_new_model,
    require_replaceable,
    weights_digest,
)
from molsepnorm.model.joining import join
from molsepnorm.model.model import PropertyModel
from molsepnorm.model.parts import ExtraArrays, Inputs, encoding_of

__all__ = [
    "README",
    "SCHEMA",
    "SUPERVISED",
    "ExtraArrays",
    "Inputs",
    "PropertyModel",
    "encoding_of",
    "join",
    "require_new_model",
    "require_replaceable",
    "weights_digest",
]

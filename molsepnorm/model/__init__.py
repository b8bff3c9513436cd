"""A trained model: the networks, and everything that is needed to predict with them.

- `model`: `PropertyModel`, the model in memory;
- `folder`: writes a model to a folder and reads it back;
- `description`: `config.json`, the file of that folder with everything but numbers;
- `weights`: `model.safetensors`, the file with the tensors;
- `encoding`: the encoding of molecules that a network reads, and the featuriser that provides it;
- `joining`: one model of several, which predicts their mean;
- `checks`: whether the parts of a model fit each other;
- `verification`: whether the files of a model folder are intact.

`folder` and the files that it uses do not import `PropertyModel`: reading returns its fields.
"""

from molsepnorm.model.description import SCHEMA, SUPERVISED
from molsepnorm.model.encoding import encoding_of
from molsepnorm.model.folder import (
    README,
    require_new_model,
    require_replaceable,
    weights_digest,
)
from molsepnorm.model.joining import join
from molsepnorm.model.model import PropertyModel
from molsepnorm.model.verification import check_files

__all__ = [
    "README",
    "SCHEMA",
    "SUPERVISED",
    "PropertyModel",
    "check_files",
    "encoding_of",
    "join",
    "require_new_model",
    "require_replaceable",
    "weights_digest",
]

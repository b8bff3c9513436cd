"""A trained model: its parts, and everything that is needed to predict with them."""

from molsepnorm.model.folder import README, SCHEMA, SUPERVISED, require_new_model, weights_digest
from molsepnorm.model.model import PropertyModel, join
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
    "weights_digest",
]

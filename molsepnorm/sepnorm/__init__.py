"""SepNorm: separate normalisation layers for the graph token (or CLS token) and the other tokens.

The layers work in any transformer, and `convert_to_sepnorm` replaces those of an existing one. Only
PyTorch is needed.
"""

from molsepnorm.sepnorm.batch_norm import MaskedBatchNorm1d, synchronize_norms
from molsepnorm.sepnorm.conversion import Conversion, convert_to_sepnorm
from molsepnorm.sepnorm.multi_token import MultiTokenSepNorm
from molsepnorm.sepnorm.sepnorm import SepNorm, SharedNorm

__all__ = [
    "Conversion",
    "MaskedBatchNorm1d",
    "MultiTokenSepNorm",
    "SepNorm",
    "SharedNorm",
    "convert_to_sepnorm",
    "synchronize_norms",
]

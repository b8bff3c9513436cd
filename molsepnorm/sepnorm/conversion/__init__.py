"""SepNorm for existing transformers, of other libraries or your own."""

from molsepnorm.sepnorm.conversion.convert import convert_to_sepnorm
from molsepnorm.sepnorm.conversion.multi_token import MultiTokenSepNorm
from molsepnorm.sepnorm.conversion.result import Conversion, Site

__all__ = ["Conversion", "MultiTokenSepNorm", "Site", "convert_to_sepnorm"]

"""SepNorm for transformers that are there already, of other libraries or one's own."""

from molsepnorm.nn.conversion.convert import convert_to_sepnorm
from molsepnorm.nn.conversion.leading import LeadingSepNorm
from molsepnorm.nn.conversion.record import Conversion, Site

__all__ = ["Conversion", "LeadingSepNorm", "Site", "convert_to_sepnorm"]

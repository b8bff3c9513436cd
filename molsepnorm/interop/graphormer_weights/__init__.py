"""Import the weights of other Graphormers: transformers', and the reference's first release."""

from molsepnorm.interop.graphormer_weights.run import ConversionReport, Parity, convert

__all__ = ["ConversionReport", "Parity", "convert"]

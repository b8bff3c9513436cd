"""The network: tensors in, tensors out. It imports torch alone and can be used without the rest.

Dimension letters, here and everywhere else:

=====  ==========================================================================
B      graphs of a batch
N      atoms of a graph (of the largest one, where padded)
S      slots of a graph, N + 1: slot 0 is the graph token
M      slots of a whole batch: the sum of S, padding included
P      slot pairs of a whole batch: the sum of S²
C      channels (the model's width)
H      heads
K      bond labels
D      bonds of the atom that has the most
E      channels of a slot pair's vector
F      features of a slot pair
L      longest path whose bonds are told apart
V      path vocabulary
W      steps of a random walk
T      targets
=====  ==========================================================================
"""

from molsepnorm.nn.batch import Block, GraphBatch, PathTable
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.sepnorm.batch_norm import MaskedBatchNorm1d, synchronize_norms
from molsepnorm.sepnorm.conversion import Conversion, LeadingSepNorm, convert_to_sepnorm
from molsepnorm.sepnorm.kinds import BatchRenorm1d, MixNorm
from molsepnorm.sepnorm.sepnorm import SepNorm, SharedNorm

__all__ = [
    "BatchRenorm1d",
    "Block",
    "Conversion",
    "GraphBatch",
    "Graphormer",
    "GraphormerConfig",
    "LeadingSepNorm",
    "MaskedBatchNorm1d",
    "MixNorm",
    "PathTable",
    "SepNorm",
    "SharedNorm",
    "convert_to_sepnorm",
    "synchronize_norms",
]

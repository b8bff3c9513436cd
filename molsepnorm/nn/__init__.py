"""The network. It maps tensors to tensors and needs only PyTorch.

Dimension letters, used in the whole package:

=====  ==========================================================================
B      graphs of a batch
N      atoms of a graph (of the largest one if padded)
S      slots of a graph, N + 1: slot 0 is the graph token
M      slots of a whole batch: the sum of S, padding included
P      slot pairs of a whole batch: the sum of S²
C      channels (the model's width)
H      heads
K      bond labels
D      maximum number of bonds on any atom
E      directed bonds
F      features of a slot pair, or of a molecule
L      number of bonds of a path that are encoded
V      path vocabulary
W      steps of a random walk
T      targets
=====  ==========================================================================
"""

from molsepnorm.nn.batch import GraphBatch, PaddedGroup, PathTable
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer

__all__ = ["GraphBatch", "Graphormer", "GraphormerConfig", "PaddedGroup", "PathTable"]

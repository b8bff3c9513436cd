"""The four codes of an atom pair that are no paths; paths are numbered from `SELF` on.

Shared by the encodings, which assign the codes, and the network, which has a bias for each.
"""

__all__ = ["GRAPH_TOKEN", "PADDING", "SELF", "UNREACHABLE"]

PADDING = 0
"""The second slot of the pair holds no atom: it must not be attended."""

GRAPH_TOKEN = 1
"""At least one slot of the pair is the graph token."""

UNREACHABLE = 2
"""Two atoms of different fragments, as in salts."""

SELF = 3
"""An atom with itself: the empty path."""

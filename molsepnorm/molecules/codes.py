"""The codes of atom pairs that are smaller than all path codes."""

__all__ = ["GRAPH_TOKEN", "PADDING", "SELF", "UNREACHABLE"]

PADDING = 0
"""The second slot of the pair is padding and must not be attended to."""

GRAPH_TOKEN = 1
"""At least one slot of the pair is the graph token."""

UNREACHABLE = 2
"""Two atoms of different fragments, such as the ions of a salt."""

SELF = 3
"""An atom and itself: the empty path, which is the first of the path codes."""

"""`PairTensors`: what the layers read about pairs of slots."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from molsepnorm.nn.pairs.neighbours import Neighbours


@dataclass(frozen=True)
class PairTensors:
    """Tensors of slot pairs, one for each padded group. Q is S, or 1 if only graph tokens query."""

    bias: list[Tensor]
    """(H, graphs, Q, S): added to the attention logits; −∞ if the key is padding."""
    gates: list[Tensor] | None = None
    """(H, graphs, Q, S): factors of the attention weights, applied after the softmax. They must be
    finite, also in padding."""
    neighbours: Neighbours | None = None
    """The bonds of the whole batch."""

    def first_query(self) -> PairTensors:
        """Return the tensors for the queries of slot 0, the graph token."""
        gates = self.gates
        return replace(
            self,
            bias=[part[:, :, :1] for part in self.bias],
            gates=None if gates is None else [part[:, :, :1] for part in gates],
        )

"""`KeepsFloat32`: a module that `network.bfloat16()` leaves in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class KeepsFloat32(nn.Module):
    """A module whose numbers stay in float32 where the rest of a model has a lower precision."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        def kept(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            is_low = changed.is_floating_point() and changed.element_size() < 4
            return tensor.to(changed.device) if is_low else changed

        return super()._apply(kept, recurse)

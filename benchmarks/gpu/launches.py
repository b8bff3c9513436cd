"""How many launches a training step would be on a GPU, counted on a CPU without one.

    MOLSEPNORM_DATA=... python benchmarks/gpu/launches.py configs/zinc.yaml --set run.blocks=1

Operations of one step, forward to average, by the way that they take on a GPU; views and empty
tensors are none, and one on a list of tensors counts as many as its kernels take lists of that
length. An operation that is several kernels there (a sort, an inverse matrix) counts once, so the
figure is a lower bound, for comparing networks.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import click  # noqa: E402
import torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from gpu.trainers import trainer_of  # noqa: E402
from molsepnorm.cli.options import parse_settings  # noqa: E402
from molsepnorm.nn.kernels import attention, fused_attention  # noqa: E402
from molsepnorm.nn.kernels.dropout import ByteDropout  # noqa: E402
from molsepnorm.training import load_config  # noqa: E402
from molsepnorm.training.loop import Trainer  # noqa: E402

__all__ = ["launches"]

_AT_ONCE = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
"""Tensors of each list that one kernel of PyTorch's takes, by the number of lists."""
_VIEWS = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "_unsafe_view")
_NONE = {*_VIEWS, "attend", "attend_backward"}  # the latter are counted where they are launched


class Counting(TorchDispatchMode):
    """Counts launches by the names of their operations."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        aliases = [each.alias_info for each in func._schema.returns if each.alias_info is not None]
        if name not in _NONE and not any(not alias.is_write for alias in aliases):
            lists = [each for each in args if isinstance(each, list | tuple) and len(each) > 2]
            tensors = [each for each in lists if isinstance(each[0], Tensor)]
            many = name.startswith(("_foreach", "_fused")) and tensors
            self.found[name] += -(-len(tensors[0]) // _AT_ONCE[len(tensors)]) if many else 1
        return func(*args, **(kwargs or {}))


def launches(trainer: Trainer) -> Counter[str]:
    """Of the trainer's third step."""
    batches = trainer.plan(0)[:3]
    counting = Counting()

    def launched(name: str, qkv: Tensor, bias: list[Tensor], *rest: Any) -> None:
        counting.found["attention, fused"] += len(bias)

    def weights(q: Tensor, k: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        logits = torch.baddbmm(bias, q, k.transpose(1, 2))
        return logits.softmax(-1), logits.new_ones(len(q), q.shape[1], 1)

    def dropped(self: ByteDropout, x: Tensor) -> Tensor:
        return torch.native_dropout(x, self.dropped / 256, True)[0] if self.dropped else x

    with ExitStack() as stack:
        for target, name, value in (
            (fused_attention, "DEVICES", {"cpu"}),
            (fused_attention, "_runs_on", lambda device: True),
            (fused_attention, "_launch", launched),
            (attention, "_exponentials", weights),
            (ByteDropout, "forward", dropped),
            (ByteDropout, "add", lambda self, residual, x: residual + self(x)),
        ):
            stack.enter_context(patch.object(target, name, value))
        trainer.take_steps(batches[:2])
        counting.found.clear()
        with counting:
            trainer.take_steps(batches[2:])
    return counting.found


@click.command(help=__doc__)
@click.argument("recipe", type=click.Path(path_type=Path, exists=True))
@click.option("--set", "settings", multiple=True, callback=parse_settings, help="NAME=VALUE.")
def main(recipe: Path, settings: dict[str, Any]) -> None:
    config = load_config(config=recipe, overrides=settings)
    found = launches(trainer_of(config))
    print(f"{recipe.stem}: {found.total():,} launches a step; most are")
    print(", ".join(f"{name} {count}" for name, count in found.most_common(12)))


if __name__ == "__main__":
    main()

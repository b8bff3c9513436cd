"""A small network on made-up molecules, computed along several paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch import nn

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.devices.context import Precision, autocast, on_device, products_in
from molsepnorm.devices.verdict import Results, Verdict, first_line, judge, remembered
from molsepnorm.molecules.encodings.encode import EncodingSpec, encode
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernels import fused_attention

__all__ = [
    "SIZES",
    "Way",
    "act_on",
    "bound_of",
    "compare",
    "network_of",
    "outputs",
    "settle",
    "small",
    "tensors",
    "undisturbed",
    "usable",
]

_BOUNDS: dict[Precision, float] = {"fp32": 5e-4, "tf32": 1e-2, "bf16": 6e-2}
"""Largest relative difference. The unit roundoffs are 6e-8, 5e-4 and 4e-3; outputs, gradients and
what three steps change were up to 2e-5 apart in fp32 on a CPU, and up to 2e-2 in bf16."""

_ILL_CONDITIONED = 20
"""Square roots in the attention by pair vectors make rounding errors so many times as large."""

SIZES = (1, 5, 9, 12, 14, 18, 22, 25, 28, 30, 34, 38, 42, 48, 57, 70)
"""Atoms of the molecules: each of the kernels' tiles (16, 32, 64 and 128 slots) has some."""


@dataclass(frozen=True)
class Way:
    """A way of computing; the default is the plain one."""

    precision: Precision = "fp32"
    fused: bool = False
    captured: bool = False


def bound_of(config: GraphormerConfig, precision: Precision) -> float:
    """The largest relative difference that a precision explains in such a network."""
    return _BOUNDS[precision] * (_ILL_CONDITIONED if config.pair_width else 1)


def compare(
    config: GraphormerConfig, wanted: Way, device: torch.device, results: Callable[[Way], Results]
) -> Iterator[Verdict]:
    """Verdicts on the parts of a wanted way, each added to those before it that passed.

    Args:
        config: the network's.
        wanted: with the parts to check.
        device: where; the fused attention is switched on and off there.
        results: computes along a way.
    """

    def along(way: Way) -> Results:
        with fused_attention.without_kernels(not way.fused), undisturbed(device):
            return results(way)

    try:
        plain, broken = along(Way()), ""
    except Exception as error:
        plain, broken = {}, f"the plain path's {first_line(error)}"
    way = Way()
    parts: list[tuple[str, dict[str, Any]]] = [
        (wanted.precision, {"precision": wanted.precision}),
        ("fused attention", {"fused": wanted.fused}),
        ("captured steps", {"captured": wanted.captured}),
    ]
    for path, part in parts:
        candidate = replace(way, **part)
        if candidate == way:
            continue
        bound = bound_of(config, candidate.precision)
        if broken:
            yield Verdict(path, {}, bound, broken)
            continue
        verdict = judge(path, bound, lambda chosen=candidate: along(chosen), plain)  # type: ignore[misc]
        if verdict.passed:
            way = candidate
        yield verdict


_settled: set[tuple[GraphormerConfig, torch.device, Precision]] = set()


def settle(config: GraphormerConfig, device: torch.device, precision: Precision) -> list[str]:
    """Check the fast paths of a network's forward pass on a device, if that has not been done.

    The fused attention is switched off where it computes something else than PyTorch's operations.

    Returns:
        A line for each path that failed.
    """
    key = config, device, precision
    if key in _settled:
        return []
    _settled.add(key)
    reduced = small(config)
    wanted = Way(precision, usable(config, device))
    if wanted == Way():
        return []
    settings = {"network": asdict(reduced), "way": asdict(wanted), "of": "outputs"}
    verdicts = remembered(
        device,
        settings,
        lambda: compare(reduced, wanted, device, lambda way: outputs(reduced, way, device)),
    )
    return act_on(verdicts, device)


def act_on(verdicts: tuple[Verdict, ...], device: torch.device) -> list[str]:
    """Switch a faulty fused attention off; a line for each path that failed but captured steps."""
    lines = []
    for verdict in verdicts:
        if verdict.passed or verdict.path == "captured steps":
            continue
        if "attention" in verdict.path:
            fused_attention.DEVICES.discard(device.type)
            what = f"PyTorch's attention replaces the fused one on {device}: compared with it"
        else:
            what = (
                f"The precision is {verdict.path} on {device}, as asked for, but compared with fp32"
            )
        lines.append(f"{what} {'it' if verdict.error else 'its'} {verdict}")
    return lines


def usable(config: GraphormerConfig, device: torch.device) -> bool:
    """Return whether the fused attention can compute layers of this architecture."""
    if config.urpe or config.pair_width:
        return False
    x = torch.zeros(1, config.width, device=device)
    return fused_attention.fits(x, (), config.heads)


def small(config: GraphormerConfig) -> GraphormerConfig:
    """Return the architecture with at most two layers, no dropout, and Xavier initialisation."""
    still = replace(
        config, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, drop_path=0.0
    )
    return replace(still, layers=min(config.layers, 2), init="xavier", outputs=2)


def network_of(config: GraphormerConfig, device: torch.device) -> Graphormer:
    """Make a network with the same weights and running statistics on every device."""
    torch.manual_seed(0)
    network = Graphormer(config)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.LayerNorm | nn.RMSNorm | nn.BatchNorm1d):
                for parameter in module.parameters():
                    parameter.add_(torch.randn_like(parameter), alpha=0.1)
            if isinstance(module, nn.BatchNorm1d) and module.running_mean is not None:
                module.running_mean.normal_(std=0.1)
                module.running_var.uniform_(0.5, 2.0)  # type: ignore[union-attr]
    return network.to(device)


def outputs(config: GraphormerConfig, way: Way, device: torch.device) -> Results:
    """The outputs of a network in evaluation mode."""
    network = network_of(config, device).eval()
    batch = tensors(config, device).cut(np.arange(len(SIZES)), max_groups=4)
    with torch.no_grad(), products_in(way.precision, device), autocast(way.precision, device):
        return {"outputs": [network(batch)]}


def tensors(config: GraphormerConfig, device: torch.device) -> GraphTensors:
    """Made-up molecules of `SIZES`, with the features that a network reads."""
    rng = np.random.default_rng(0)
    spec = EncodingSpec(
        config.bond_sizes,
        config.max_degree,
        config.max_distance,
        config.max_path_length,
        config.molecule_features,
    )
    graphs = [_molecule(size, config, rng) for size in SIZES]
    return GraphTensors.of(encode(graphs, spec), device)


def _molecule(size: int, config: GraphormerConfig, rng: np.random.Generator) -> MolGraph:
    """A branched chain with five- and six-membered rings."""
    bonds = {(max(0, atom - 1 - int(rng.integers(0, 3) == 0)), atom) for atom in range(1, size)}
    bonds |= {
        (atom - ring, atom) for atom, ring in zip(range(5, size, 8), cycle((5, 4)), strict=False)
    }
    features = [rng.integers(0, config.atom_sizes) for _ in range(size)]
    kinds = [rng.integers(0, config.bond_sizes) for _ in bonds]
    return MolGraph(
        np.array(features),
        np.array(sorted(bonds), dtype=int).reshape(-1, 2),
        np.array(kinds, dtype=int).reshape(-1, len(config.bond_sizes)),
        rng.normal(size=config.molecule_features) if config.molecule_features else None,
    )


@contextmanager
def undisturbed(device: torch.device) -> Iterator[None]:
    """Within, gradients are on and the device is current; the random state is restored."""
    gpus = [device] if device.type == "cuda" else []
    with ExitStack() as stack:
        stack.enter_context(on_device(device))
        stack.enter_context(torch.random.fork_rng(gpus))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        yield

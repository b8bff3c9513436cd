"""Compare a small network on random molecules along the plain path and the fast ones.

Inference, training and `molsepnorm doctor` do this before a device's first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import cycle

import numpy as np
import torch
from torch import nn

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.devices.context import Precision, autocast, on_device, products_in
from molsepnorm.devices.layers import check_fused_dropout
from molsepnorm.devices.verdict import Results, Verdict, differences, judge, remembered
from molsepnorm.molecules.encodings.encoding import EncodingSpec, encode
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernels import fused_attention

__all__ = [
    "BOUNDS",
    "SIZES",
    "Way",
    "compare",
    "network_of",
    "results",
    "settle",
    "small",
    "tensors",
    "undisturbed",
    "usable",
]

BOUNDS: dict[Precision, float] = {"fp32": 5e-4, "tf32": 1e-2, "bf16": 6e-2}
"""Largest relative difference that a precision explains. The unit roundoffs are 6e-8, 5e-4 and
4e-3. On a CPU outputs, gradients and the changes of three steps differed by up to 2e-5 in fp32, and
2e-2 in bf16."""

SIZES = (1, 5, 9, 12, 14, 18, 22, 25, 28, 30, 34, 38, 42, 48, 57, 70)
"""Atoms of the molecules. There are some for each tile of the kernels (16, 32, 64, 128 slots)."""


@dataclass(frozen=True)
class Way:
    """A way to compute; the default is the plain path."""

    precision: Precision = "fp32"
    fused: bool = False


def compare(
    config: GraphormerConfig, precision: Precision, device: torch.device
) -> Iterator[Verdict]:
    """Compare a precision, then the fused attention in it, with the plain path on a device.

    Args:
        config: the architecture; a small one of this kind is compared.
        precision: the precision to check, unless it is fp32.
        device: the device. The fused attention is checked if the device has it.
    """
    reduced, bound = small(config), BOUNDS[precision]

    def along(way: Way) -> Results:
        with fused_attention.without_kernels(not way.fused), undisturbed(device):
            return results(reduced, way, device)

    plain = cache(lambda: along(Way()))

    def verdict_on(path: str, way: Way) -> Verdict:
        return judge(path, bound, lambda: differences(along(way), plain()))

    if precision != "fp32":
        verdict = verdict_on(precision, Way(precision))
        yield verdict
        precision = precision if verdict.passed else "fp32"
    if usable(config, device):
        verdict = verdict_on("fused attention", Way(precision, fused=True))
        yield verdict
        if verdict.passed and config.attention_dropout:
            dtype = torch.bfloat16 if precision == "bf16" else torch.float32
            size = config.width // config.heads
            with undisturbed(device), products_in(precision, device):
                yield check_fused_dropout(device, config.heads, size, bound, dtype)


_settled: set[tuple[GraphormerConfig, torch.device, Precision]] = set()


def settle(config: GraphormerConfig, device: torch.device, precision: Precision) -> list[str]:
    """Check the fast paths of a network before their first use on a device.

    The fused attention is switched off if it fails.

    Returns:
        A line for each path that failed.
    """
    key, fused = (config, device, precision), usable(config, device)
    if key in _settled or (not fused and precision == "fp32"):
        return []
    _settled.add(key)
    settings = {
        "network": asdict(small(config)),
        "way": asdict(Way(precision, fused)),
        "attention_dropout": bool(config.attention_dropout),
    }
    lines = []
    for verdict in remembered(device, settings, lambda: compare(config, precision, device)):
        if verdict.passed:
            continue
        what = f"{precision} is used on {device} as configured, but compared with fp32"
        if "attention" in verdict.path:
            fused_attention.DEVICES.discard(device.type)
            what = f"PyTorch's attention replaces the fused one on {device}: compared with it"
        lines.append(f"{what} {'it' if verdict.error else 'its'} {verdict}")
    return lines


def usable(config: GraphormerConfig, device: torch.device) -> bool:
    """Return whether the fused attention can compute layers of this architecture."""
    if config.urpe:
        return False
    x = torch.zeros(1, config.width, device=device)
    return fused_attention.fits(x, (), config.heads)


def small(config: GraphormerConfig) -> GraphormerConfig:
    """Return the architecture with at most two layers, no dropout, and Xavier initialisation."""
    return replace(
        config,
        layers=min(config.layers, 2),
        init="xavier",
        outputs=2,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
    )


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


def results(config: GraphormerConfig, way: Way, device: torch.device) -> Results:
    """Return the network's outputs in evaluation and training mode, and gradients of the latter."""
    network = network_of(config, device)
    batch = tensors(config, device).cut(np.arange(len(SIZES)), max_groups=4)
    with products_in(way.precision, device):
        with autocast(way.precision, device), torch.no_grad():
            evaluated = network.eval()(batch)
        with autocast(way.precision, device):
            outputs = network.train()(batch)
        factors = torch.linspace(-1, 1, outputs.numel(), device=device).view_as(outputs)
        (outputs * factors).sum().backward()
    gradients = [each.grad for each in network.parameters() if each.grad is not None]
    return {"outputs": [evaluated, outputs.detach()], "gradients": gradients}


def tensors(config: GraphormerConfig, device: torch.device) -> GraphTensors:
    """Return random molecules of `SIZES` with the features that a network reads."""
    rng = np.random.default_rng(0)
    fields = ("max_degree", "max_distance", "max_path_length", "molecule_features")
    spec = EncodingSpec(config.bond_sizes, *(getattr(config, name) for name in fields))
    graphs = [_molecule(size, config, rng) for size in SIZES]
    return GraphTensors.of(encode(graphs, spec), device)


def _molecule(size: int, config: GraphormerConfig, rng: np.random.Generator) -> MolGraph:
    """Return a branched chain with five- and six-membered rings."""
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
    """Enable gradients, make the device the current one, and restore the random state."""
    gpus = [device] if device.type == "cuda" else []
    with (
        on_device(device),
        torch.random.fork_rng(gpus),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        yield

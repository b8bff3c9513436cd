"""Graphormer of transformers 4.57.6: its preprocessing, its collator, its network.

The preprocessing is in Cython and is compiled at its first import (into ~/.pyxbld). This needs a C
compiler and Cython before 3.1, which dropped a name that it uses.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from torch import Tensor, nn

from molsepnorm.molecules.molecule import MolGraph
from peers import PeerMissing

__all__ = ["NAME", "collator", "outputs", "preprocessor", "raw_item", "slim"]

_VERSION = "4.57.6"
NAME = f"transformers {_VERSION}"
_HOME = "transformers.models.deprecated.graphormer"

Item = dict[str, Any]


def raw_item(graph: MolGraph, label: float) -> Item:
    """Return a molecule before preprocessing: ZINC's graph, every bond in both directions."""
    return {
        "node_feat": graph.atom_features.astype(np.int64),
        "edge_attr": np.concatenate([graph.bond_features] * 2).astype(np.int64),
        "edge_index": np.concatenate([graph.bonds, graph.bonds[:, ::-1]]).T.astype(np.int64),
        "num_nodes": graph.num_atoms,
        "labels": np.array([label], dtype=np.float32),
    }


def preprocessor() -> Callable[[Item], Item]:
    """Return `preprocess_item`, without its change of the given item.

    Raises:
        PeerMissing: transformers or Cython is not installed, or does not work.
    """
    preprocess = _module("collating_graphormer").preprocess_item
    return lambda item: preprocess(dict(item))


def collator() -> Callable[[Sequence[Item]], dict[str, Tensor]]:
    """Return the default `GraphormerDataCollator`, for preprocessed items.

    Raises:
        PeerMissing: transformers or Cython is not installed, or does not work.
    """
    collate = _module("collating_graphormer").GraphormerDataCollator()
    # copies, since it puts tensors into its items
    return lambda items: collate([dict(item) for item in items])


def slim() -> nn.Module:
    """Make Graphormer-SLIM, pre-norm, with embedding tables of the size that v1 has for ZINC.

    12 layers, 80 wide, 8 heads, feed-forward 80, dropout and attention dropout 0.1, paths of 20
    bonds.

    Raises:
        PeerMissing: transformers is not installed, or has another version.
    """
    config = _module("configuration_graphormer").GraphormerConfig(
        num_classes=1,
        num_atoms=63,
        num_edges=63,
        num_in_degree=64,
        num_out_degree=64,
        num_spatial=512,
        num_edge_dis=40,
        multi_hop_max_dist=20,
        num_hidden_layers=12,
        embedding_dim=80,
        ffn_embedding_dim=80,
        num_attention_heads=8,
        dropout=0.1,
        attention_dropout=0.1,
        activation_dropout=0.0,
        pre_layernorm=True,
    )
    return _module("modeling_graphormer").GraphormerForGraphClassification(config)


def outputs(network: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:  # (B, 1)
    """Compute the outputs for a batch of the collator, without the loss."""
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    return network(**inputs, return_dict=True).logits


def _module(name: str) -> Any:
    try:
        if (found := version("transformers")) != _VERSION:
            raise PeerMissing(f"transformers {found} is installed, not {_VERSION}")
        if name == "collating_graphormer":
            version("cython")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(f"{_HOME}.{name}")
    except (PackageNotFoundError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise PeerMissing(
            f"{NAME} cannot be used ({reason}): pip install -r benchmarks/peers/requirements.txt"
        ) from error

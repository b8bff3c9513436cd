"""Graphormer of transformers 4.57.6: its preprocessing, its collator, its network.

Its preprocessing is in Cython and compiled when it is first imported (into ~/.pyxbld); it uses a
name that Cython 3.1 dropped, so Cython has to be older, and a C compiler has to be there.
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
    """A molecule as its users have it before preprocessing: ZINC's graph, every bond both ways."""
    return {
        "node_feat": graph.atom_features.astype(np.int64),
        "edge_attr": np.concatenate([graph.bond_features] * 2).astype(np.int64),
        "edge_index": np.concatenate([graph.bonds, graph.bonds[:, ::-1]]).T.astype(np.int64),
        "num_nodes": graph.num_atoms,
        "labels": np.array([label], dtype=np.float32),
    }


def preprocessor() -> Callable[[Item], Item]:
    """Its `preprocess_item`, which leaves the item that it is given as it is.

    Raises:
        PeerMissing: transformers or Cython is not here, or does not work.
    """
    preprocess = _module("collating_graphormer").preprocess_item
    return lambda item: preprocess(dict(item))


def collator() -> Callable[[Sequence[Item]], dict[str, Tensor]]:
    """Its `GraphormerDataCollator` with its defaults, for preprocessed items.

    Raises:
        PeerMissing: transformers or Cython is not here, or does not work.
    """
    collate = _module("collating_graphormer").GraphormerDataCollator()
    # it puts tensors into the items that it is given
    return lambda items: collate([dict(item) for item in items])


def slim() -> nn.Module:
    """Graphormer-SLIM, pre-norm, with tables of the size that v1 has for ZINC.

    12 layers, 80 wide, 8 heads, feed-forward 80, dropout and attention dropout 0.1, paths of 20
    bonds.

    Raises:
        PeerMissing: transformers is not here, or of another version.
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
    """What its network gives for a batch of its collator; its loss is left out."""
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    return network(**inputs, return_dict=True).logits


def _module(name: str) -> Any:
    try:
        if (found := version("transformers")) != _VERSION:
            raise PeerMissing(f"transformers {found} is here, not {_VERSION}")
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

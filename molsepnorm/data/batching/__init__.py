"""Batches: the molecules that share one, the groups they are padded in, and their tensors."""

from molsepnorm.data.batching.collate import GraphTensors

__all__ = ["GraphTensors"]

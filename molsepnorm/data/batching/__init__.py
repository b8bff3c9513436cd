"""Batches: the molecules that share one, the groups they are padded in, and their tensors."""

"""Comparison of several runs: replicates, cross-validation and ablations."""

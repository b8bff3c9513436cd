"""Comparison of several runs: replicates, cross-validation and ablations.

- `replicates`: runs with several seeds or on several splits, and their mean and spread;
- `out_of_fold`: predictions for each row by the model that was trained without it;
- `ablation`: variants of a recipe over the same seeds;
- `paired`: paired differences, and their intervals.
"""

"""Comparison of several runs: replicates, cross-validation and ablations.

- `replicates`: runs with several seeds or on several splits, their mean and spread, and paired
  differences;
- `out_of_fold`: predictions for each row by the model that was trained without it;
- `ablation`: variants of a recipe over the same seeds.
"""

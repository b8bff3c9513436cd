"""The files of a run; docs/training.md lists them."""

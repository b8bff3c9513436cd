"""Checks and measurements on a GPU; `run.py` is the command, README.md the guide."""

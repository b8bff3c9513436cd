"""Runs that compare ingredients, and the log of all of them; README.md says how."""

"""Check a table before training, and write a cleaned copy."""

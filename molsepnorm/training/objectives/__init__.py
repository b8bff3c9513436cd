"""Training objectives: the loss, counts and scores that are computed from a batch."""

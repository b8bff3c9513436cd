"""The results of a run: in numbers, in sentences, and as a model to share."""

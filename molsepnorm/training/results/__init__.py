"""The results of a run: in numbers, in sentences, and as a model to share.

- `metrics`: the content of `metrics.json`;
- `summary`: what terminal, card and report say about it;
- `card`: the card of a model;
- `share`: what the files show about the training molecules, and a copy without them.
"""

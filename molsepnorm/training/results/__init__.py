"""The results of a run: in numbers, in sentences, and as a model to share.

- `scores`: what is read from `metrics.json` to show, also as tables, and to compare runs;
- `conclusion`: the meaning of the scores, in sentences;
- `card`: the parts of a model, and its card;
- `share`: what the files show about the training molecules, and a copy without them.
"""

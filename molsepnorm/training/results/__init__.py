"""The results of a run: in numbers, in sentences, and as a model to share.

- `comparisons`, `split_facts`: entries of `metrics.json` on compared scores and on the split;
- `scores`: what is read from `metrics.json` to show, also as tables, and to compare runs;
- `gains`, `conclusion`: the meaning of the scores, in sentences;
- `composition`, `card`, `notebook`: the parts of a model, its card, and results in a notebook;
- `disclosure`, `share`: what the files show about the training molecules, and a copy without them.
"""

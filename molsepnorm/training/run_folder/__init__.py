"""The files of a run, or their place in memory.

- `folder`: `RunFolder`, the folder of a run, and `RunInMemory`, a run without a folder;
- `checkpoint`: the state from which a run continues exactly;
- `prediction_table`: the tables of predictions and of labels;
- `verification`: whether the files of models and checkpoints are intact.
"""

"""The files of a run.

- `folder`: `RunFolder`, the folder of a run;
- `checkpoint`: the state from which a run continues exactly;
- `prediction_table`: the tables of predictions and of labels;
- `verification`: whether the files of models and checkpoints are intact.
"""

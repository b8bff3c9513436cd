"""The files of a run, or their place in memory.

- `folder`: `RunFolder`, the folder of a run;
- `memory`: `RunInMemory`, a run without a folder;
- `environment`: `environment.json`, what the run began with;
- `checkpoint`: the state from which a run continues exactly;
- `history`: `history.csv`, a line for each epoch;
- `metrics_file`: `metrics.json`, the scores;
- `prediction_table` and `target_table`: the tables of predictions and of labels;
- `verification`: whether the files of models and checkpoints are intact.
"""

"""Scores of predictions against labels, and their bootstrap intervals.

=========== ======================== ==================================================
metric      targets                  undefined (NaN), apart from missing labels
=========== ======================== ==================================================
mae, rmse   regression
r2          regression               all labels equal, so also where there is only one
spearman    regression               all labels, or all predictions, equal
roc_auc     binary                   one class among the labels
pr_auc      binary                   one class among the labels
accuracy    binary, multiclass
f1          binary, multiclass       binary: no label is 1
mcc         binary, multiclass       one class among the labels
log_loss    binary, multiclass
brier       binary, multiclass
=========== ======================== ==================================================

Labels are (n,) numbers, NaN where missing: values in their own units, 0 or 1, or the index of a
class. Predictions are (n,) values, (n,) probabilities of class 1, or (n, K) probabilities of K
classes. Class 1 is predicted where its probability is above 0.5; of several classes the most
probable one is predicted, and the first one of equals.

Definitions that differ between libraries:

- `pr_auc` is the average precision, the `ap` of OGB; `roc_auc` is OGB's `rocauc`.
- `f1` of several classes is the unweighted mean over the classes that occur among the labels or the
  predictions; a class with labels that is never predicted, or the reverse, counts 0.
- `mcc` is 0 where all predictions are one class; `f1` is 0 where no prediction is 1.
- `log_loss` is in nats; probabilities are clipped to 2.2e-16 from 0 and 1.
- `brier` of three classes or more is the squared error summed over the classes, at most 2; for two
  classes it is half of that, the squared error of the probability of class 1.
- A prediction that is not finite leaves the score undefined.
"""

from molsepnorm.tasks.metrics.metric import METRICS, Kind, Metric, label_of
from molsepnorm.tasks.metrics.scoring import (
    draw_resamples,
    interval,
    mean_and_sd,
    numbered,
    resampled_scores,
    score,
)
from molsepnorm.tasks.metrics.text import between, four_digits, signed, significant

__all__ = [
    "METRICS",
    "Kind",
    "Metric",
    "between",
    "draw_resamples",
    "four_digits",
    "interval",
    "label_of",
    "mean_and_sd",
    "numbered",
    "resampled_scores",
    "score",
    "signed",
    "significant",
]

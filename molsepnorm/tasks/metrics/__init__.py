"""Scores of predictions against labels, and how far chance could have moved them.

=========== ======================== ==================================================
metric      of                       undefined (NaN), besides where there is no label
=========== ======================== ==================================================
mae, rmse   regression
r2          regression               all labels equal, so also where there is only one
spearman    regression               all labels, or all predictions, equal
roc_auc     binary                   one class among the labels
pr_auc      binary                   one class among the labels
accuracy    binary, multiclass
f1          binary, multiclass       binary: no yes among the labels
mcc         binary, multiclass       one class among the labels
log_loss    binary, multiclass
brier       binary, multiclass
=========== ======================== ==================================================

Labels are (n,) numbers, NaN where missing: values in their own units, or 0 for no and 1 for yes, or
the index of a class. Predictions are (n,) values, or (n,) probabilities of yes, or (n, K)
probabilities of K classes. Yes is predicted where its probability is above 0.5, a class where it is
the most probable, the first of several.

What these names leave open:

- `pr_auc` is the average precision, the `ap` of OGB; `roc_auc` is OGB's `rocauc`.
- `f1` of several classes is the plain mean over those found among the labels or the predicted
  classes; a class that is only predicted, or never predicted, counts 0.
- `mcc` is 0 where all predictions are one class, as no better than chance; so is `f1` where the
  predictions hold no yes.
- `log_loss` is in nats; probabilities are kept 2.2e-16 away from 0 and 1.
- `brier` of three classes or more is the squared error summed over the classes, at most 2; of two
  it is half of that, the squared error of the probability of yes.
- A prediction that is not a finite number leaves the score undefined.
"""

from molsepnorm.tasks.metrics.metric import METRICS, Kind, Metric
from molsepnorm.tasks.metrics.resampling import draw_resamples, interval, resampled_scores
from molsepnorm.tasks.metrics.scoring import score

__all__ = [
    "METRICS",
    "Kind",
    "Metric",
    "draw_resamples",
    "interval",
    "resampled_scores",
    "score",
]

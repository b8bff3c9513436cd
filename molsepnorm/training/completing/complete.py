"""`complete`: what a model gets after its networks are trained and chosen, and its scores."""

from __future__ import annotations

from typing import Any, NamedTuple

from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Forest
from molsepnorm.training.callback import Callback
from molsepnorm.training.completing import baseline
from molsepnorm.training.completing.calibration import calibrate
from molsepnorm.training.completing.domain import fit_domain
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.objectives import Examples
from molsepnorm.training.probe import MAX_MOLECULES, refit_kernels
from molsepnorm.training.results.metrics import Blend
from molsepnorm.training.scoring import (
    Predictions,
    predicted_splits,
    refit_rows,
    score,
    split_scores,
)


class Completed(NamedTuple):
    """A model with all its parts."""

    model: PropertyModel
    predictions: Predictions
    scores: dict[str, Any]
    """Entries of `Metrics`."""


def complete(
    config: TrainConfig,
    chosen: PropertyModel,
    examples: Examples,
    seconds: float,
    callback: Callback,
) -> Completed:
    """Return a model with a second fit, a random forest, intervals and a domain, and its scores.

    The test split is scored here, once. Kernel regressions are fitted a second time, to the
    training and validation molecules, unless `run.refit` is off, the data set has a name, so that
    its split is a protocol, or it has more molecules than a kernel regression compares. Validation
    scores and intervals are those of the model before.

    Args:
        chosen: the model so far, on the device of the examples. The result is on the CPU.
    """
    dataset = examples.dataset
    assert dataset is not None
    rows = refit_rows(dataset.splits)
    is_refit = config.run.refit and config.data.dataset is None and chosen.compares
    is_refit = is_refit and len(rows) <= MAX_MOLECULES
    final = refit_kernels(chosen, examples, rows) if is_refit else chosen
    graphs = predicted_splits(dataset)
    found = {
        split: (chosen if split == "val" else final).predict(examples.inputs, rows)
        for split, rows in graphs.items()
    }
    alone = {split: each.values for split, each in found.items()}
    forest = baseline.fit_baseline(
        config, dataset, final, alone["val"], is_refit, seconds, callback
    )
    model, values, parts = final, alone, ["kernel regression"] * is_refit
    if forest is not None and forest.share:
        parts += ["random forest"] * forest.refit
        weights = [(1 - forest.share) * weight for weight in final.weights]
        model = final.with_parts((*final.parts, forest.forest), (*weights, forest.share))
        values = {
            split: (1 - forest.share) * own + forest.share * forest.predictions[split]
            for split, own in alone.items()
        }
    predictions = Predictions(graphs, values, {} if forest is None else forest.predictions)
    found = {split: each._replace(values=values[split]) for split, each in found.items()}
    model, calibrated = calibrate(model, dataset, found, graphs)
    model.to("cpu")
    keep_structures = config.run.training_structures
    model, domain = fit_domain(model, dataset, predictions, bool(parts), keep_structures)
    scores = score(dataset, model.task, predictions)
    if forest is not None and dataset.has_test:
        about = {"trees": forest.forest.trees, "seconds": round(forest.seconds, 1)}
        scores["baseline"] = scores["baseline"].model_copy(update=about)
    if dataset.has_test and (share := model.share(Forest)):
        own = split_scores(dataset, model.task, graphs, alone)
        scores["blend"] = Blend(forest_share=share, network=own)
    scores |= {"calibration": calibrated, "domain": domain, "refit": parts}
    return Completed(model, predictions, scores)

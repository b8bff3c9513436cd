"""`complete`: what a model gets after its networks are trained and chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.training.callback import Callback
from molsepnorm.training.completing import baseline
from molsepnorm.training.completing.blending import forest_inputs
from molsepnorm.training.completing.calibration import calibrate
from molsepnorm.training.completing.domain import fit_domain
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.objectives import Results
from molsepnorm.training.objectives.supervised import score


class Completed(NamedTuple):
    """A model with all its parts."""

    model: PropertyModel
    results: Results
    entries: dict[str, Any]
    """Further entries of `metrics.json`."""


def complete(
    *,
    config: TrainConfig,
    dataset: Dataset,
    tensors: GraphTensors,
    model: PropertyModel,
    results: Results,
    chosen: PropertyModel,
    callback: Callback,
    seconds: float,
    threads: int,
) -> Completed:
    """Blend a model with a random forest, and give it intervals and a domain.

    The entry `refit` names the parts that are fitted to the validation molecules, too.

    Args:
        config: the configuration of the run.
        dataset: the data set.
        tensors: all molecules, on the device of the model.
        model: the networks, after the second fit. They are on the CPU afterwards.
        results: their predictions; for validation molecules those of `chosen`.
        chosen: the networks before the second fit, which have not seen the validation molecules;
            the same object as `model` if there is none.
        callback: receives warnings and progress.
        seconds: time that the run took so far.
        threads: number of CPU threads.
    """
    is_refit = model is not chosen
    forest = baseline.fit_baseline(
        config=config,
        dataset=dataset,
        model=model,
        results=results,
        callback=callback,
        seconds=seconds,
        threads=threads,
        is_refit=is_refit,
    )
    model, results = _blend(model, results, forest, dataset)
    forests = bool(model.forests) and forest is not None and forest.refit
    parts = ["kernel regression"] * is_refit + ["random forest"] * forests
    model, calibrated = calibrate(model, dataset, tensors, results, chosen)
    model.to("cpu")
    model, domain = fit_domain(model, dataset, results, bool(parts), config.run.training_structures)
    if results.scores:
        results = baseline.with_baseline(results, forest, dataset, model.task)
    entries = {"calibration": calibrated, "domain": domain, "refit": parts}
    return Completed(model, results, {name: each for name, each in entries.items() if each})


def _blend(
    model: PropertyModel, results: Results, forest: baseline.Baseline | None, dataset: Dataset
) -> tuple[PropertyModel, Results]:
    """Return the model and the results with the forests blended in, if they have a share."""
    if forest is None or not forest.share:
        return model, results
    inputs = replace(forest_inputs(model.inputs), pairs=model.inputs.pairs)
    blended = replace(model, forests=(forest.forest,), forest_share=forest.share, inputs=inputs)
    mixed = {
        split: (1 - forest.share) * own + forest.share * forest.predictions[split]
        for split, own in results.predictions.items()
    }
    if not results.scores:
        return blended, results._replace(predictions=mixed)
    found = score(dataset, model.task, results.graphs, mixed)
    network = {split: results.scores[split] for split in ("val", "test")}
    entry = {"forest_share": forest.share, "network": network}
    return blended, found._replace(scores={**found.scores, "blend": entry})

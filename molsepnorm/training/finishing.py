"""`finish`: the best model of a run is completed and scored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from molsepnorm.model import PropertyModel
from molsepnorm.predict.inference import predict
from molsepnorm.tasks import json_scores
from molsepnorm.training.completing.complete import Completed, complete
from molsepnorm.training.completing.refit import refit
from molsepnorm.training.completing.shares import with_network_share
from molsepnorm.training.loop import Trainer
from molsepnorm.training.objectives import Results, make_objective
from molsepnorm.training.objectives.supervised import dataset_scores
from molsepnorm.training.preparing import Prepared
from molsepnorm.training.results.entries import about_split


def finish(trainer: Trainer, prepared: Prepared) -> dict[str, Any]:
    """Complete the best model, score it, for the first and only time on the test split, and write
    the results.

    Returns:
        The content of `metrics.json`.
    """
    dataset, config = trainer.dataset, trainer.config
    best, own = trainer.folder.best()
    chosen = _as_chosen(trainer, best)
    objective = make_objective(config, chosen, trainer.examples)
    objective.load_state(chosen.network.state_dict(), own)
    final = refit(config, chosen, trainer.examples, dataset.splits)
    results = objective.eval().results(dataset, final)
    best, results, entries = _complete(trainer, chosen, final, results)
    metrics = {
        **_about(trainer, prepared, chosen, best),
        **results.scores,
        **about_split(config.data, dataset),
        **trainer.folder.earlier(trainer.progress.epoch),
        **entries,
    }
    if leak := best.leak(config.data.dataset, allow=True):
        metrics["leak"] = leak
    trainer.folder.finish(dataset, best.task, results, metrics)
    return metrics


def finish_unscored(trainer: Trainer, prepared: Prepared) -> dict[str, Any]:
    """Complete the best model of a run without a test split, and write the scores on
    the validation split; result as for `finish`."""
    config, dataset = trainer.config, trainer.dataset
    best, _ = trainer.folder.best()
    chosen = _as_chosen(trainer, best)
    final = refit(config, chosen, trainer.examples, dataset.splits)
    val = {"val": dataset.splits["val"]}
    predictions = {"val": predict(chosen, trainer.examples.graphs, val["val"])}
    best, results, entries = _complete(trainer, chosen, final, Results({}, val, predictions))
    labels = dataset.exact_labels[val["val"]]
    scores = dataset_scores(dataset, best.task, results.predictions["val"], labels)
    about = _about(trainer, prepared, chosen, best)
    metrics = {**about, "val": json_scores(scores), **entries}
    trainer.folder.finish(dataset, best.task, results, metrics)
    return metrics


def _about(
    trainer: Trainer, prepared: Prepared, chosen: PropertyModel, best: PropertyModel
) -> dict[str, Any]:
    """Return the entries of `metrics.json` about the training; `best` is the model of the run."""
    progress, config, trained_on = trainer.progress, trainer.config, prepared.trained_on
    return {
        "data": trainer.dataset.name,
        "chosen_by": best.task.metric,
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "steps": progress.step,
        "parameters": best.parameters,
        "seconds": round(progress.seconds, 1),
        "seed": config.run.seed,
        "molecules_in_several_splits": prepared.leaked,
        **({"molecules_trained_on_before": trained_on} if trained_on else {}),
        **({"network_share": chosen.weights[0]} if chosen.partners else {}),
        **({"class_weight": config.optim.class_weight} if config.optim.class_weight else {}),
        **config.finetune.origin(),
    }


def _complete(
    trainer: Trainer, chosen: PropertyModel, final: PropertyModel, results: Results
) -> Completed:
    """Complete and keep a model: `chosen` as its epoch left it, `final` after the second fit. The
    results have the predictions of `chosen` for validation molecules."""
    found = complete(
        config=trainer.config,
        dataset=trainer.dataset,
        tensors=trainer.graphs,
        model=final,
        results=results,
        chosen=chosen,
        callback=trainer.callback,
        seconds=trainer.progress.seconds,
        threads=trainer.threads,
    )
    if found.model is not chosen:
        trainer.folder.keep(found.model)
    return found


def _as_chosen(trainer: Trainer, best: PropertyModel) -> PropertyModel:
    """Return the best model as its epoch left it, on the device of the run, but with the share of
    its network that the validation split chooses.

    A run that was scored before, after fewer epochs, or that was killed then, has kept it with
    forests and with kernel regressions that were fitted again.
    """
    if best.forests:
        best = replace(best, forests=(), forest_share=0.0, inputs=trainer.model.inputs)
    if (probe := trainer.probe) is not None:
        if not best.partners:
            return replace(best, network=probe.network).to(trainer.device)
        best = replace(best, partners=(probe.network,))
    return with_network_share(best.to(trainer.device), trainer.graphs, trainer.dataset)

"""Tables of data, scores and trials for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.table import Table

from molsepnorm.cli.console import make_table
from molsepnorm.data.datasets import SPLITS, Dataset
from molsepnorm.errors import counted
from molsepnorm.tasks.metrics import signed, significant
from molsepnorm.training.comparing.ablation import Ablation
from molsepnorm.training.results.metrics import headline
from molsepnorm.training.results.summary import (
    MAX_TARGETS,
    is_relative,
    listed_metrics,
    metric_label,
    score_rows,
)

if TYPE_CHECKING:
    from molsepnorm.tuning import Tuning

_BEST = 5  # trials that are listed


def tuning_table(tuning: Tuning) -> Table:
    """Return the recipe and the best trials, with their settings."""
    recipe, ranked = tuning.recipe, tuning.ranked
    early = sum(each.state == "stopped early" for each in tuning.trials)
    title = (
        f"Best of {len(ranked) + early} trials, {early} of them stopped early: mean validation "
        f"{tuning.metric.label} of {counted(tuning.splits, 'split')}"
    )
    names = list(ranked[0].settings) if ranked else []
    table = make_table(
        title, "trial", f">val {tuning.metric.name}", *(f">{n.rpartition('.')[2]}" for n in names)
    )

    further = [] if recipe is None or recipe in ranked[:_BEST] else [recipe]
    for each in ranked[:_BEST] + further:
        values = (each.settings[name] for name in names)
        cells = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in values)
        number = "recipe" if each.recipe else str(each.number)
        table.add_row(number, significant(each.score), *cells)
    return table


def splits_table(dataset: Dataset) -> Table:
    """Return the numbers of rows, labels and bounds of each split, and the distributions."""
    bounded = dataset.bounds is not None
    headings = ["target", ">labels", *[">bounds"] * bounded, ">missing", "distribution"]
    table = make_table("Splits", "split", ">rows", *(headings if dataset.targets else ()))
    for split in SPLITS:
        rows = dataset.splits[split]
        first = (split, f"{len(rows):,}")
        if not dataset.targets:
            table.add_row(*first)
        for each in islice(dataset.summaries(rows), MAX_TARGETS):
            counts = (each.labels, *[each.bounds] * bounded, each.missing)
            table.add_row(*first, each.name, *(f"{n:,}" for n in counts), each.distribution or "-")
            first = ("", "")
    return table


def scores_table(columns: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return a table of `score_columns`; with many targets, of the means over all targets alone."""
    table = make_table("Scores", "metric", *(f">{title}" for title in columns))
    rows = score_rows(columns)
    for metric in listed_metrics(rows):
        table.add_row(_row_name(metric, rows), *rows[metric])
    return table


def label_notes(labels: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a reader of scores needs to know about the labels, from `Dataset.about_labels`."""
    for name, about in labels.items():
        if "scale" in about:
            yield f"{name}: the scores are those of {about['scale']}."
        if "bounds" in about:
            counts = ", ".join(f"{count:,} {split}" for split, count in about["bounds"].items())
            yield f"{name}: bounds are not scored ({counts})."
        if "repeats" in about:
            molecules, sd = about["repeats"]["molecules"], about["repeats"]["sd"]
            yield (
                f"{name}: the labels of {counted(molecules, 'molecule')} with several rows have a "
                f"pooled standard deviation of {sd:.3g}, about the lowest RMSE of any model."
            )


def leak_notes(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence if the scores of some runs in `summary.json` are too optimistic."""
    if found := summary.get("leaks"):
        name, reasons = next(iter(found.items()))
        yield (
            f"The scores of {len(found)} of {counted(len(summary['runs']), 'run')} are too "
            f"optimistic. {name}: {'; '.join(reasons)}."
        )


def replicates_table(summary: Mapping[str, Any]) -> Table:
    """Return the mean and standard deviation over several runs or folds, a row for each metric."""
    pooled = summary.get("out_of_fold")
    what = counted(len(summary["runs"]), "run")
    columns = {"val": summary["val"], "test": summary["test"]}
    if pooled is not None:
        what = counted(len(pooled["molecules"]), "fold")
        columns = {"out of fold": summary["test"]}
    if "test_constant" in summary:
        columns["trivial baseline"] = summary["test_constant"]
    if "baseline" in summary:
        columns["forest"] = summary["baseline"]["test"]
    headings = [f">{name}" for name in columns] + [">all rows"] * (pooled is not None)
    table = make_table(f"{summary['data']}: mean ± sd of {what}", "metric", *headings)
    for metric in listed_metrics(summary["test"]):
        cells = [_mean_and_sd(column.get(metric)) for column in columns.values()]
        if pooled is not None:
            cells.append(significant(pooled["scores"][metric]))
        table.add_row(_row_name(metric, summary["test"]), *cells)
    return table


def _row_name(metric: str, names: Iterable[str]) -> str:
    return f"{'relative ' * is_relative(metric, names)}{metric}"


def folds_table(summary: Mapping[str, Any]) -> Table:
    """Return the score of each fold, from a summary with out-of-fold predictions."""
    metric = headline(summary["chosen_by"], summary["test"])
    columns = {"model": summary["test"], "trivial baseline": summary["test_constant"]}
    if "baseline" in summary:
        columns["forest"] = summary["baseline"]["test"]
    title = f"{_label(summary, metric)} of each fold"
    table = make_table(title, "fold", ">molecules", *(f">{name}" for name in columns))
    for fold, count in enumerate(summary["out_of_fold"]["molecules"]):
        cells = (significant(column[metric]["values"][fold]) for column in columns.values())
        table.add_row(str(fold), f"{count:,}", *cells)
    return table


def ablation_tables(ablation: Ablation) -> tuple[Table, Table]:
    """Return the scores of each variant, and the differences from the first one on each split."""
    (first, base), *_ = ablation.replicates.items()
    labels = {name: _label(base.summary, name) for name in listed_metrics(ablation.differences)}
    title = f"Mean ± sd of {counted(len(base.runs), 'run')}"
    scores = make_table(title, "score", "variant", ">val", ">test", ">parameters")
    title = f"Difference from {first}, by pairs of runs"
    differences = make_table(title, "score", "variant", "split", ">mean", ">95 % interval", ">p")
    for score, label in labels.items():
        for name, replicates in ablation.replicates.items():
            own = replicates.summary
            spreads = (_mean_and_sd(own[split][score]) for split in ("val", "test"))
            scores.add_row(label, name, *spreads, f"{own['parameters']:,}")
        for name, by_split in ablation.differences[score].items():
            for split, each in by_split.items():
                assert each.mean is not None
                ends = " to ".join(map(signed, each.interval or ()))
                p = "" if each.p is None else f"{each.p:.2g}"
                differences.add_row(label, name, split, signed(each.mean), ends, p)
    return scores, differences


def _label(summary: Mapping[str, Any], metric: str) -> str:
    return metric_label({n: each["mean"] for n, each in summary["test"].items()}, metric)


def _mean_and_sd(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return ""
    sd = "" if figures["sd"] is None else f" ± {significant(figures['sd'])}"
    return f"{significant(figures['mean'])}{sd}"

"""Progress of training, on a terminal and in a log, and tables of data, scores and trials."""

from __future__ import annotations

import io
import math
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from rich import progress as bars
from rich.table import Table

from molsepnorm._version import __version__
from molsepnorm.cli.console import make_console, make_table, print_dataset, say
from molsepnorm.data.datasets import SPLITS, Dataset
from molsepnorm.errors import counted
from molsepnorm.files.writing import clear_errors
from molsepnorm.model import PropertyModel
from molsepnorm.tasks.inputs import names_text
from molsepnorm.tasks.metrics import between, signed, significant
from molsepnorm.training.callback import Callback, EpochRecord, TrainingResult
from molsepnorm.training.comparing.ablation import Ablation
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.results.metrics import Metrics, headline
from molsepnorm.training.results.summary import (
    MAX_TARGETS,
    composition,
    conclusion,
    is_relative,
    listed_metrics,
    metric_label,
    score_columns,
    score_rows,
)
from molsepnorm.training.run_folder.folder import LOG, RunFolder

if TYPE_CHECKING:
    from molsepnorm.tuning import TrialRecord, Tuning

_MAX_EPOCH_LINES = 20  # of a run without a terminal
_BEST = 5  # trials that are listed
_BEAT = 10.0  # seconds
_AFTER = "Kernel regression, forest and scores"  # after the last epoch
_KINDS = {"regression": "a number", "binary": "yes / no"}


class _Display(Callback):
    """A callback that describes the data once, and prints each warning once."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = make_console()
        self.quiet = quiet
        self.training = False
        self._warnings: set[str] = set()

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        if not self.quiet and not self.training:
            print_dataset(self.console, dataset)
            self.console.print(splits_table(dataset))
        self.training = True

    def on_warning(self, warning: str) -> None:
        if not self.quiet and warning not in self._warnings:
            self.console.print(warning, style="yellow")
        self._warnings.add(warning)


class TrainingDisplay(_Display):
    """Prints a run's progress, or with `quiet` only the final scores."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__(quiet)
        self._live: bars.Progress | None = None
        self._describing = False  # whether features are being computed
        self._epochs = 0
        self._enter("Reading the data and preparing the model")

    @contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Print what is done, and for how long, every ten seconds while there is no bar."""
        ended = Event()

        def beat() -> None:
            while not ended.wait(_BEAT):
                if self._live is None and not self.quiet:
                    say(f"{self._phase}: {_clock(time.monotonic() - self._since)}", err=True)

        thread = Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _enter(self, phase: str) -> None:
        self._phase, self._since = phase, time.monotonic()

    def _open(self, total: int, *columns: str | bars.ProgressColumn) -> None:
        if self.console.is_terminal:
            self._live = bars.Progress(*columns, console=self.console)
            self._bar = self._live.add_task("", total=total, text="")
            self._live.start()

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        ensemble = None if folder is None else RunFolder(folder).ensemble
        is_further_member, self.training = self.training and ensemble is not None, True
        self._metric, self._epochs = model.task.metric, config.run.length
        self._column = config.data.smiles_column
        self._score = ""
        self._last_printed = 0  # epoch
        self._start: tuple[float, float] | None = None  # time and epoch of the first step
        self._position, self._fit = 0.0, "Epoch"
        self._enter("Preparing")
        if self.quiet:
            return
        if is_further_member:
            for warning in dataset.warnings:
                self.on_warning(warning)
        else:
            self._describe(config, dataset, model, ensemble or folder)
        text = bars.TextColumn("{task.fields[text]}", markup=False)
        self._open(self._epochs, bars.BarColumn(), text, bars.TimeElapsedColumn())

    def _describe(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        """Print data, targets, splits and network of a run or an ensemble."""
        self.console.print(f"Data: {dataset.name}")
        targets = model.task.targets
        for target in targets[:MAX_TARGETS]:
            kind = ", ".join(target.classes) if target.classes else _KINDS[target.kind]
            if target.kind == "binary" and target.classes:
                kind += f"; {target.positive_class} is positive"
            self.console.print(f"Target: {target.name} ({kind})")
        if len(targets) > MAX_TARGETS:
            listed = f"{MAX_TARGETS} of {len(targets)} targets are listed"
            self.console.print(f"{listed}. All are in {folder}/targets.csv")
        print_dataset(self.console, dataset, f". All are in {folder}/rejected.csv")
        self._warnings.update(dataset.warnings)
        self.console.print(splits_table(dataset))
        self.console.print(
            f"Network: layers {config.model.layers}, width {config.model.width}, "
            f"{model.parameters:,} parameters. Folder: {folder}"
        )

    def on_progress(self, done: int, of: int) -> None:
        if self.quiet:
            return
        if not self._describing:
            self.close()  # the bar of training
            self._enter("Features of the molecules")
            columns = bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeRemainingColumn()
            self._open(of, "Features", *columns)
        self._describing = done < of
        if self._live is not None:
            self._live.update(self._bar, completed=done)
        if done == of:
            self.close()
            self.console.print(f"Features of {of:,} rows are computed.")
            self._enter("Fitting")

    def on_step(self, epoch: int, done: int, of: int, loss: float, rate: float) -> None:
        position = epoch + done / of
        if position < self._position:
            self._start, self._fit = None, "Further fit, epoch"
        self._position = position
        if self._start is None:
            self._start = (time.perf_counter(), position)
        if done == 1:
            self._enter(f"{self._fit} {epoch + 1} of {self._epochs}")
        if done == of and epoch + 1 == self._epochs:
            self._enter(_AFTER)
        if self._live is not None:
            text = f"{self._fit} {epoch + 1}{_loss(loss)}{self._score}{self._speed(rate, position)}"
            self._live.update(self._bar, completed=position, text=text)

    def on_epoch(self, record: EpochRecord, epochs: int) -> None:
        score = record.scores.get(self._metric, record.val_loss)
        self._score = f"  val {self._metric} {significant(score)}"
        if record.epoch == epochs:
            self._enter(_AFTER)
        if self.quiet or self._live is not None:
            return
        every = max(1, epochs // _MAX_EPOCH_LINES)
        due = self._last_printed == 0 or record.epoch // every > self._last_printed // every
        if due or record.epoch == epochs:
            self._last_printed = record.epoch
            speed = self._speed(record.graphs_per_second, record.epoch) if record.step else ""
            self.console.print(
                f"epoch {record.epoch}/{epochs}{_loss(record.train_loss)}{self._score}{speed}"
            )

    def _speed(self, rate: float, position: float) -> str:
        """Return the speed, and the time to the last epoch since this process began to train."""
        start, first = self._start or (0.0, position)
        left = ""
        if position > first:
            seconds_per_epoch = (time.perf_counter() - start) / (position - first)
            left = f"{_clock(seconds_per_epoch * (self._epochs - position))} left"
        return f"  {rate:,.0f} graphs/s  {left}"

    def on_end(self, result: TrainingResult) -> None:
        self.close()
        model, folder = result.model, result.folder
        if not result.finished or model is None:
            return
        metrics = Metrics.from_json(result.metrics) if result.metrics else None
        if metrics and folder is not None and RunFolder(folder).ensemble is not None:
            if not self.quiet:
                name = headline(metrics.chosen_by, metrics.val)
                self.console.print(
                    f"Member {folder.name}: epoch {metrics.kept_epoch} of {metrics.epochs}, "
                    f"validation {name} {significant(metrics.val[name])}"
                )
            return
        if metrics:
            self._print_scores(metrics)
        else:
            self.console.print(
                "There are no scores, since no row was left for a test. Judge the model by a run "
                "with the same settings and a test split."
            )
        if self.quiet:
            return
        name = shlex.quote(str(folder))
        use = f"Fine-tune: molsepnorm train --data FILE --from {name}"
        if model.task.targets:
            epochs = metrics.epochs if metrics else self._epochs
            self.console.print(f"Model: {composition(model, epochs)}.")
            molecules = "--input new.csv" if model.inputs.names else "--smiles CCO"
            if model.inputs.names and self._column != "smiles":
                molecules += f" --smiles-column {shlex.quote(names_text([self._column]))}"
            use = f"Predict: molsepnorm predict --model {name} {molecules}"
        if metrics and folder is not None and (report := RunFolder(folder).report).exists():
            self.console.print(f"Report: {report}")
        self.console.print(use)

    def _print_scores(self, metrics: Metrics) -> None:
        if not self.quiet:
            made = f"Epochs: {metrics.epochs:,}"
            if metrics.members:
                made = f"Mean of {len(metrics.members)} models"
            elif metrics.kept_epoch != metrics.epochs:
                made += f" (number {metrics.kept_epoch:,} is kept)"
            self.console.print(f"{made}. Time: {_clock(metrics.seconds)}")
        self.console.print(scores_table(score_columns(metrics)))
        for line in label_notes(metrics.labels):
            self.console.print(line)
        if sentences := conclusion(metrics):
            self.console.print("Conclusion:")
        for sentence in sentences:
            self.console.print(f"- {sentence}")


class ReplicatesDisplay(_Display):
    """Prints a line for each run of a benchmark or an ablation."""

    def on_end(self, result: TrainingResult) -> None:
        folder = result.folder
        if not result.finished or self.quiet or folder is None:
            return
        metrics = Metrics.from_json(result.metrics)
        name = headline(metrics.chosen_by, metrics.val)
        val, test = significant(metrics.val[name]), significant(metrics.test[name])
        self.console.print(
            f"{folder.parent.name} {folder.name}: val {name} {val}, test {name} {test}, "
            f"{_clock(metrics.seconds)}"
        )


class TuningDisplay(_Display):
    """Prints a line for each trial of a search."""

    def on_trial(self, trial: TrialRecord, tuning: Tuning) -> None:
        """Print a trial that has ended; * marks the best one so far."""
        line = f"trial {trial.number}{', the recipe' if trial.recipe else ''}: {trial.state}"
        if trial.score is not None:
            best = " *" if trial in tuning.ranked[:1] else ""
            line += f", val {tuning.metric.name} {significant(trial.score)}{best}"
        self.console.print(f"{line}, {_clock(trial.seconds or 0.0)}")


def _loss(loss: float) -> str:
    return "" if math.isnan(loss) else f"  loss {significant(loss)}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class _LogFile(io.StringIO):
    """Text that `flush` moves to a file, once its folder exists. The file is opened each time, so
    that an error names it, and nothing is lost if the process is killed."""

    has_folder = False

    def __init__(self, path: Path, mode: str) -> None:
        super().__init__()
        self._path, self._mode = path, mode

    def flush(self) -> None:
        if self.has_folder:
            path, mode = self._path, self._mode
            with clear_errors(path, "write"), open(path, mode, encoding="utf-8") as file:
                file.write(self.getvalue())
            self._mode = "a"
            self.seek(0)
            self.truncate()


class RunLog(TrainingDisplay):
    """Appends what `TrainingDisplay` prints to the file `log.txt` of a run folder."""

    def __init__(self, folder: Path | str) -> None:
        super().__init__()
        run = RunFolder(folder)
        self._file = _LogFile(run.path / LOG, "a" if run.has_begun else "w")
        self.console = make_console(file=self._file, force_terminal=False, color_system=None)
        now = datetime.now().astimezone().isoformat(" ", "seconds")
        resumed = ", resumed" if run.has_begun else ""
        self.console.print(f"{now}, molsepnorm {__version__}{resumed}")

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        self._file.has_folder = True
        super().on_start(config, dataset, model, folder)


def tuning_table(tuning: Tuning) -> Table:
    """Return the recipe and the best trials, with their settings."""
    recipe, ranked = tuning.recipe, tuning.ranked
    early = sum(trial.state == "stopped early" for trial in tuning.trials)
    title = (
        f"Best of {len(ranked) + early} trials, {early} of them stopped early: mean validation "
        f"{tuning.metric.label} of {counted(tuning.splits, 'split')}"
    )
    names = list(ranked[0].settings) if ranked else []
    headings = ["trial", f">val {tuning.metric.name}", *(f">{n.rpartition('.')[2]}" for n in names)]
    further = [] if recipe is None or recipe in ranked[:_BEST] else [recipe]
    rows = []
    for trial in ranked[:_BEST] + further:
        values = (trial.settings[name] for name in names)
        cells = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in values)
        number = "recipe" if trial.recipe else str(trial.number)
        rows.append([number, significant(trial.score), *cells])
    if tuning.importance:
        rows.append(["importance", "", *(f"{tuning.importance[name]:.0%}" for name in names)])
    return make_table(title, headings, rows)


def splits_table(dataset: Dataset) -> Table:
    """Return the numbers of rows, labels and bounds of each split, and the distributions."""
    bounded = dataset.bounds is not None
    headings = ["target", ">labels", *[">bounds"] * bounded, ">missing", "distribution"]
    rows = []
    for split in SPLITS:
        first = (split, f"{len(dataset.splits[split]):,}")
        if not dataset.targets:
            rows.append([*first])
        for target in islice(dataset.summaries(dataset.splits[split]), MAX_TARGETS):
            counts = (target.labels, *[target.bounds] * bounded, target.missing)
            texts = (f"{count:,}" for count in counts)
            rows.append([*first, target.name, *texts, target.distribution or "-"])
            first = ("", "")
    return make_table("Splits", ["split", ">rows", *(headings if dataset.targets else ())], rows)


def scores_table(columns: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return a table of `score_columns`; with many targets, of the means over all targets alone."""
    scores = score_rows(columns)
    rows = ([_row_name(metric, scores), *scores[metric]] for metric in listed_metrics(scores))
    return make_table("Scores", ["metric", *(f">{title}" for title in columns)], rows)


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
    if leaks := summary.get("leaks"):
        name, reasons = next(iter(leaks.items()))
        yield (
            f"The scores of {len(leaks)} of {counted(len(summary['runs']), 'run')} are too "
            f"optimistic. {name}: {'; '.join(reasons)}."
        )


def replicates_table(summary: Mapping[str, Any]) -> Table:
    """Return the mean and standard deviation over several runs or folds, a row for each metric."""
    pooled = summary.get("out_of_fold")
    what = counted(len(summary["runs"]), "run")
    columns = {"val": summary["val"], **_compared(summary, "test")}
    if pooled is not None:
        what = counted(len(pooled["molecules"]), "fold")
        columns = _compared(summary, "out of fold")
    headings = [f">{name}" for name in columns] + [">all rows"] * (pooled is not None)
    rows = []
    for metric in listed_metrics(summary["test"]):
        cells = [_mean_and_sd(column.get(metric)) for column in columns.values()]
        if pooled is not None:
            cells.append(significant(pooled["scores"][metric]))
        rows.append([_row_name(metric, summary["test"]), *cells])
    return make_table(f"{summary['data']}: mean ± sd of {what}", ["metric", *headings], rows)


def _compared(summary: Mapping[str, Any], title: str) -> dict[str, Any]:
    """Return the test scores of the model, under this title, and of what it is compared with."""
    others = {
        "trivial baseline": summary.get("test_constant"),
        "forest": summary.get("baseline", {}).get("test"),
    }
    return {title: summary["test"], **{name: each for name, each in others.items() if each}}


def _row_name(metric: str, names: Iterable[str]) -> str:
    return f"{'relative ' * is_relative(metric, names)}{metric}"


def folds_table(summary: Mapping[str, Any]) -> Table:
    """Return the score of each fold, from a summary with out-of-fold predictions."""
    metric = headline(summary["chosen_by"], summary["test"])
    columns = _compared(summary, "model")
    title = f"{_label(summary, metric)} of each fold"
    rows = []
    for fold, count in enumerate(summary["out_of_fold"]["molecules"]):
        cells = (significant(column[metric]["values"][fold]) for column in columns.values())
        rows.append([str(fold), f"{count:,}", *cells])
    return make_table(title, ["fold", ">molecules", *(f">{name}" for name in columns)], rows)


def folds_note(summary: Mapping[str, Any]) -> str | None:
    """Compare the model with its forest over the folds, if that is defined."""
    metric = headline(summary["chosen_by"], summary["test"])
    gap = summary.get("baseline_difference", {}).get(metric)
    if gap is None or gap["interval_95"] is None:
        return None
    return (
        f"{_label(summary, metric)} of the model minus that of the forest: "
        f"{signed(gap['difference'], 3)} (95 % interval {between(gap['interval_95'], 3)}, with the "
        "correction of Nadeau and Bengio for overlapping training sets)."
    )


def ablation_tables(ablation: Ablation) -> tuple[Table, Table]:
    """Return the scores of each variant, and the differences from the first one on each split."""
    (first, base), *_ = ablation.replicates.items()
    labels = {name: _label(base.summary, name) for name in listed_metrics(ablation.differences)}
    scores, differences = [], []
    for score, label in labels.items():
        for name, replicates in ablation.replicates.items():
            summary = replicates.summary
            spreads = (_mean_and_sd(summary[split][score]) for split in ("val", "test"))
            scores.append([label, name, *spreads, f"{summary['parameters']:,}"])
        for name, by_split in ablation.differences[score].items():
            for split, gap in by_split.items():
                assert gap.mean is not None
                ends = " to ".join(map(signed, gap.interval or ()))
                differences.append([label, name, split, signed(gap.mean), ends])
    title = f"Mean ± sd of {counted(len(base.runs), 'run')}"
    headings = ["score", "variant", ">val", ">test", ">parameters"]
    other_title = f"Difference from {first}, by pairs of runs"
    other_headings = ["score", "variant", "split", ">mean", ">95 % interval"]
    return make_table(title, headings, scores), make_table(other_title, other_headings, differences)


def _label(summary: Mapping[str, Any], metric: str) -> str:
    return metric_label({n: each["mean"] for n, each in summary["test"].items()}, metric)


def _mean_and_sd(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return ""
    sd = "" if figures["sd"] is None else f" ± {significant(figures['sd'])}"
    return f"{significant(figures['mean'])}{sd}"

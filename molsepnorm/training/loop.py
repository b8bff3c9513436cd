"""The training loop, the molecules of every step, and a time budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molsepnorm.data.batching import epoch_batches, max_batch_pairs, num_batches
from molsepnorm.devices import threads_of
from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.model import PropertyModel
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.sepnorm.batch_norm import synchronize_norms
from molsepnorm.training.callback import Callback, EpochRecord
from molsepnorm.training.config import RunConfig, TrainConfig
from molsepnorm.training.distributed import DistributedContext, device_of_rank
from molsepnorm.training.objectives import Examples, Objective, make_objective
from molsepnorm.training.objectives.objective import TINY, diverged
from molsepnorm.training.preparing import Prepared
from molsepnorm.training.probe.kernel import fit_kernel, fit_linear
from molsepnorm.training.run_folder import checkpoint
from molsepnorm.training.run_folder.checkpoint import Progress, tensors_under
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.step import TrainStep, batch_norms, estimate_statistics, learning_rate

_SAMPLE = 1024  # molecules of batch-norm statistics before the last epoch


class Schedule:
    """The batches of training molecules `graphs`, int64 [n], among molecules with so many atoms
    (`sizes`, int64 [G])."""

    def __init__(
        self, run: RunConfig, graphs: np.ndarray, sizes: np.ndarray, processes: int = 1
    ) -> None:
        self.run, self.graphs, self.sizes = run, graphs, sizes
        # a batch norm needs two molecules, and each process at least one
        self.min_batch = max(2, processes)

    def batches(self, epoch: int) -> list[np.ndarray]:
        """Return the molecules of each step of an epoch, of all processes."""
        return self._batches(self.graphs, np.random.default_rng((self.run.seed, epoch)))

    def statistics_batches(self, sample: int | None = None) -> list[np.ndarray]:
        """Return batches for `estimate_statistics`, whatever the seed of the run: of all molecules,
        or of a sample of them."""
        rng = np.random.default_rng(0)
        return self._batches(rng.permutation(self.graphs)[:sample], rng)

    def _batches(self, graphs: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        run = self.run
        return epoch_batches(
            graphs, self.sizes, run.batch_size, rng, run.max_groups, run.max_pairs, self.min_batch
        )

    def count_steps(self, epochs: int) -> int:
        size = self.run.batch_size
        if max_batch_pairs(self.graphs, self.sizes, size) <= self.run.max_pairs:
            return epochs * num_batches(len(self.graphs), size)
        return sum(len(self.batches(epoch)) for epoch in range(epochs))


class Trainer:
    """Trains the network of a prepared model in place.

    `progress`, the objective's tensors, the optimiser, the weight average and torch's random
    generators determine the next step. A checkpoint holds exactly these. The model of the last
    validation is kept, or with `run.patience` the best one; without a folder, in memory alone.
    """

    def __init__(
        self,
        config: TrainConfig,
        prepared: Prepared,
        folder: RunFolder | None,
        callback: Callback,
        world: DistributedContext = DistributedContext(),  # noqa: B008 - frozen
    ) -> None:
        self.config, self.prepared, self.dataset = config, prepared, prepared.dataset
        model, probe, new_targets = prepared.model, prepared.probe, prepared.new_targets
        self.folder, self.callback, self.world = folder, callback, world
        self.device = device_of_rank(config.run.device, world)
        self.network = model.network.to(self.device)
        if world.size > 1:
            synchronize_norms(self.network)
        train = self.dataset.splits["train"]
        self.examples = Examples.of(self.dataset, prepared.extra, model, self.device)
        self.graphs = self.examples.graphs
        self.schedule = Schedule(config.run, train, self.graphs.sizes, world.size)
        if new_targets:
            self.network.eval()
            fit_linear(model, self.examples, train, new_targets)
            probe = probe or fit_kernel(model, self.examples, train, prepared.inputs)
        self.probe = probe
        if probe is not None:
            probe, run = probe.to(self.device), config.run
            both = model.with_parts((*model.parts, *probe.parts), (0.5, 0.5))
            model = both if run.length or run.budget else probe
        self.model = model
        self.objective = make_objective(config, model, self.examples)
        # whose statistics stay those of the model that training started from
        self._kept_norms = batch_norms(self.objective) if config.finetune.start else []
        self.step = TrainStep(config, self.objective, world)
        torch.set_num_threads(threads_of(config.run.threads))
        self.progress = Progress()
        self.kept: PropertyModel | None = None  # on the CPU
        self.kept_state: dict[str, Tensor] = {}  # of its objective
        self.set_epochs(config.run.length)
        # reading the loss would make a GPU wait, and several processes exchange it for each step
        self._reads_losses = self.device.type == "cpu" and world.size == 1
        self._last_loss = math.nan

    def set_epochs(self, epochs: int) -> None:
        self.progress.epochs = epochs
        self.total_steps = self.schedule.count_steps(epochs)

    def resume(self, folder: RunFolder) -> None:
        """Continue from the checkpoint."""
        run = self.config.run
        progress, random, kept = checkpoint.load_checkpoint(
            folder.checkpoint, self.objective, self.step.optimizer, self.step.average
        )
        self.progress = progress
        has_epochs = run.budget is not None or progress.epochs == run.epochs
        taken = self.schedule.count_steps(progress.epoch) + progress.step_in_epoch
        if progress.step != taken or not has_epochs:
            raise ModelError(f"{folder.checkpoint} is of another configuration: start a new run")
        if progress.history:
            self.world.on_main_process(lambda: folder.write_history(progress.history))
        self.world.restore_random(random, run.seed, progress.step)
        self.set_epochs(progress.epochs)
        if progress.kept_epoch is not None:
            self._keep(kept)

    def write(self, action: Callable[[RunFolder], None]) -> None:
        """Write a file in the first process; a run in memory writes none."""
        if (folder := self.folder) is not None:
            self.world.on_main_process(lambda: action(folder))

    def save(self) -> None:
        step, random, kept = self.step, self.world.random_states(), self.kept_state
        parts = (self.progress, self.objective, step.optimizer, step.average, random, kept)
        self.write(lambda run: checkpoint.save_checkpoint(run.checkpoint, *parts))

    def start(self) -> None:
        """Write the probe, what computes inputs, and the first checkpoint."""
        predicted, kept = self.dataset.predicted, self.probe or self.model
        if self.probe is not None or predicted or kept.molecules is not None:
            self.write(lambda run: run.keep_start(kept, predicted))
        self.save()

    def fit(self) -> bool:
        """Train to the last epoch or until early stopping; return False if a callback stopped it.
        Without epochs the probe is validated as epoch 0."""
        progress, every = self.progress, self.config.run.validate_every
        stopped = False
        if not progress.epochs and progress.kept_epoch is None:
            validated = self.objective.eval().validate(self.dataset.splits["val"], self.world)
            stopped = self._end_epoch(*validated)
            self.save()
        while not self._finished() and not stopped:
            started = time.perf_counter()
            stopped = self._train_epoch()
            epoch = progress.epoch + 1
            validate = not stopped and (epoch % every == 0 or epoch == progress.epochs)
            if validate or stopped:
                self._collect()
            progress.epoch_seconds += time.perf_counter() - started
            if not stopped:
                progress.epoch, progress.step_in_epoch = epoch, 0
            if validate:
                started = time.perf_counter()
                validated = self.validate()
                progress.seconds += time.perf_counter() - started
                stopped = self._end_epoch(*validated)
            if validate or stopped:
                self.save()
        return self._finished()

    def train_for(self, epochs: int) -> Graphormer | None:
        """Train without validation, and return the network, or None if a callback stopped it."""
        for epoch in range(epochs):
            self.progress.epoch, self.progress.step_in_epoch = epoch, 0
            started = time.perf_counter()
            if self._train_epoch():
                return None
            self.progress.epoch_seconds += time.perf_counter() - started
        self._collect()
        network = self.trained_objective().network
        self._set_statistics(network)
        return network.eval()

    def _finished(self) -> bool:
        run, progress = self.config.run, self.progress
        if progress.epoch >= progress.epochs or run.patience is None:
            return progress.epoch >= progress.epochs
        validated = progress.epoch - progress.epoch % run.validate_every
        return validated - (progress.kept_epoch or 0) >= run.patience

    def _train_epoch(self) -> bool:
        """Take the remaining steps of the epoch, and return whether a callback stopped it."""
        progress, started = self.progress, time.perf_counter()
        batches = self.schedule.batches(progress.epoch)
        for molecules in self.steps(batches[progress.step_in_epoch :]):
            progress.step_in_epoch += 1
            progress.graphs += molecules
            if self._reads_losses:
                self._collect()
            seconds = progress.epoch_seconds + time.perf_counter() - started
            done, rate = progress.step_in_epoch, progress.graphs / seconds
            stop = self.callback.on_step(progress.epoch, done, len(batches), self._last_loss, rate)
            if self.world.any(bool(stop)):
                return True
        return False

    def steps(self, batches: Sequence[np.ndarray]) -> Iterator[int]:
        """Take a step on each batch, and yield the number of its molecules."""
        progress = self.progress
        self.objective.train()
        for norm in self._kept_norms:
            norm.eval()
        for batch in batches:
            self.step(batch, self._learning_rate(progress.step), progress.step)
            progress.step += 1
            yield len(batch)

    def _learning_rate(self, step: int) -> float:
        return learning_rate(step, self.total_steps, self.config.optim)

    def _collect(self) -> None:
        """Read the losses of the steps since the last call, which synchronises with the device."""
        totals = self.step.totals.clone()
        self.step.totals.zero_()
        self.world.sum(totals)
        loss_sum, count = totals.tolist()
        if not math.isfinite(loss_sum):
            raise diverged(f"the loss is {loss_sum} at step {self.progress.step}", self.config)
        self.progress.loss_sum += loss_sum
        self.progress.loss_count += count
        self._last_loss = loss_sum / max(count, TINY)

    def trained_objective(self) -> Objective:
        """Return the objective to validate: the weight average if there is one."""
        average = self.step.average
        return self.objective if average is None else average.module

    def validate(self) -> tuple[float, dict[str, float]]:
        """Return loss and scores of the validation split, with current batch-norm statistics."""
        objective = self.trained_objective()
        last = self.progress.epoch >= self.progress.epochs
        self._set_statistics(objective.network, None if last else _SAMPLE)
        return objective.eval().validate(self.dataset.splits["val"], self.world)

    def _set_statistics(self, network: Graphormer, sample: int | None = None) -> None:
        """Estimate the batch-norm statistics from training molecules, unless they are kept."""
        if not self._kept_norms:
            batches = self.schedule.statistics_batches(sample)
            shares = (self.world.share(batch, min_size=1) for batch in batches)
            groups = self.config.run.max_groups
            estimate_statistics(network, (self.graphs.cut(share, groups) for share in shares))

    def _end_epoch(self, val_loss: float, scores: dict[str, float]) -> bool:
        """Keep the model and write the history; return whether a callback stopped the run."""
        progress, started = self.progress, time.perf_counter()
        metric = self.model.task.chosen_by
        score = val_loss if metric.name == "loss" else scores[metric.name]
        improved = metric.better(score, progress.best_score)
        kept = improved or self.config.run.patience is None
        record = EpochRecord(
            epoch=progress.epoch,
            step=progress.step,
            lr=self._learning_rate(progress.step - 1) if progress.step else 0.0,
            train_loss=progress.loss_sum / progress.loss_count if progress.loss_count else math.nan,
            val_loss=val_loss,
            scores=scores,
            seconds=progress.epoch_seconds,
            graphs_per_second=progress.graphs / max(progress.epoch_seconds, TINY),
            kept=kept,
        )
        if improved:
            progress.best_score = None if math.isnan(score) else score
        if kept:
            progress.kept_epoch = progress.epoch
            state = self.trained_objective().state_dict().items()
            model = self._keep({name: value.cpu().clone() for name, value in state})
            self.write(lambda run: model.save_pretrained(run.model))
        progress.history.append(record.line())
        self.write(lambda run: run.write_history(progress.history))
        progress.seconds += progress.epoch_seconds + time.perf_counter() - started
        progress.graphs = 0
        progress.loss_sum = progress.loss_count = progress.epoch_seconds = 0.0
        return self.world.any(bool(self.callback.on_epoch(record, progress.epochs)))

    def _keep(self, state: dict[str, Tensor]) -> PropertyModel:
        network = empty_network(self.model.network.config)
        network.load_state_dict(tensors_under("network.", state))
        self.kept, self.kept_state = self.model.with_network(network.eval()), state
        return self.kept


_WARM_UPS, _STEPS = 3, 100
_MAX_SHARE = 0.03  # of the budget that measuring may take
_MARGIN = 0.95  # machines slow down when they get warm or busy


def epochs_within(trainer: Trainer, seconds: float) -> int:
    """Time some steps and a validation, and return the number of epochs that fit into `seconds`."""
    if trainer.world.size > 1:  # each would measure another speed
        raise ConfigError("run.budget is for one process: give --epochs for several")
    started, progress = time.perf_counter(), replace(trainer.progress)
    parts: list[Any] = [trainer.objective, trainer.step.optimizer]
    parts += [] if trainer.step.average is None else [trainer.step.average]
    before = [deepcopy(part.state_dict()) for part in parts]
    gpus = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(gpus):
        step, validation = _measure(trainer, seconds * _MAX_SHARE)
    for part, state in zip(parts, before, strict=True):
        part.load_state_dict(state)
    trainer.step.totals.zero_()
    trainer.progress = progress
    epoch = step * len(trainer.schedule.batches(0))
    left = seconds * _MARGIN - (time.perf_counter() - started) - 2 * validation  # the final scores
    epochs = int(left / (epoch + validation / trainer.config.run.validate_every))
    if epochs < 1:
        raise ConfigError(
            f"run.budget is too short: an epoch takes some {epoch + validation:,.1f} s here, and "
            f"{max(left, 0):,.1f} s are left of {trainer.config.run.budget}. Give more time"
        )
    return epochs


def _measure(trainer: Trainer, max_seconds: float) -> tuple[float, float]:
    batches = cycle(trainer.schedule.batches(0))

    def timed(work: Callable[[], object]) -> float:
        started = time.perf_counter()
        work()
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)
        return time.perf_counter() - started

    def step(number: int) -> float:
        some = list(islice(batches, number))
        return timed(lambda: [*trainer.steps(some)]) / number

    step(_WARM_UPS)
    number = min(_STEPS, max(1, int(max_seconds / step(1))))
    return step(number), timed(trainer.validate)

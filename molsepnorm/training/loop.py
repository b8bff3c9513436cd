"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from molsepnorm import devices
from molsepnorm.data.batching.bucketing import epoch_batches, max_batch_pairs, num_batches
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ModelError, MolsepnormError
from molsepnorm.model import PropertyModel
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.predict.inference import infer
from molsepnorm.sepnorm.batch_norm import synchronize_norms
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.training.callback import Callback, EpochRecord
from molsepnorm.training.checkpoint import Progress, load_checkpoint
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.distributed import DistributedContext, device_of_rank
from molsepnorm.training.folder import RunFolder
from molsepnorm.training.memory import RunInMemory
from molsepnorm.training.optim import WeightAverage, learning_rate, make_optimizer
from molsepnorm.training.statistics import estimate_statistics, statistics_batches
from molsepnorm.training.step import TINY, Examples, TrainStep

__all__ = ["Trainer"]

_MANY_TARGETS = 20  # beyond these, an epoch is scored by the chosen metric alone


class Trainer:
    """Trains a model on a data set, in a run's folder.

    All that decides the next step is in `progress`, the network, the optimiser, the average and
    torch's random generator; a checkpoint holds just these, so that a run which goes on from one
    takes the same steps as if it had never stopped.

    Args:
        config: the run's.
        dataset: what to train on.
        model: its network is trained in place; its task standardises the labels.
        folder: where checkpoints and the best model go.
        callback: is told what happens.
        world: the processes that train together.
    """

    def __init__(
        self,
        config: TrainConfig,
        dataset: Dataset,
        model: PropertyModel,
        folder: RunFolder | RunInMemory,
        callback: Callback,
        world: DistributedContext = DistributedContext(),  # noqa: B008 - frozen
    ) -> None:
        self.config, self.dataset, self.model = config, dataset, model
        self.folder, self.callback, self.world = folder, callback, world
        self.device = device_of_rank(config.run.device, world)
        self.network = model.network.to(self.device)
        if world.size > 1:
            synchronize_norms(self.network)
        self.optimizer = make_optimizer(self.network, config.optim)
        ema = config.optim.ema
        self.average = WeightAverage(self.network, ema) if ema else None
        weights = dataset.weights
        examples = Examples(
            GraphTensors.of(dataset.store, self.device),
            torch.from_numpy(dataset.labels[:]).to(self.device),
            None if weights is None else torch.from_numpy(weights).to(self.device),
        )
        self.graphs = examples.graphs
        train = dataset.splits["train"]
        if self.device.type in devices.CHECKED:
            from molsepnorm.training.trial import settled

            config = settled(config, self.device, world, callback.on_warning)
        self.step = TrainStep(
            *(
                config,
                model,
                self.average,
                self.optimizer,
                examples,
                train,
                world,
                callback.on_warning,
            )
        )
        self.progress = Progress()
        self.plan_epochs(config.run.epochs)
        # a GPU goes on by itself, and to ask several processes would take them longer than a step
        self._waits = self.device.type == "cpu" and world.size == 1
        self._last_loss = math.nan

    def resume(self) -> None:
        """Go on from the folder's checkpoint.

        Raises:
            ModelError: it is damaged, or counts other epochs or steps than the configuration and
                the data give.
        """
        folder = self.folder
        assert isinstance(folder, RunFolder)
        self.progress, random, history = load_checkpoint(
            folder.checkpoint, self.network, self.optimizer, self.average
        )
        self._require_counts()
        self.world.on_main_process(lambda: folder.restore_history(history))
        self.world.restore_random(random, self.config.run.seed, self.progress.step)
        self.plan_epochs(self.progress.epochs)

    def _require_counts(self) -> None:
        progress, run = self.progress, self.config.run
        if run.budget is None and progress.epochs != run.epochs:
            told = f"is of a run of {progress.epochs} epochs, and run.epochs is {run.epochs}"
        elif progress.step_in_epoch > (steps := len(self.plan(progress.epoch))):
            told = f"has {progress.step_in_epoch} steps in an epoch of {steps}"
        elif progress.step != (steps := self._count_steps(progress.epoch) + progress.step_in_epoch):
            told = f"counts {progress.step} steps where {steps} were taken"
        else:
            return
        assert isinstance(self.folder, RunFolder)
        raise ModelError(
            f"{self.folder.checkpoint} {told}: it is damaged or belongs to another configuration. "
            "Start the run anew in another folder"
        )

    def plan_epochs(self, epochs: int) -> None:
        """Train for so many, which the schedule needs to know beforehand."""
        self.epochs = self.progress.epochs = epochs
        self.total_steps = self._count_steps(epochs)

    def fit(self, stop: Callable[[], bool]) -> bool:
        """Train to the last epoch, or until `stop` says so after a step.

        Returns:
            Whether training came to its end: the last epoch, or the end of patience.
        """
        run, progress = self.config.run, self.progress
        while progress.epoch < self.epochs and not self._out_of_patience():
            begun = time.perf_counter()
            finished = self._train_epoch(stop)
            validate = finished and (
                (progress.epoch + 1) % run.validate_every == 0 or progress.epoch + 1 == self.epochs
            )
            if validate or not finished:
                self._collect()
            progress.epoch_seconds += time.perf_counter() - begun
            if not finished:
                self.save()
                return False
            progress.epoch += 1
            progress.step_in_epoch = 0
            if validate:
                self._end_epoch()
                self.save()
        return True

    def trained_network(self) -> Graphormer:
        """What is validated and kept: the average where there is one."""
        return self.network if self.average is None else self.average.module

    def validate(self) -> tuple[float, dict[str, float]]:
        """Loss and scores of the validation split, after batch norms got the statistics of the
        weights as they are."""
        estimate_statistics(self.trained_network(), self._sample())
        return self._validate()

    def wait(self) -> None:
        """Until the device has done all that it was asked for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The training molecules of each step of an epoch, which depend on seed and epoch alone."""
        run, sizes = self.config.run, self.graphs.sizes
        graphs, rng = self.dataset.splits["train"], np.random.default_rng((run.seed, epoch))
        return epoch_batches(
            graphs, sizes, run.batch_size, rng, run.blocks, run.max_pairs, self._fewest
        )

    def take_steps(self, batches: Sequence[np.ndarray]) -> None:
        """Take a step on each batch, without waiting for the device."""
        for _ in self._steps(batches):
            pass

    def _steps(self, batches: Sequence[np.ndarray]) -> Iterator[int]:
        """The same; after each step, how many molecules it had."""
        progress = self.progress
        self.network.train()
        for batch, planned in zip(batches, self.step.plan(batches), strict=True):
            rate = learning_rate(progress.step, self.total_steps, self.config.optim)
            weight = 1.0 if self.average is None else self.average.weight(progress.step)
            self.step(planned, rate, weight)
            progress.step += 1
            yield len(batch)

    def _train_epoch(self, stop: Callable[[], bool]) -> bool:
        """The rest of the epoch that is under way; false if it was stopped before its end."""
        progress, begun = self.progress, time.perf_counter()
        batches = self.plan(progress.epoch)
        for molecules in self._steps(batches[progress.step_in_epoch :]):
            progress.step_in_epoch += 1
            progress.graphs += molecules
            if self._waits:
                self._collect()
            seconds = progress.epoch_seconds + time.perf_counter() - begun
            done, of = progress.step_in_epoch, len(batches)
            rate = progress.graphs / seconds
            self.callback.on_step(progress.epoch, done, of, self._last_loss, rate)
            if self.world.any(stop()):
                return False
        return True

    def _collect(self) -> None:
        """Take over the losses of the steps since the last time, once they are computed."""
        totals = self.step.totals.clone()
        self.step.totals.zero_()
        self.world.sum(totals)
        loss_sum, count = totals.tolist()
        if not math.isfinite(loss_sum):
            raise self._diverged(f"the loss is {loss_sum} at step {self.progress.step}")
        self.progress.loss_sum += loss_sum
        self.progress.loss_count += count
        self._last_loss = loss_sum / max(count, TINY)

    def _diverged(self, what: str) -> MolsepnormError:
        return MolsepnormError(
            f"{what}: training diverged. Try a lower optim.lr (now {self.config.optim.lr:g}), a "
            "longer optim.warmup, or optim.clip_norm"
        )

    def _end_epoch(self) -> None:
        """Validate, keep the model if it is the best so far, write the history."""
        progress, begun = self.progress, time.perf_counter()
        val_loss, scores = self.validate()
        metric = self.model.task.chosen_by
        score = val_loss if metric.name == "loss" else scores[metric.name]
        best = metric.better(score, progress.best_score)
        record = EpochRecord(
            epoch=progress.epoch,
            step=progress.step,
            lr=learning_rate(progress.step - 1, self.total_steps, self.config.optim),
            train_loss=progress.loss_sum / max(progress.loss_count, TINY),
            val_loss=val_loss,
            scores=scores,
            seconds=progress.epoch_seconds,
            graphs_per_second=progress.graphs / progress.epoch_seconds,
            best=best,
        )
        if best:
            progress.best_score = None if math.isnan(score) else score
            progress.best_epoch = progress.epoch
        self.world.on_main_process(lambda: self._keep(record))
        progress.seconds += progress.epoch_seconds + time.perf_counter() - begun
        progress.graphs = 0
        progress.loss_sum = progress.loss_count = progress.epoch_seconds = 0.0
        self.callback.on_epoch(record, self.epochs)

    def _keep(self, record: EpochRecord) -> None:
        if record.best:
            kept = replace(self.model, network=self.trained_network())
            self.folder.keep_model(kept)
        self.folder.append_history(record)

    def _sample(self) -> Iterator[GraphBatch]:
        """Batches of training molecules, the same at every validation."""
        run, graphs = self.config.run, self.dataset.splits["train"]
        for batch in statistics_batches(graphs, self.graphs.sizes, run, self._fewest):
            yield self.graphs.cut(self.world.share(batch, least=1), run.blocks)

    @property
    def _fewest(self) -> int:
        """How few molecules a batch may have: a batch norm needs two, and each process one."""
        return max(2, self.world.size)

    def _count_steps(self, epochs: int) -> int:
        """Return the number of steps in the first epochs."""
        run, graphs = self.config.run, self.dataset.splits["train"]
        if max_batch_pairs(graphs, self.graphs.sizes, run.batch_size) <= run.max_pairs:
            return epochs * num_batches(len(graphs), run.batch_size)
        return sum(len(self.plan(epoch)) for epoch in range(epochs))

    def _out_of_patience(self) -> bool:
        run, progress = self.config.run, self.progress
        if run.patience is None:
            return False
        validated = progress.epoch - progress.epoch % run.validate_every
        return validated - (progress.best_epoch or 0) >= run.patience

    def _validate(self) -> tuple[float, dict[str, float]]:
        """Loss and scores of the whole validation split."""
        graphs, task = self.dataset.splits["val"], self.model.task
        share = infer(self.trained_network(), self.graphs, self.world.share(graphs))
        outputs = self.world.gather(share)
        if not outputs.isfinite().all():
            raise self._diverged("an output on a validation molecule is not finite")
        labels, weights = self.dataset.labels[graphs], self.dataset.weights
        given = None if weights is None else torch.from_numpy(weights[graphs])
        loss_sum, count = task.loss(outputs, torch.from_numpy(labels), given)
        # of very many targets the rest would take longer than training
        only = METRICS if len(task.targets) <= _MANY_TARGETS else [task.metric]
        scores = task.scores(task.predictions(outputs).numpy(), labels, only)
        return float(loss_sum / count.clamp(min=TINY)), scores

    def save(self) -> None:
        """Write the checkpoint from which `resume` goes on."""
        random = self.world.random_states()
        parts = (self.progress, self.network, self.optimizer, self.average, random)
        self.world.on_main_process(lambda: self.folder.save_checkpoint(*parts))

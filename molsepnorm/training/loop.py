"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.batch import GraphTensors, epoch_batches, largest_batch, num_batches
from molsepnorm.datasets.dataset import Dataset
from molsepnorm.errors import MolsepnormError
from molsepnorm.inference import infer, pick_device
from molsepnorm.metrics import METRICS
from molsepnorm.model import PropertyModel
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.folder import RunFolder
from molsepnorm.training.listener import EpochRecord, Listener
from molsepnorm.training.optim import learning_rate, make_average, make_optimizer
from molsepnorm.training.statistics import estimate_statistics

__all__ = ["Trainer"]

_TINY = 1e-12  # in place of a sum of weights that is zero, and the loss with it
_MANY_TARGETS = 20  # beyond these, an epoch is scored by the chosen metric alone
_STATISTICS = 1024  # training molecules from which batch-norm statistics are estimated


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
        listener: is told what happens.
    """

    def __init__(
        self,
        config: TrainConfig,
        dataset: Dataset,
        model: PropertyModel,
        folder: RunFolder,
        listener: Listener,
    ) -> None:
        self.config, self.dataset, self.model = config, dataset, model
        self.folder, self.listener = folder, listener
        self.device = pick_device(config.run.device)
        self.network = model.network.to(self.device)
        self.optimizer = make_optimizer(self.network, config.optim)
        ema = config.optim.ema
        self.average = make_average(self.network, ema) if ema else None
        self.graphs = GraphTensors.of(dataset.store, self.device)
        self.labels = torch.from_numpy(dataset.store.labels[:]).to(self.device)
        weights = dataset.weights
        self.weights = None if weights is None else torch.from_numpy(weights).to(self.device)
        self.progress = Progress()
        self.total_steps = self._count_steps()

    def resume(self) -> None:
        """Go on from the folder's checkpoint."""
        self.progress = load_checkpoint(
            self.folder.checkpoint, self.network, self.optimizer, self.average
        )

    def fit(self, stop: Callable[[], bool]) -> bool:
        """Train to the last epoch, or until `stop` says so after a step.

        Returns:
            Whether training came to its end: the last epoch, or the end of patience.
        """
        while self.progress.epoch < self.config.run.epochs and not self._out_of_patience():
            if not self._train_epoch(stop):
                self.save()
                return False
            self._end_epoch()
            self.save()
        return True

    def trained_network(self) -> Graphormer:
        """What is validated and kept: the average where there is one."""
        return self.network if self.average is None else cast(Graphormer, self.average.module)

    def _train_epoch(self, stop: Callable[[], bool]) -> bool:
        """The rest of the epoch that is under way; false if it was stopped before its end."""
        progress = self.progress
        batches = self._batches(progress.epoch)
        self.network.train()
        for batch in batches[progress.step_in_epoch :]:
            begun = time.perf_counter()
            loss = self._step(batch)
            progress.step += 1
            progress.step_in_epoch += 1
            progress.graphs += len(batch)
            progress.epoch_seconds += time.perf_counter() - begun
            rate = progress.graphs / progress.epoch_seconds
            done, of = progress.step_in_epoch, len(batches)
            self.listener.stepped(progress.epoch, done, of, loss, rate)
            if stop():
                return False
        return True

    def _step(self, batch: np.ndarray) -> float:
        """One optimiser step; returns the batch's mean loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.progress.step, self.total_steps, self.config.optim)
        graphs = self.graphs.cut(batch, self.config.run.blocks)
        which = torch.from_numpy(batch).to(self.device)
        weights = None if self.weights is None else self.weights[which]
        loss_sum, count = self.model.task.loss(self.network(graphs), self.labels[which], weights)
        self.optimizer.zero_grad()
        (loss_sum / count.clamp(min=_TINY)).backward()
        if self.config.optim.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.config.optim.clip_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update_parameters(self.network)
        return self._count(loss_sum, count)

    def _count(self, loss_sum: Tensor, count: Tensor) -> float:
        total, weight = float(loss_sum.detach()), float(count)
        if not math.isfinite(total):
            raise self._diverged(f"the loss is {total} at step {self.progress.step + 1}")
        self.progress.loss_sum += total
        self.progress.loss_count += weight
        return total / max(weight, _TINY)

    def _diverged(self, what: str) -> MolsepnormError:
        return MolsepnormError(
            f"{what}: training diverged. Try a lower optim.lr (now {self.config.optim.lr:g}), a "
            "longer optim.warmup, or optim.clip_norm"
        )

    def _end_epoch(self) -> None:
        """Validate, keep the model if it is the best so far, write the history."""
        progress, begun = self.progress, time.perf_counter()
        estimate_statistics(self.trained_network(), self._sample())
        val_loss, scores = self._validate()
        metric = self.model.task.chosen_by
        score = val_loss if metric.name == "loss" else scores[metric.name]
        best = metric.better(score, progress.best_score)
        progress.epoch += 1
        if best:
            progress.best_score = None if math.isnan(score) else score
            progress.best_epoch = progress.epoch
            kept = replace(self.model, network=self.trained_network())
            kept.save_pretrained(self.folder.model)
        record = EpochRecord(
            epoch=progress.epoch,
            step=progress.step,
            lr=learning_rate(progress.step - 1, self.total_steps, self.config.optim),
            train_loss=progress.loss_sum / max(progress.loss_count, _TINY),
            val_loss=val_loss,
            scores=scores,
            seconds=progress.epoch_seconds,
            graphs_per_second=progress.graphs / progress.epoch_seconds,
            best=best,
        )
        self.folder.append_history(record)
        progress.seconds += progress.epoch_seconds + time.perf_counter() - begun
        progress.step_in_epoch = progress.graphs = 0
        progress.loss_sum = progress.loss_count = progress.epoch_seconds = 0.0
        self.listener.epoch_ended(record, self.config.run.epochs)

    def _sample(self) -> Iterator[GraphBatch]:
        """Random batches of training molecules, the same after every epoch."""
        graphs = self.dataset.splits["train"]
        rng = np.random.default_rng(self.config.run.seed)
        for batch in self._cut_epoch(rng.permutation(graphs)[:_STATISTICS], rng):
            yield self.graphs.cut(batch, self.config.run.blocks)

    def _batches(self, epoch: int) -> list[np.ndarray]:
        """The training molecules of each step of an epoch, which depend on seed and epoch alone."""
        rng = np.random.default_rng((self.config.run.seed, epoch))
        return self._cut_epoch(self.dataset.splits["train"], rng)

    def _cut_epoch(self, graphs: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        run = self.config.run
        sizes = self.graphs.sizes
        return epoch_batches(graphs, sizes, run.batch_size, rng, run.blocks, run.max_pairs)

    def _count_steps(self) -> int:
        """Of the whole run, which the schedule needs to know beforehand."""
        run, graphs = self.config.run, self.dataset.splits["train"]
        if largest_batch(graphs, self.graphs.sizes, run.batch_size) <= run.max_pairs:
            return run.epochs * num_batches(len(graphs), run.batch_size)
        return sum(len(self._batches(epoch)) for epoch in range(run.epochs))

    def _out_of_patience(self) -> bool:
        patience, progress = self.config.run.patience, self.progress
        if patience is None:
            return False
        return progress.epoch - (progress.best_epoch or 0) >= patience

    def _validate(self) -> tuple[float, dict[str, float]]:
        """Loss and scores of the whole validation split."""
        graphs, task = self.dataset.splits["val"], self.model.task
        outputs = infer(self.trained_network(), self.graphs, graphs)
        if not outputs.isfinite().all():
            raise self._diverged("an output on a validation molecule is not finite")
        labels, weights = self.dataset.store.labels[graphs], self.dataset.weights
        given = None if weights is None else torch.from_numpy(weights[graphs])
        loss_sum, count = task.loss(outputs, torch.from_numpy(labels), given)
        # of very many targets the rest would take longer than training
        only = METRICS if len(task.targets) <= _MANY_TARGETS else [task.metric]
        scores = task.scores(task.predictions(outputs).numpy(), labels, only)
        return float(loss_sum / count.clamp(min=_TINY)), scores

    def save(self) -> None:
        """Write the checkpoint from which `resume` goes on."""
        save_checkpoint(
            self.folder.checkpoint, self.progress, self.network, self.optimizer, self.average
        )

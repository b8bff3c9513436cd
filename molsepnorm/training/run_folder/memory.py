"""`RunInMemory`: a training run without a folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from molsepnorm.model import PropertyModel
from molsepnorm.nn.graphormer import empty_network
from molsepnorm.training.objectives import Objective


class RunInMemory:
    """Takes the place of `RunFolder`: it keeps the best model and writes nothing."""

    path = None

    def __init__(self) -> None:
        self._best: tuple[PropertyModel, dict[str, Tensor]] | None = None

    def keep_best(self, model: PropertyModel, objective: Objective) -> None:
        """Keep a copy of the best model so far, on the CPU and in evaluation mode."""
        network = empty_network(model.network.config)
        network.load_state_dict(objective.network.state_dict())
        own = {name: tensor.cpu().clone() for name, tensor in objective.own_state().items()}
        self._best = replace(model, network=network.eval()), own

    def keep(self, model: PropertyModel) -> None:
        """Replace the best model by the one that a run ends with."""
        assert self._best is not None
        self._best = model, self._best[1]

    def best(self) -> tuple[PropertyModel, dict[str, Tensor]]:
        """Return the best model, and the other tensors of its objective."""
        assert self._best is not None
        return self._best

    def finished_metrics(self) -> None:
        """Return None: there is no earlier run."""

    def earlier(self, epochs: int) -> dict[str, Any]:
        """Return nothing: a run in memory is scored once."""
        return {}

    def _write_nothing(self, *parts: Any) -> None:
        pass

    begin = keep_probe = append_history = finish = _write_nothing

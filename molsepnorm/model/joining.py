"""`join`: one model whose predictions are the mean of those of several models."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch

from molsepnorm.errors import ConfigError, counted
from molsepnorm.model.model import PropertyModel
from molsepnorm.model.parts import Part
from molsepnorm.tasks import ExtraInputs, Target
from molsepnorm.tasks.domain import Domain
from molsepnorm.tasks.transforms import NO_TRANSFORM


def join(models: Sequence[PropertyModel], weights: Sequence[float] | None = None) -> PropertyModel:
    """Return a model whose predictions are the mean of those of several models.

    The parts are copied, and those that are equal become one with the sum of their weights. All
    parts of the result standardise labels as the first model does; their predictions stay the same
    up to rounding. The training molecules are those of all models, with the mean of their expected
    errors (`Domain.mean`), unless a model lacks either.

    >>> from molsepnorm.nn import Graphormer, GraphormerConfig
    >>> from molsepnorm.tasks import Target, Task
    >>> task = Task((Target("logS", "regression"),), metric="mae")
    >>> network = Graphormer(GraphormerConfig(layers=1))
    >>> both = join([PropertyModel.of(network, "zinc", task)] * 2)
    >>> len(both.parts), both.weights
    (1, (1.0,))

    Args:
        models: one or more models with the same targets, featuriser and inputs.
        weights: weight of each model, 0 or more; by default all are equal.
    """
    weights = [1.0] * len(models) if weights is None else list(weights)
    if not models or len(weights) != len(models) or min(weights) < 0 or not sum(weights) > 0:
        raise ConfigError(
            f"one model or more is needed, each with a weight of 0 or more; got "
            f"{counted(len(models), 'model')} and the weights {weights}"
        )
    first = models[0]
    for number, model in enumerate(models, start=1):
        model.require_targets()
        _require_same(first, model, number)
    try:
        ExtraInputs.joined([model.inputs for model in models])
    except ConfigError as error:
        raise ConfigError(f"only models with the same inputs can be joined: {error}") from None
    parts, shares = list[Part](), list[float]()
    for model, of_model in zip(models, weights, strict=True):
        for part, weight in zip(model.parts, model.weights, strict=True):
            own = deepcopy(part)
            own.rescale(model.task, first.task)
            own.to("cpu")
            share = weight * of_model / sum(weights)
            for place, other in enumerate(parts):
                if _are_equal(own, other):
                    shares[place] += share
                    break
            else:
                parts.append(own)
                shares.append(share)
    domains = [each.domain for each in models if each.domain is not None]
    structures = tuple(part for each in models for part in each.structures)
    return replace(
        first,
        parts=tuple(parts),
        weights=tuple(share / sum(shares) for share in shares),
        excludes={name: reason for model in models for name, reason in model.excludes.items()},
        calibration=(),
        domain=Domain.mean(domains) if len(domains) == len(models) else None,
        structures=structures if all(each.structures for each in models) else (),
    )


def _require_same(first: PropertyModel, model: PropertyModel, number: int) -> None:
    """Check that a model has the targets and the encoding of the first one."""

    def described(each: PropertyModel) -> list[tuple[str, Any]]:
        return [
            ("targets", ", ".join(map(_described, each.task.targets))),
            ("featuriser", each.featurizer),
            ("standardisation", each.standardize),
            ("encoding", each.encoding),
        ]

    for (what, one), (_, other) in zip(described(first), described(model), strict=True):
        if one != other:
            raise ConfigError(
                f"only models with the same {what} can be joined: model 1 has {one}, and model "
                f"{number} has {other}"
            )


def _described(target: Target) -> str:
    transform = [] if target.transform == NO_TRANSFORM else [target.transform]
    return f"{target.name} ({', '.join([target.kind, *target.classes, *transform])})"


def _are_equal(one: Part, other: Part) -> bool:
    """Return whether two parts have the same numbers and read the same inputs."""
    (own, tensors), (others, theirs) = one.state(), other.state()
    same = (one.kind, one.reads, own) == (other.kind, other.reads, others)
    same = same and tensors.keys() == theirs.keys()
    return same and all(torch.equal(each, theirs[name]) for name, each in tensors.items())

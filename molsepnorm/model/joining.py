"""`join`: one model whose predictions are the mean of those of several models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeVar

import torch

from molsepnorm.errors import ConfigError, counted
from molsepnorm.forest import Forest
from molsepnorm.model.model import PropertyModel
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.parts import INTERACTIONS, output_layer
from molsepnorm.tasks import ExtraInputs, FeatureColumn, Target, Task
from molsepnorm.tasks.transforms import NO_TRANSFORM

_Part = TypeVar("_Part")  # a network or a forest of a model


def join(models: Sequence[PropertyModel], weights: Sequence[float] | None = None) -> PropertyModel:
    """Return a model whose predictions are the mean of those of several models.

    The networks are copied, and those that are equal become one with the sum of their weights, as
    do equal forests of blends. All networks of the result standardise labels as the first model
    does; their predictions stay the same up to rounding. The training molecules are those of all
    models, with the highest threshold of their domains, unless a model lacks either.

    >>> from molsepnorm.nn import GraphormerConfig
    >>> from molsepnorm.tasks import Target
    >>> task = Task((Target("logS", "regression"),), metric="mae")
    >>> network = Graphormer(GraphormerConfig(layers=1))
    >>> both = join([PropertyModel(network, "zinc", task), PropertyModel(network, "zinc", task)])
    >>> len(both.networks), both.weights
    (1, (1.0,))

    Args:
        models: one or more models with the same targets and the same inputs.
        weights: weight of each model, 0 or more; by default all are equal. They are scaled to sum
            to 1.

    Raises:
        ConfigError: the models differ in their targets, featuriser, standardisation or encoding;
            one was pre-trained without targets; or the weights do not fit.
    """
    weights = [1.0] * len(models) if weights is None else list(weights)
    if not models or len(weights) != len(models) or min(weights) < 0 or not sum(weights) > 0:
        raise ConfigError(
            f"one model or more is needed, each with a weight of 0 or more; got "
            f"{counted(len(models), 'model')} and the weights {weights}"
        )
    first, inputs = models[0], models[0].inputs
    for number, model in enumerate(models, start=1):
        model.require_targets()
        _require_same(first, model, inputs, number)
        inputs = model.inputs if inputs.is_start_of(model.inputs) else inputs
    every = zip_longest(*(model.inputs.columns for model in models))
    columns = (FeatureColumn.joined([each for each in its if each is not None]) for its in every)
    inputs = replace(inputs, columns=tuple(columns))
    of_models = [weight / sum(weights) for weight in weights]
    of_networks = [
        weight * (1 - model.forest_share) for model, weight in zip(models, of_models, strict=True)
    ]
    forests, forest_share = _joined_forests(models, of_models)
    parts = zip(models, of_networks if any(of_networks) else of_models, strict=True)
    networks, shares = _merged(
        (
            (network, part * share)
            for model, part in parts
            for network, share in _networks(model, first.task)
        ),
        lambda one, other: (
            one.config == other.config and _are_equal(one.state_dict(), other.state_dict())
        ),
    )
    domains = [each.domain for each in models if each.domain is not None]
    domain = max(domains, key=lambda each: each.threshold, default=None)
    structures = tuple(part for each in models for part in each.structures)
    return replace(
        first,
        network=networks[0],
        partners=tuple(networks[1:]),
        weights=tuple(share / sum(shares) for share in shares),
        excludes={name: reason for model in models for name, reason in model.excludes.items()},
        inputs=inputs,
        forests=forests,
        forest_share=min(forest_share, 1.0),  # which rounding may exceed
        calibration=(),
        domain=domain if all(each.domain is not None for each in models) else None,
        structures=structures if all(each.structures for each in models) else (),
    )


def _joined_forests(
    models: Sequence[PropertyModel], weights: Sequence[float]
) -> tuple[tuple[Forest, ...], float]:
    """Return the forests of all models, and their share in the mean with these weights.

    A model takes the plain mean of its forests. So the predictions of each are multiplied by the
    ratio of its own weight to the mean weight. Forests that are equal become one.
    """
    forests, parts = _merged(
        (
            (forest, weight * model.forest_share / len(model.forests))
            for model, weight in zip(models, weights, strict=True)
            for forest in model.forests
            if weight
        ),
        lambda one, other: _are_equal(one.tensors(), other.tensors()),
    )
    share = sum(parts)
    scaled = (
        forest.times(part * len(parts) / share) for forest, part in zip(forests, parts, strict=True)
    )
    return tuple(scaled), share


def _require_same(
    first: PropertyModel, model: PropertyModel, inputs: ExtraInputs, number: int
) -> None:
    """Check that a model has the targets of the first one, and the inputs of those before it."""

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
    if not (inputs.is_start_of(model.inputs) or model.inputs.is_start_of(inputs)):
        raise ConfigError(
            f"only models with the same feature columns and molecule features can be joined; those "
            f"of model {number} differ from those of the models before it"
        )


def _described(target: Target) -> str:
    """Return the name of a target, and in brackets what its predictions are."""
    transform = [] if target.transform == NO_TRANSFORM else [target.transform]
    return f"{target.name} ({', '.join([target.kind, *target.classes, *transform])})"


def _networks(model: PropertyModel, task: Task) -> Iterator[tuple[Graphormer, float]]:
    """Yield copies of the networks on the CPU, with their weights.

    Their outputs give the same predictions in another task, whose targets may standardise labels in
    another way.
    """
    for network, share in zip(model.networks, model.weights, strict=True):
        copied = deepcopy(network).cpu().eval()
        state = copied.state_dict()
        weight, bias = output_layer(state)
        rows = model.task.columns()
        with torch.no_grad():
            for old, new, row in zip(model.task.targets, task.targets, rows, strict=True):
                if (old.mean, old.scale) != (new.mean, new.scale):
                    ratio, shift = old.rescaling_to(new)
                    state[weight][row] *= ratio
                    if INTERACTIONS in state:
                        state[INTERACTIONS][row] *= ratio
                    state[bias][row] = state[bias][row] * ratio + shift
        yield copied, share


def _merged(
    weighted: Iterable[tuple[_Part, float]], are_same: Callable[[_Part, _Part], bool]
) -> tuple[list[_Part], list[float]]:
    """Return the parts, each of them once, and the sum of its weights."""
    parts, weights = list[_Part](), list[float]()
    for part, weight in weighted:
        for number, other in enumerate(parts):
            if are_same(part, other):
                weights[number] += weight
                break
        else:
            parts.append(part)
            weights.append(weight)
    return parts, weights


def _are_equal(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    named = one.keys() == other.keys()
    return named and all(torch.equal(each, other[name]) for name, each in one.items())

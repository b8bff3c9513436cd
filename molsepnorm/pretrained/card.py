"""`ModelCard`: what a model was trained on, and what it must not be evaluated on."""

from __future__ import annotations

from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from molsepnorm.files.reading import check_types, read_json

CARD = "card.json"
"""Name of the card in a model folder."""

_STRICT = ConfigDict(extra="forbid")
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Positive = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, config=_STRICT)
class Source:
    """Molecules that a model was trained on."""

    name: str
    """The data set and the part of it that was used."""
    molecules: _Positive
    sha256: _Digest
    """SHA-256 digest of the SMILES, joined by line breaks."""


@dataclass(frozen=True, config=_STRICT)
class Score:
    """The mean score of the model on a data set, over several seeds."""

    dataset: str
    metric: str
    method: str
    """How the model was used, such as fine-tuned."""
    mean: float
    sd: float
    """Standard deviation over the seeds."""
    seeds: int


@dataclass(frozen=True, config=_STRICT)
class EndPoint:
    """What a target of a model is, and how its values are judged."""

    title: str
    category: str
    """absorption, distribution, metabolism, toxicity, or physical chemistry."""
    unit: str
    """Unit of the value, or what the probability is of."""
    caution: str
    """What the value must not be used for, or what the assay does not measure."""
    source: str
    licence: str
    molecules: int
    """Number of molecules with a label that the model was trained on."""
    good: tuple[float | None, float | None] = (None, None)
    """Smallest and largest value that medicinal chemists usually want; None has no limit. Without
    both limits the value is not judged."""
    tolerable: tuple[float | None, float | None] = (None, None)
    """Smallest and largest value that is not yet a concern; it includes the good ones."""
    reference: tuple[float, ...] = ()
    """Predictions for the molecules of `ModelCard.reference` at equally spaced percentiles, 0 to
    100."""

    def __post_init__(self) -> None:
        if any(low > high for low, high in pairwise(self.reference)):
            raise ValueError(f"percentiles of '{self.title}' do not decrease")
        if len(self.reference) == 1:
            raise ValueError(f"'{self.title}' has no or several percentiles, not one")


@dataclass(frozen=True, config=_STRICT)
class ModelCard:
    """The file `card.json` of a model folder."""

    name: str
    """Name of the model and of its folder."""
    version: str
    description: str
    """One sentence."""
    licence: str
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]
    objectives: Annotated[dict[str, float], Field(min_length=1)]
    """Weight of each training objective."""
    architecture: str
    """The network in a few words."""
    parameters: _Positive
    hours: Annotated[float, Field(ge=0)]
    """Hours of training."""
    machine: str
    """Hardware of the training, in general terms."""
    weights_sha256: _Digest
    """SHA-256 digest of `model.safetensors`."""
    excludes: dict[str, str]
    """Data sets that the model must not be evaluated on, by name, each with the reason. A table
    with the same molecules is not recognised."""
    scores: tuple[Score, ...] = ()
    end_points: dict[str, EndPoint] = field(default_factory=dict)
    """What the targets are, by name; empty if the description says it."""
    reference: str = ""
    """The molecules that `EndPoint.reference` is about, and their source."""

    @property
    def predicts(self) -> bool:
        """True if the model was trained on labels, so that it predicts without fine-tuning."""
        return "supervised" in self.objectives


def read_card(folder: Path) -> ModelCard:
    """Read the card in a model folder, or raise a `ModelError` if an entry is missing, unknown or
    wrong."""
    path = folder / CARD
    return check_types(ModelCard, read_json(path), f"{path} is not a model card")

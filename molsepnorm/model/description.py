"""`config.json`: the networks' architectures, task, featuriser and versions of a model folder.

The file also contains the SHA-256 digests of all files, its own included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molsepnorm._version import __version__
from molsepnorm.errors import ModelError
from molsepnorm.files.digests import KEY, has_digest
from molsepnorm.files.reading import check_types, read_json
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.standardize import Level
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, Task
from molsepnorm.tasks.calibration import Calibration
from molsepnorm.tasks.domain import Domain

if TYPE_CHECKING:
    from molsepnorm.model.model import PropertyModel

CONFIG = "config.json"
"""Name of the file."""

SCHEMA = 2
"""Version of the folder's format; it is increased whenever the meaning of an entry changes."""

SUPERVISED = "supervised"
"""Name of the objective that trains the head of the network."""


@dataclass
class Description:
    """The types of `config.json`."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - also finds a damaged name of `KEY`

    schema: int
    molsepnorm: str
    featurizer: str
    task: Task
    network: GraphormerConfig
    featurizer_version: str = "1"
    objective: str = SUPERVISED
    excludes: dict[str, str] = field(default_factory=dict)
    partners: list[GraphormerConfig] = field(default_factory=list)
    weights: list[float] = field(default_factory=lambda: [1.0])
    standardize: Level = "none"
    inputs: ExtraInputs = NO_INPUTS
    forest_share: float = 0.0
    calibration: list[Calibration] = field(default_factory=list)
    domain: Domain | None = None


def describe(model: PropertyModel) -> dict[str, Any]:
    """Return the entries of `config.json`; no digests are entered yet."""
    about: dict[str, Any] = {
        "schema": SCHEMA,
        "molsepnorm": __version__,
        "featurizer": model.featurizer,
        "featurizer_version": featurize.SIZES[model.featurizer].version,
        "task": asdict(model.task),
        "network": asdict(model.network.config),
        KEY: {},
    }
    if model.objective != SUPERVISED:
        about["objective"] = model.objective
    if model.excludes:
        about["excludes"] = model.excludes
    if model.forests:
        about["forest_share"] = model.forest_share
    if model.partners:
        about["partners"] = [asdict(partner.config) for partner in model.partners]
        about["weights"] = list(model.weights)
    if model.standardize != "none":
        about["standardize"] = model.standardize
    if model.inputs.width:
        about["inputs"] = asdict(model.inputs)
    if model.calibration:
        about["calibration"] = [asdict(each) for each in model.calibration]
    if model.domain is not None:
        about["domain"] = asdict(model.domain)
    return about


def read_config(path: Path) -> dict[str, Any]:
    """Read `config.json` and compare it with its digest.

    Raises:
        ModelError: the file is damaged, or was written by a newer molsepnorm.
        StorageError: it cannot be read.
    """
    about = read_json(path)
    schema = about.get("schema") if isinstance(about, dict) else None
    if type(schema) is not int:
        raise ModelError(f"{path} is damaged: its schema is {schema!r:.80}, not a number")
    if schema > SCHEMA:
        raise ModelError(
            f"{path} was written by molsepnorm {about.get('molsepnorm')!s:.80} (schema {schema}), "
            f"and this is {__version__} (schema {SCHEMA}): upgrade molsepnorm to use this model"
        )
    digests = about.get(KEY)
    expected = digests.pop(CONFIG, None) if isinstance(digests, dict) else None
    if not has_digest(about, expected):
        raise ModelError(
            f"{path} is damaged or was changed: its content does not match its digest. Copy the "
            "folder from its source again"
        )
    return about


def read_entries(path: Path, about: Mapping[str, Any]) -> Description:
    """Return the entries of `read_config` with their types.

    Raises:
        ModelError: an entry is missing, unknown, or has a wrong type or value.
    """
    entries = {name: entry for name, entry in about.items() if name != KEY}
    return check_types(Description, entries, f"{path} does not describe a model")


def brief(reason: object) -> str:
    """Return the first line of an error, which may list every tensor or quote the file."""
    return next(iter(str(reason).splitlines()), "")[:400]

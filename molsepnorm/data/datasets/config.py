"""What to load: the `data` section of a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Set
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from molsepnorm.errors import ConfigError
from molsepnorm.molecules.featurize import SIZES
from molsepnorm.tasks.metrics import Kind

__all__ = ["MOST_SEED", "DataConfig"]

MOST_SEED = 2**63 - 1
"""The largest seed that every generator takes."""

_WAYS_TO_SPLIT = ("splits_column", "splits_file", "folds")
_OF_TABLES = (
    *("targets", "task_type", "classes", "ignore_columns", "weight_column", "split", "split_type"),
    *("split_seed", *_WAYS_TO_SPLIT, "fold"),
)


def _checked_path(path: Path) -> Path:
    if "\0" in str(path) or len(str(path)) > 4096:
        raise ValueError("a path has at most 4096 characters, none of them NUL")
    return path


def _in_order(values: object) -> object:
    if isinstance(values, Set):
        raise ValueError("a set has no order: write a list")
    return values


def _known_featurizer(name: str) -> str:
    if name not in SIZES:
        _ = SIZES[name]  # raises an error that suggests the nearest name
    return name


_Place = Annotated[Path, AfterValidator(_checked_path)]
_Names = Annotated[list[str], BeforeValidator(_in_order)]
_Shares = Annotated[tuple[float, float, float], BeforeValidator(_in_order)]


class DataConfig(BaseModel):
    """A named data set, or a table of one's own."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    dataset: str | None = None
    """A name from `molsepnorm.data.datasets.NAMES`."""
    table: _Place | None = None
    """Or a file with a column of SMILES and columns of labels: CSV, TSV, Parquet, SDF or .smi."""
    data_dir: _Place | None = None
    """Where raw files lie; otherwise the environment variable MOLSEPNORM_DATA, otherwise they are
    downloaded."""

    in_memory: bool = False
    """Or molecules and labels that were passed to `molsepnorm.fit`."""

    smiles_column: str = "smiles"
    targets: _Names | None = None
    """Columns to predict; None for every column of numbers but the others named here."""
    task_type: Kind | dict[str, Kind] | None = None
    """What the targets are: one kind for all, or one for each by its name; guessed where not
    given."""
    classes: dict[str, _Names] = {}
    """Of multi-class targets, the classes in their order; as found in the table where not given."""
    ignore_columns: _Names = []
    """Columns that are never taken for targets."""
    weight_column: str | None = None
    """Column of non-negative numbers by which each row counts in the loss; a blank counts as 1."""
    featurizer: Annotated[str, AfterValidator(_known_featurizer)] = "ogb"
    """Features of a table's molecules: ogb, rich, zinc, or the name of a featuriser that another
    package registers. A named data set has its own."""
    on_invalid: Literal["skip", "fail"] = "skip"
    """What to do with a molecule that cannot be read: leave it out and report it, or stop."""

    split: _Shares | None = (0.8, 0.1, 0.1)
    """For tables: shares of train, validation and test; None for no split, which is enough to
    score a model on all molecules."""
    split_type: Literal["random", "scaffold", "scaffold-ogb"] = "random"
    """How molecules are drawn. scaffold: whole Bemis–Murcko scaffolds, the common ones to train,
    the rest at random. scaffold-ogb: whole scaffolds from the most to the least common, whatever
    the seed, as OGB made its splits; stereoisomers of a scaffold count as different ones, which is
    all that DeepChem's does otherwise."""
    split_seed: int = Field(0, ge=0, le=MOST_SEED)
    splits_column: str | None = None
    """Instead of drawing: a column that says train, val (or valid) or test; rows where it is blank
    are left out."""
    splits_file: _Place | None = None
    """Instead of drawing: a file of rows in the form of chemprop's `splits.json`."""
    folds: int | None = Field(None, ge=2, le=1000)
    """Cross-validation: cut all molecules but the test share in so many folds, of which `fold`
    validates."""
    fold: int = Field(0, ge=0, le=1_000_000)
    """Which fold, or which entry of `splits_file`; otherwise which replicate: training and
    validation molecules are drawn anew for each, the test molecules are the same."""

    @property
    def label(self) -> str:
        """A short name for folders: the set's, or the file's without its endings."""
        if self.dataset is not None:
            return self.dataset
        assert self.table is not None
        return self.table.name.split(".")[0] or "table"

    def require_effect(self, given: Iterable[str]) -> None:
        """Refuse settings of how to draw, given by their dotted names, where nothing is drawn.

        Raises:
            ConfigError: one has no effect.
        """
        ways = (name for name in ("splits_column", "splits_file") if getattr(self, name))
        named = next(ways, None)
        for name in {"data.split", "data.split_seed"}.intersection(given):
            if named is not None and self.split is not None:
                raise ConfigError(f"{name} has no effect, as data.{named} says the split: keep one")
            if name == "data.split_seed" and self.split_type == "scaffold-ogb":
                raise ConfigError(
                    f"{name} has no effect, as data.split_type: scaffold-ogb draws nothing: leave "
                    "it out"
                )

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        if (self.dataset is not None) + (self.table is not None) + self.in_memory != 1:
            raise ValueError("name one source: data.dataset (such as zinc) or data.table (a file)")
        if self.dataset is not None:
            for name in _OF_TABLES:
                if getattr(self, name) != type(self).model_fields[name].get_default():
                    raise ValueError(
                        f"data.{name} is for tables: {self.dataset} has its own targets and splits"
                    )
            if self.featurizer != type(self).model_fields["featurizer"].get_default():
                raise ValueError(
                    f"data.featurizer is for tables: {self.dataset} has its own features"
                )
        for name, classes in self.classes.items():
            if len(set(classes)) < len(classes):
                raise ValueError(f"data.classes names one of '{name}' twice: {', '.join(classes)}")
        ways = [name for name in _WAYS_TO_SPLIT if getattr(self, name) is not None]
        if len(ways) > 1:
            raise ValueError(f"data.{ways[0]} and data.{ways[1]} both say how to split: keep one")
        if self.split_type != "random" and {"splits_column", "splits_file"} & {*ways}:
            raise ValueError(
                f"data.split_type: {self.split_type} and data.{ways[0]} both say how to split: "
                "keep one"
            )
        if self.split is None and ways:
            raise ValueError(
                f"data.split: null asks for no split, but data.{ways[0]} says how: keep one"
            )
        if self.fold and self.splits_column is not None:
            raise ValueError(
                f"data.splits_column names one split, so data.fold must be 0; got {self.fold}"
            )
        if self.fold and self.split_type == "scaffold-ogb" and not ways:
            raise ValueError(
                "data.split_type: scaffold-ogb draws nothing, so there are no replicates: set "
                "data.folds, or leave data.fold out"
            )
        if self.folds is not None and self.fold >= self.folds:
            raise ValueError(
                f"data.fold counts from 0, so with {self.folds} folds it ends at "
                f"{self.folds - 1}; got {self.fold}"
            )
        if self.split and not (min(self.split) > 0 and abs(sum(self.split) - 1) <= 1e-6):
            raise ValueError(
                f"data.split must be three positive shares that sum to 1; got {list(self.split)}"
            )
        return self

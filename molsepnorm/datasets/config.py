"""What to load: the `data` section of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["DataConfig"]


class DataConfig(BaseModel):
    """A named data set, or a table of one's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str | None = None
    """A name from `molsepnorm.datasets.NAMES`."""
    table: Path | None = None
    """Or a CSV file with a column of SMILES and columns of labels."""
    data_dir: Path | None = None
    """Where raw files lie; otherwise the environment variable MOLSEPNORM_DATA, otherwise they are
    downloaded."""

    smiles_column: str = "smiles"
    targets: list[str] | None = None
    """Columns to predict; None for every numeric column but the SMILES."""
    featurizer: Literal["zinc", "ogb"] = "ogb"
    """For tables; a named data set has its own."""
    on_invalid: Literal["skip", "fail"] = "skip"
    """What to do with a molecule that cannot be read: leave it out and report it, or stop."""
    split: tuple[float, float, float] | None = (0.8, 0.1, 0.1)
    """For tables: shares of train, validation and test, drawn at random; None for no split, which
    is enough to score a model on all molecules."""
    split_seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        if (self.dataset is None) == (self.table is None):
            raise ValueError("name one source: data.dataset (such as zinc) or data.table (a CSV)")
        if self.split and (min(self.split) <= 0 or abs(sum(self.split) - 1) > 1e-6):
            raise ValueError(
                f"data.split must be three positive shares that sum to 1; got {list(self.split)}"
            )
        return self

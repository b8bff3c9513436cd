"""Models and tables that whole commands read, made once and kept in the scratch folder."""

from __future__ import annotations

from pathlib import Path

from commands import run, script
from molecules import zinc_table
from settings import Settings

from molsepnorm.model import PropertyModel
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.tasks import Target, Task
from molsepnorm.training import load_config
from molsepnorm.training.run import architecture

__all__ = ["chemprop_model", "full_zinc", "slim", "table_model", "validation_csv"]


def slim(settings: Settings) -> Path:
    """Graphormer-SLIM on ZINC's features, untrained, whose predictions cost what others' do."""
    return _saved(settings.folder("models") / "slim", GraphormerConfig(), "zinc")


def table_model(settings: Settings) -> Path:
    """The architecture that `configs/table.yaml` trains, on OGB's features, untrained."""
    config = load_config(str(validation_csv(settings)))
    return _saved(settings.folder("models") / "table", architecture(config), "ogb")


def validation_csv(settings: Settings) -> Path:
    """`smiles,y` of ZINC's validation split, 24,445 rows, not packed."""
    rows = settings.count(0, 500) or None
    path = settings.folder("tables") / f"val-{rows or 'all'}.csv"
    if not path.exists():
        zinc_table(settings, "val", rows).to_csv(path, index=False)
    return path


def chemprop_model(settings: Settings, chemprop: Path) -> Path:
    """chemprop's default model, trained for an epoch on 500 rows."""
    from peers.chemprop import model

    path = settings.folder("tables") / "train-500.csv"
    if not path.exists():
        zinc_table(settings, "train", 500).to_csv(path, index=False)
    return model(chemprop, path, settings.folder("models") / "chemprop")


def full_zinc(settings: Settings) -> tuple[str, Path]:
    """The data set's name (the small one where a run is quick), and the cache with its store."""
    name = "zinc" if settings.quick else "zinc-full"
    cache = settings.folder(f"cache-{name}")
    if not any(cache.glob("*.store")):
        run(script(PREPARE.format(name=name)), cache, MOLSEPNORM_CACHE=str(cache))
    return name, cache


PREPARE = """
from molsepnorm import datasets, load_config
from molsepnorm.model import encoding_of
from molsepnorm.training.run import architecture

config = load_config({name!r})
datasets.load(config.data, encoding_of(architecture(config)))
"""
"""Makes the store that training on a data set reads, or opens it."""


def _saved(folder: Path, config: GraphormerConfig, featurizer: str) -> Path:
    task = Task((Target("penalised_logp", "regression"),), "mae")
    PropertyModel(Graphormer(config), featurizer, task).save_pretrained(folder)
    return folder

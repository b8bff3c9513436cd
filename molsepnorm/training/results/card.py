"""The model card of a run: `README.md` in its model folder, in the format of model hubs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from pathlib import Path

import numpy as np
import yaml

from molsepnorm._version import __version__
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.splits import split_details
from molsepnorm.files.page import template
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Forest, KernelPart
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.pretrained import shipped_models
from molsepnorm.pretrained.card import read_card
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.results import summary
from molsepnorm.training.results.metrics import Metrics

_ELEMENT = re.compile(
    r"\[\d*([A-Z][a-z]?|se|as|te|si|[bcnops*])[^\]]*\]|(Cl|Br|[BCNOPSFI]|[bcnops*])"
)


def model_card(
    model: PropertyModel, config: TrainConfig, dataset: Dataset, metrics: Metrics | None
) -> str:
    """Return the card as Markdown with YAML front matter, without structures, labels and paths."""
    header = {
        "license": config.run.license or "unknown",
        "library_name": "molsepnorm",
        "pipeline_tag": "graph-ml",
        "tags": ["chemistry", "molecular-property-prediction", "graphormer"],
    }
    scored = {}
    if metrics is not None and metrics.test:
        header["metrics"] = [name for name in metrics.test if "/" not in name]
        columns = summary.score_columns(metrics)
        cells = summary.score_rows(columns)
        names = summary.listed_metrics(cells)
        head, rows = summary.calibration_table(metrics)
        scored = {
            "head": ["metric", *columns],
            "scores": [[summary.metric_label(metrics.test, n), *cells[n]] for n in names],
            "notes": summary.score_notes(columns),
            "conclusion": " ".join(summary.conclusion(metrics)),
            "intervals": (head, rows[: summary.MAX_TARGETS]),
        }
    of_auxiliary = [part for each in model.auxiliary for part in each.parts]
    train = dataset.splits["train"]
    labels = np.isfinite(dataset.exact_labels[train]).sum(axis=0)
    epochs = 0 if metrics is None else metrics.epochs
    return template("molsepnorm.training.results", "card.md", cell=_cell).render(
        header=yaml.safe_dump(header, sort_keys=False),
        model=model,
        dataset=dataset,
        config=config,
        metrics=metrics,
        targets=[*zip(model.task.targets, labels.tolist(), strict=False)],
        source=dataset.name if config.data.dataset else Path(dataset.name).name,
        rows={split: len(rows) for split, rows in dataset.splits.items()},
        split=split_details(config.data),
        parts=summary.composition(model, epochs) if model.task.targets else None,
        today=date.today().isoformat(),
        version=__version__,
        start=_start(config),
        **scored,
        atoms=dataset.store.sizes[train],
        elements=", ".join(sorted(elements(dataset.smiles_of(train))) if dataset.smiles else []),
        training_file=TRAINING_FILE,
        auxiliary=[path.name for path in config.data.auxiliary],
        of_auxiliary=of_auxiliary,
        kernels=[p for p in (*model.parts, *of_auxiliary) if isinstance(p, KernelPart)],
        has_forest=bool(model.share(Forest).any()),
    )


def elements(smiles: Iterable[str]) -> set[str]:
    """Return the symbols of the elements that are written in SMILES."""
    matches = {match for text in smiles for match in _ELEMENT.findall(text.partition(" ")[0])}
    return {(inside or outside).capitalize() for inside, outside in matches}


def _start(config: TrainConfig) -> str:
    start = config.finetune.start
    if start is None:
        return "random weights"
    folder = shipped_models().get(str(start))
    if folder is None:
        return f"another model ({_cell(start.name)}), whose licence applies too"
    return f"{start}, licence {read_card(folder).licence}"


def _cell(value: object) -> str:
    """Return a text on one line, in which | does not end a cell of a table."""
    return " ".join(str(value).split()).replace("|", "\\|")

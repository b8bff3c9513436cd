"""The model card of a run: `README.md` in its model folder, in the format of model hubs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from jinja2 import Environment, PackageLoader

from molsepnorm._version import __version__
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.splits import split_details
from molsepnorm.model import PropertyModel
from molsepnorm.pretrained import read_card, shipped_models
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.results.conclusion import conclusion, metric_label
from molsepnorm.training.results.scores import (
    MAX_TARGETS,
    calibration_table,
    domain_errors,
    listed_metrics,
    score_columns,
    score_notes,
    score_rows,
)
from molsepnorm.training.results.share import revealed

_ELEMENT = re.compile(
    r"\[\d*([A-Z][a-z]?|se|as|te|si|[bcnops*])[^\]]*\]|(Cl|Br|[BCNOPSFI]|[bcnops*])"
)


def model_card(
    model: PropertyModel, config: TrainConfig, dataset: Dataset, metrics: Mapping[str, Any]
) -> str:
    """Return the card as Markdown with YAML front matter, from the template `card.md`.

    It names columns and the file of the data, but has no structure, label, path or user.

    Args:
        metrics: the content of `metrics.json`; empty if the run is not finished.
    """
    names = model.task.names
    header = {
        "license": config.run.license or "unknown",
        "library_name": "molsepnorm",
        "pipeline_tag": "graph-ml",
        "tags": ["chemistry", "molecular-property-prediction", "graphormer"],
    }
    if "test" in metrics:
        header["metrics"] = [name for name in metrics["test"] if "/" not in name]
    several = f"{len(names)} properties of molecules" if len(names) > 3 else ", ".join(names)
    train = dataset.splits["train"]
    rows = {split: len(each) for split, each in dataset.splits.items()}
    columns = score_columns(metrics)
    cells = score_rows(columns) if "test" in metrics else {}
    intervals = calibration_table(metrics) if "calibration" in metrics else None
    domain = metrics.get("domain") or {}
    environment = Environment(
        loader=PackageLoader("molsepnorm.training.results", ""),
        autoescape=False,  # Markdown
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = _cell
    return environment.get_template("card.md").render(
        header=yaml.safe_dump(header, sort_keys=False),
        title=f"Prediction of {several}" if names else "Pre-trained model of molecules",
        model=model,
        dataset=dataset,
        metrics=metrics,
        targets=_targets(model, dataset),
        source=dataset.name if config.data.dataset else Path(dataset.name).name,
        molecules=_counts(metrics.get("molecules", rows)),
        rows=_counts(rows),
        split=split_details(config.data),
        parts=composition(model, metrics.get("epochs", 0)) if names else None,
        today=date.today().isoformat(),
        version=__version__,
        start=_start(config),
        scores=(
            ["metric", *columns],
            [[metric_label(metrics, name), *cells[name]] for name in listed_metrics(cells)],
        )
        if cells
        else None,
        notes=score_notes(columns) if cells else "",
        conclusion=" ".join(conclusion(metrics)) if cells else "",
        intervals=intervals and (intervals[0], intervals[1][:MAX_TARGETS]),
        sizes=dataset.store.sizes[train],
        elements=", ".join(sorted(elements(dataset.smiles_of(train))) if dataset.smiles else []),
        domain={split: domain_errors(domain, split) for split in domain.get("inside", ())},
        licence=config.run.license,
        revealed=[*revealed(model)],
    )


def elements(smiles: Iterable[str]) -> set[str]:
    """Return the symbols of the elements that are written in SMILES.

    >>> sorted(elements(["C[C@@H](N)c1c[nH]cc1", "[Na+].[Cl-]"]))
    ['C', 'Cl', 'N', 'Na']
    """
    found = {match for text in smiles for match in _ELEMENT.findall(text.partition(" ")[0])}
    return {(inside or outside).capitalize() for inside, outside in found}


def _targets(model: PropertyModel, dataset: Dataset) -> list[list[str]]:
    """Return the rows of the table of targets."""
    if not model.task.targets:
        return []
    labels = dataset.exact_labels[dataset.splits["train"]]
    counts = np.count_nonzero(~np.isnan(labels), axis=0)
    rows = []
    for target, count in zip(model.task.targets, counts, strict=True):
        scale = "as in the data" if target.kind == "regression" else "probability"
        if target.kind == "binary" and target.classes:
            scale = f"probability of {target.positive_class}"
        classes = ", ".join(target.classes) or ("0, 1" if target.kind == "binary" else "")
        scale = str(target.transformation or scale)
        rows.append([target.name, target.kind, scale, classes, f"{count:,}"])
    return rows


def _counts(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {split}" for split, count in sizes.items())


def _start(config: TrainConfig) -> str:
    """Return the name and the licence of the model that training started from."""
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


_KERNEL = "kernel regression"


def composition(model: PropertyModel, epochs: int) -> str:
    """Return what a model with targets consists of, such as "35 % kernel regression, 65 % random
    forest".

    Args:
        epochs: number of epochs of the run. After one or more, a kernel regression without a
            network means that the fine-tuned network was left out.
    """
    shares: defaultdict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    for network, weight in zip(model.networks, model.weights, strict=True):
        name = _KERNEL if network.config.head == "kernel" else "network"
        shares[name] += weight * (1 - model.forest_share)
        counts[name] += 1
    if model.forests:
        shares["random forest"], counts["random forest"] = model.forest_share, len(model.forests)
    used = {
        name: f"{name} (mean of {counts[name]})" if counts[name] > 1 else name
        for name in shares
        if shares[name]
    }
    text = ", ".join(f"{100 * shares[name]:.0f} % {part}" for name, part in used.items())
    if len(used) == 1:
        (part,) = used.values()
        text = f"the {part} alone"
    if epochs and _KERNEL in used and "network" not in used:
        text += "; the fine-tuned network did not improve the validation score and is not used"
    return text

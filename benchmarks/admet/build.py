"""Make `molsepnorm-admet`, the model that comes with the package, and its page of docs.

    export MOLSEPNORM_DATA=/path/to/datasets
    python benchmarks/admet/build.py tables admet             # all.csv, official.csv, tests.csv
    python benchmarks/admet/build.py train admet official 0   # and seed 1, and both of `all`
    python benchmarks/admet/build.py join admet official      # the model, of both networks
    python benchmarks/admet/build.py score admet              # scores.csv
    python benchmarks/admet/build.py join admet all
    python benchmarks/admet/build.py ship admet               # the folder in molsepnorm/pretrained
    python benchmarks/admet/build.py page                     # docs/admet.md

`end_points.csv` declares the end points. A row of `all.csv` is a molecule without its salts, with
the labels of all sources, the mean of repeated measurements. In `official.csv` a label is left out
if its molecule, or a salt, charged form or tautomer of it, is a test molecule of the same end point
or of a related one (the same `family`). The model learns other properties of test molecules, as
yours would from your own measurements. `tests.csv` has a row for each measurement of a test set.

Two networks are fine-tuned from `molsepnorm-taught` on all end points together, for eight epochs.
Five in a hundred molecules choose the epoch and calibrate intervals, and one is left for the scores
of the run. The model is the mean of the first network and of a kernel regression, which compares
what the second one reads out, and fingerprint counts, with those of 2,000 molecules: it takes as
long and as many bytes as the mean of both networks, and is better. A random forest would need more
bytes than all of this.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import torch  # noqa: E402
from environment import commit, data_folder, machine  # noqa: E402
from sklearn import metrics  # noqa: E402
from table import line  # noqa: E402

NAME = "molsepnorm-admet"
CENTERS = 2000
PAGE = HERE.parents[1] / "docs" / "admet.md"
SCORES = HERE / "scores.csv"
_METHOD = "trained without the labels of test molecules"
PERCENTILES = np.linspace(0, 100, 21)
_METRICS = {
    "MAE": metrics.mean_absolute_error,
    "ROC-AUC": metrics.roc_auc_score,
    "PR-AUC": metrics.average_precision_score,
}
_PUBLISHED = ["MiniMol", "MapLight", "CheMeleon", "best published"]


def end_points() -> pd.DataFrame:
    """Return the table of end points, by name."""
    return pd.read_csv(HERE / "end_points.csv", index_col="name")


def measurements() -> pd.DataFrame:
    """Return a row for each label of all tables: end_point, smiles, y, split, key, protomer."""
    parts = []
    for name, end in end_points().iterrows():
        table = pd.read_csv(data_folder() / f"{end['file']}.csv")
        split = table["split" if "split" in table else "scaffold_split"]
        part = pd.DataFrame({"smiles": table["smiles"], "y": table[end["column"]], "split": split})
        parts.append(part.dropna().assign(end_point=name))
    rows = pd.concat(parts, ignore_index=True)
    texts = rows["smiles"].unique()
    with ProcessPoolExecutor() as pool:
        keys = dict(zip(texts, pool.map(_keys, texts, chunksize=500), strict=True))
    found = rows["smiles"].map(keys)
    print(f"{found.isna().sum()} rows cannot be read", file=sys.stderr)
    rows = rows[found.notna()].copy()
    rows[["key", "protomer"]] = found[found.notna()].tolist()
    return rows


def _keys(smiles: str) -> tuple[str, str] | None:
    from molsepnorm.errors import InvalidMolecule
    from molsepnorm.molecules.featurize.standardize import protomer_key, standard_smiles

    try:
        return standard_smiles(smiles, "salts"), protomer_key(smiles)
    except InvalidMolecule:
        return None


def write_tables(folder: Path) -> None:
    rows, ends = measurements(), end_points()
    wide = rows.groupby(["key", "end_point"])["y"].mean().unstack()[ends.index]
    for name in ends.index[ends["unit"].str.startswith("probability")]:
        wide[name] = wide[name].where(wide[name].isin([0, 1]))  # contradictory labels
    wide.index.name = "smiles"
    folder.mkdir(parents=True, exist_ok=True)
    wide.to_csv(folder / "all.csv")
    protomers = rows.drop_duplicates("key").set_index("key")["protomer"].reindex(wide.index)
    tests = rows[rows["split"] == "test"]
    tests[["smiles", "end_point", "y"]].to_csv(folder / "tests.csv", index=False)
    families = tests["end_point"].map(ends["family"])
    for name, family in ends["family"].items():
        wide.loc[protomers.isin(tests["protomer"][families == family]), name] = np.nan
    wide = wide[wide.notna().any(axis=1)]
    wide.to_csv(folder / "official.csv")


def train(folder: Path, table: str, seed: int) -> None:
    """Train a network on a table."""
    from molsepnorm import train as trained
    from molsepnorm.training import loop

    loop.fit_kernel = lambda *_: None  # the networks start from a linear regression, and end alone
    trained(_config(folder, table, seed), folder / f"{table}-{seed}")


def _config(folder: Path, table: str, seed: int) -> Any:
    from molsepnorm import load_config

    settings: dict[str, Any] = {
        "data.targets": [*end_points().index],
        "data.split": [0.94, 0.05, 0.01],
        "data.standardize": "salts",
        "finetune.start": "molsepnorm-taught",
        "run.epochs": 8,
        "run.seed": seed,
        "run.baseline": False,
        "run.refit": False,
    }
    return load_config(folder / f"{table}.csv", overrides=settings)


def join(folder: Path, table: str) -> None:
    """Write the model of both networks of a table, with intervals and a domain."""
    from molsepnorm.model import PropertyModel
    from molsepnorm.model.parts import NetworkPart
    from molsepnorm.molecules.featurize.descriptors import COUNTS, PAIRS
    from molsepnorm.nn.graphormer import empty_network
    from molsepnorm.nn.parts import in_head
    from molsepnorm.tasks import ExtraInputs
    from molsepnorm.training.callback import Callback
    from molsepnorm.training.completing.complete import complete
    from molsepnorm.training.completing.own_networks import fits_of
    from molsepnorm.training.inputs import with_inputs
    from molsepnorm.training.objectives import Examples
    from molsepnorm.training.probe import kernel, ridge
    from molsepnorm.training.recipes import load_dataset

    first, second = (
        PropertyModel.from_pretrained(folder / f"{table}-{seed}" / "model") for seed in (0, 1)
    )
    encoder = empty_network(replace(second.network.config, outputs=0))
    state = second.network.state_dict().items()
    body = {name: each for name, each in state if not in_head(name)}
    encoder.load_state_dict(encoder.state_dict() | body)
    network = _rounded(first.network)
    config = _config(folder, table, 0)
    reads = ExtraInputs(morgan=COUNTS, pairs=PAIRS)
    dataset, extra = with_inputs(load_dataset(config), reads)
    examples = Examples.of(dataset, extra, second, torch.device("cpu"))
    # all labels count, and the regression stays an approximation
    ridge.MAX_MOLECULES = len(dataset.labels)
    kernel._MAX_CENTERS, kernel._MAX_DECOMPOSED, kernel._MAX_OPERATIONS = CENTERS, 1e15, 0
    rows = dataset.splits["train"]
    part, _ = kernel._fitted(_rounded(encoder.eval()), second.task, examples, rows, reads, True)
    part.regression.centers.copy_(part.regression.centers.half())
    model = first.with_parts([NetworkPart(network, first.parts[0].reads), part], [0.5, 0.5])
    fits = fits_of(model, 0, config.run.epochs, {})  # only second fits would need the epochs
    done = complete(config, model, None, examples, fits, Callback())
    assert done is not None
    done.model.save_pretrained(folder / f"{table}-model")


@torch.no_grad()
def _rounded(network: torch.nn.Module) -> Any:
    """Round weights to the precision of float16, since they take half of the bytes in a wheel."""
    for each in network.parameters():
        each.copy_(each.half())
    return network


def score(folder: Path) -> None:
    """Write the scores of the model on the official test rows."""
    from molsepnorm.predict import Predictor

    tests, ends = pd.read_csv(folder / "tests.csv"), end_points()
    official = pd.read_csv(HERE.parent / "official" / "tdc.csv", index_col="table")["metric"]
    smiles, lines = tests["smiles"].unique(), list[dict[str, Any]]()
    predictor = Predictor.from_pretrained(folder / "official-model")
    predicted = predictor.to_frame(smiles).set_index("smiles")
    for name, rows in tests.groupby("end_point", sort=False):
        end = ends.loc[name]
        usual = "ROC-AUC" if end["unit"].startswith("probability") else "MAE"
        metric = official.get(Path(end["file"]).name, usual)
        values = predicted.loc[rows["smiles"], f"{name}_pred"].to_numpy(float)
        known = np.isfinite(values)
        value = _METRICS[metric](rows["y"][known], values[known])
        lines.append({"end_point": name, "metric": metric, "score": value})
    found = pd.DataFrame(lines).assign(commit=commit(), machine=machine())
    found.to_csv(SCORES, index=False, float_format="%.5f")


def ship(folder: Path) -> None:
    """Write the model and its card into the package."""
    from molsepnorm import pretrained
    from molsepnorm.model import PropertyModel, weights_digest
    from molsepnorm.predict import Predictor
    from molsepnorm.pretrained.card import CARD, EndPoint, ModelCard, Score, Source, read_card

    model = PropertyModel.from_pretrained(folder / "all-model")
    target = Path(pretrained.__file__).parent / NAME
    (target / CARD).unlink(missing_ok=True)  # a model with a card is not replaced
    model.save_pretrained(target)
    table, ends = pd.read_csv(folder / "all.csv"), end_points()
    approved = pd.read_csv(data_folder() / "moleculenet" / "clintox.csv").query("FDA_APPROVED == 1")
    drugs = Predictor(model).to_frame(approved["smiles"])
    points = {
        name: EndPoint(
            title=end["title"],
            category=end["category"],
            unit=end["unit"],
            caution=end["caution"],
            source=end["source"],
            licence=end["licence"],
            molecules=int(table[name].notna().sum()),
            good=_limits(end, "good"),
            tolerable=_limits(end, "tolerable"),
            reference=tuple(
                np.nanpercentile(drugs[f"{name}_pred"].astype(float), PERCENTILES).round(4).tolist()
            ),
        )
        for name, end in ends.iterrows()
    }
    start = read_card(pretrained.resolve("molsepnorm-taught"))
    scored = "its labels are among those that the model was trained on"
    sets = ("esol", "freesolv", "lipo", "bbbp", "clintox", "tox21")
    digest = hashlib.sha256("\n".join(table["smiles"]).encode()).hexdigest()
    scores = pd.read_csv(SCORES, index_col="end_point")
    card = ModelCard(
        name=NAME,
        version="2",
        description=f"Absorption, distribution, metabolism, toxicity and solubility: {len(ends)} "
        "end points of public data, predicted by the mean of a network that was fine-tuned from "
        "molsepnorm-taught on all of them together, and of a kernel regression on another such "
        "network.",
        licence="MIT; the data have licences of their own, see end_points",
        sources=(
            Source("TDC, MoleculeNet and Biogen ADME", len(table), digest),
            *start.sources,
        ),
        objectives={"supervised": 1.0},
        architecture=f"2 networks of {start.architecture}",
        parameters=model.parameters,
        hours=round(_seconds(folder) / 3600, 1),
        machine=start.machine,
        weights_sha256=weights_digest(target),
        excludes={**start.excludes, **{f"ogbg-mol{name}": scored for name in sets}},
        scores=tuple(
            Score(f"{name}, official test rows", row["metric"], _METHOD, row["score"], 0.0, 1)
            for name, row in scores.round({"score": 4}).iterrows()
        ),
        end_points=points,
        reference=f"{drugs['error'].isna().sum():,} drugs that the FDA has approved (ClinTox, "
        "MoleculeNet)",
    )
    text = json.dumps(asdict(card), indent=1, ensure_ascii=False)
    (target / CARD).write_text(f"{text}\n", encoding="utf-8")


def _limits(end: pd.Series, name: str) -> tuple[float | None, float | None]:
    low, high = end[f"{name}_low"], end[f"{name}_high"]
    return None if np.isnan(low) else float(low), None if np.isnan(high) else float(high)


def _seconds(folder: Path) -> float:
    runs = (folder / f"all-{seed}" / "metrics.json" for seed in (0, 1))
    return sum(json.loads(path.read_text())["seconds"] for path in runs)


def write_page() -> None:
    """Write docs/admet.md from page.md, the card and the scores."""
    from molsepnorm.pretrained import resolve
    from molsepnorm.pretrained.card import read_card

    card, ends = read_card(resolve(NAME)), end_points()
    scores = pd.read_csv(SCORES, index_col="end_point")
    published = pd.read_csv(HERE.parent / "official" / "tdc.csv", index_col="table")
    of_ends = [line(["target", "what it is", "unit", "molecules", "source", "licence"])]
    of_ends.append(line(["---"] * 6))
    for name, end in card.end_points.items():
        about = (f"{end.title}. {end.caution}", end.unit, f"{end.molecules:,}")
        of_ends.append(line([f"`{name}`", *about, end.source, end.licence]))
    head = ["target", "metric", "molsepnorm-admet", *_PUBLISHED]
    rows = [line(head), line(["---"] * len(head))]
    for name, own in scores.iterrows():
        known = Path(ends.loc[name, "file"]).name
        others = [""] * len(_PUBLISHED)
        if known in published.index:
            others = ["" if np.isnan(x) else f"{x:.3f}" for x in published.loc[known, _PUBLISHED]]
        rows.append(line([f"`{name}`", own["metric"], f"{own['score']:.3f}", *others]))
    about = f"commit {scores['commit'].iloc[0]}, {scores['machine'].iloc[0]}"
    text = (HERE / "page.md").read_text(encoding="utf-8")
    parts = {"end_points": "\n".join(of_ends), "scores": "\n".join(rows), "source": about}
    PAGE.write_text(text.format(**parts, reference=card.reference), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("tables", "train", "join", "score", "ship", "page"):
        command = commands.add_parser(name)
        if name != "page":
            command.add_argument("folder", type=Path)
        if name in ("train", "join"):
            command.add_argument("table", choices=("official", "all"))
        if name == "train":
            command.add_argument("seed", type=int, choices=(0, 1))
    options = vars(parser.parse_args())
    run = {
        "tables": write_tables,
        "train": train,
        "join": join,
        "score": score,
        "ship": ship,
        "page": write_page,
    }
    run[options.pop("command")](**options)


if __name__ == "__main__":
    main()

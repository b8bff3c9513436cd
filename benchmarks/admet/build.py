"""Make `molsepnorm-admet`, the model that comes with the package, and its page of docs.

    export MOLSEPNORM_DATA=/path/to/datasets
    python benchmarks/admet/build.py tables admet             # all.csv, official.csv, tests.csv
    python benchmarks/admet/build.py train admet official 0   # and seeds 1 to 4
    python benchmarks/admet/build.py score admet              # scores.csv
    python benchmarks/admet/build.py train admet all 0
    python benchmarks/admet/build.py ship admet               # the folder in molsepnorm/pretrained
    python benchmarks/admet/build.py page                     # docs/admet.md

`end_points.csv` declares the end points. A row of `all.csv` is a molecule without its salts, with
the labels of all sources, the mean of repeated measurements. In `official.csv` a label is left out
if its molecule, or a salt, charged form or tautomer of it, is a test molecule of the same end point
or of a related one (the same `family`). The model learns other properties of test molecules, as
yours would from your own measurements. `tests.csv` has a row for each measurement of a test set.

A network is fine-tuned from `molsepnorm-taught` on all end points together, for five epochs. Five
in a hundred molecules choose the shares and calibrate intervals, and one is left for the scores of
the run. The model is the mean of the network and of a kernel regression, which compares what the
network reads out, and fingerprint counts, with those of 2,000 molecules: one pass serves both, and
it is better than the mean of two networks. The shares are chosen as in any run. A random forest
would need more bytes than all of this.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
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
    """Train a network on a table, and write the model of it and its kernel regression, with
    intervals and a domain."""
    from molsepnorm import load_config
    from molsepnorm import train as trained
    from molsepnorm.model.parts import NetworkPart
    from molsepnorm.model.parts.kernel import KernelRegression
    from molsepnorm.molecules.featurize.descriptors import COUNTS, PAIRS
    from molsepnorm.tasks import ExtraInputs
    from molsepnorm.training import loop
    from molsepnorm.training.callback import Callback
    from molsepnorm.training.completing.baseline import with_network_share
    from molsepnorm.training.completing.complete import complete
    from molsepnorm.training.completing.networks import Fit
    from molsepnorm.training.inputs import with_inputs
    from molsepnorm.training.objectives import Examples
    from molsepnorm.training.probe import kernel, ridge
    from molsepnorm.training.recipes import load_dataset

    settings: dict[str, Any] = {
        "data.targets": [*end_points().index],
        "data.split": [0.94, 0.05, 0.01],
        "data.standardize": "salts",
        "finetune.start": "molsepnorm-taught",
        "run.epochs": 5,
        "run.seed": seed,
        "run.baseline": False,
        "run.refit": False,
    }
    config = load_config(folder / f"{table}.csv", overrides=settings)
    loop.fit_kernel = lambda *_: None  # the network starts from a linear regression
    model = trained(config, folder / f"{table}-{seed}").model
    assert model is not None
    network, reads = model.network, ExtraInputs(morgan=COUNTS, pairs=PAIRS)
    _round(*network.parameters())
    dataset, extra = with_inputs(load_dataset(config), reads)
    # all labels count, and the regression stays an approximation
    ridge.MAX_MOLECULES = len(dataset.labels)
    kernel._MAX_CENTERS, kernel._MAX_DECOMPOSED, kernel._MAX_OPERATIONS = CENTERS, 1e15, 0
    last_layer = KernelRegression(network.readout.width, 0, model.task.outputs, reads)
    given = Examples.of(dataset, extra, model, torch.device("cpu")), dataset.splits["train"], reads
    part, *_ = kernel._fitted(network, model.task, *given, needs_counts=True, before=last_layer)
    _round(part.regression.centers)
    both = model.with_parts([NetworkPart(network, model.parts[0].reads), part], [0.5, 0.5])
    model = with_network_share(both, given[0])
    fits = [Fit(seed, config.run.epochs)]  # only second fits would need them
    done = complete(config, model, None, given[0], fits, Callback())
    assert done is not None
    done.model.save_pretrained(folder / f"{table}-model-{seed}")


@torch.no_grad()
def _round(*tensors: torch.Tensor) -> None:
    """Round to the precision of float16, since the numbers then take half the bytes in a wheel."""
    for each in tensors:
        each.copy_(each.half())


def score(folder: Path) -> None:
    """Write the scores of the models of all seeds on the official test rows."""
    from molsepnorm.predict import Predictor

    tests, ends = pd.read_csv(folder / "tests.csv"), end_points()
    official = pd.read_csv(HERE.parent / "official" / "tdc.csv", index_col="table")["metric"]
    smiles, lines = tests["smiles"].unique(), list[dict[str, Any]]()
    for model in sorted(folder.glob("official-model-*")):
        predicted = Predictor.from_pretrained(model).to_frame(smiles).set_index("smiles")
        for name, rows in tests.groupby("end_point", sort=False):
            end = ends.loc[name]
            usual = "ROC-AUC" if end["unit"].startswith("probability") else "MAE"
            metric = official.get(Path(end["file"]).name, usual)
            values = predicted.loc[rows["smiles"], f"{name}_pred"].to_numpy(float)
            known = np.isfinite(values)
            value = _METRICS[metric](rows["y"][known], values[known])
            lines.append({"end_point": name, "metric": metric, "score": value})
    of_seeds = pd.DataFrame(lines).groupby(["end_point", "metric"], sort=False)["score"]
    found = of_seeds.agg(score="mean", sd="std", seeds="count").reset_index()
    found = found.assign(commit=commit(), machine=machine())
    found.to_csv(SCORES, index=False, float_format="%.5f")


def ship(folder: Path) -> None:
    """Write the model and its card into the package."""
    from molsepnorm import pretrained
    from molsepnorm.model import PropertyModel, weights_digest
    from molsepnorm.predict import Predictor
    from molsepnorm.pretrained.card import CARD, EndPoint, ModelCard, Score, Source, read_card

    model = PropertyModel.from_pretrained(folder / "all-model-0")
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
        version="3",
        description=f"Absorption, distribution, metabolism, toxicity and solubility: {len(ends)} "
        "end points of public data, predicted by the mean of a network that was fine-tuned from "
        "molsepnorm-taught on all of them together, and of a kernel regression of what it reads "
        "out.",
        licence="MIT; the data have licences of their own, see end_points",
        sources=(
            Source("TDC, MoleculeNet and Biogen ADME", len(table), digest),
            *start.sources,
        ),
        objectives={"supervised": 1.0},
        architecture=start.architecture,
        parameters=model.parameters,
        hours=round(
            json.loads((folder / "all-0" / "metrics.json").read_text())["seconds"] / 3600, 1
        ),
        machine=start.machine,
        weights_sha256=weights_digest(target),
        excludes={**start.excludes, **{f"ogbg-mol{name}": scored for name in sets}},
        scores=tuple(
            Score(
                f"{name}, official test rows",
                row["metric"],
                _METHOD,
                *row[["score", "sd", "seeds"]],
            )
            for name, row in scores.round({"score": 4, "sd": 4}).iterrows()
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
        score = f"{own['score']:.3f} ± {own['sd']:.3f}"
        rows.append(line([f"`{name}`", own["metric"], score, *others]))
    seeds, *made = scores[["seeds", "commit", "machine"]].iloc[0]
    about = f"{seeds} seeds, commit {made[0]}, {made[1]}"
    text = (HERE / "page.md").read_text(encoding="utf-8")
    parts = {"end_points": "\n".join(of_ends), "scores": "\n".join(rows), "source": about}
    PAGE.write_text(text.format(**parts, reference=card.reference), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("tables", "train", "score", "ship", "page"):
        command = commands.add_parser(name)
        if name != "page":
            command.add_argument("folder", type=Path)
        if name == "train":
            command.add_argument("table", choices=("official", "all"))
            command.add_argument("seed", type=int)
    options = vars(parser.parse_args())
    run = {
        "tables": write_tables,
        "train": train,
        "score": score,
        "ship": ship,
        "page": write_page,
    }
    run[options.pop("command")](**options)


if __name__ == "__main__":
    main()

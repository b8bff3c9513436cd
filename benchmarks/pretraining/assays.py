"""Make `molsepnorm-assays`, the start of a table: a network that has learned from 64 assays.

    export MOLSEPNORM_DATA=/path/to/datasets
    python benchmarks/admet/build.py tables admet            # 34 end points
    python benchmarks/pretraining/assays.py table admet ace/MoleculeACE/Data/benchmark_data assays
    python benchmarks/pretraining/assays.py train assays
    python benchmarks/pretraining/assays.py ship assays      # the folder in molsepnorm/pretrained

A row of the table is a molecule without its salts, with the labels of all end points of
`molsepnorm-admet` and of the thirty proteins of MoleculeACE. The first network of that model learns
from them for a few more epochs. What ships is the mean of its weights and those of
`molsepnorm-taught`, which that model was fine-tuned from, so that it forgets less (Wortsman et al.,
"Robust fine-tuning of zero-shot models", CVPR 2022, arXiv 2109.01903). It has no outputs, but the
SMILES of its training molecules, so that `molsepnorm train` starts from another model if your test
molecules are among them.

`table --without N` leaves out every N-th protein, and all test molecules of these proteins, to
measure what the start is worth for proteins that it does not know.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import torch  # noqa: E402
from environment import machine  # noqa: E402

NAME, FROM, BEFORE = "molsepnorm-assays", "molsepnorm-admet", "molsepnorm-taught"
EPOCHS = 3
SHARE = 0.7  # of what it learned, in the mean with the weights of BEFORE


def write_table(end_points: Path, proteins: Path, folder: Path, without: int | None) -> None:
    """Write the joint table of the end points of `build.py` and the proteins."""
    from molsepnorm.molecules.featurize.standardize import standard_smiles

    paths = sorted(proteins.glob("CHEMBL*.csv"))
    left_out = [] if without is None else paths[::without]
    rows = pd.concat([pd.read_csv(path).assign(protein=path.stem) for path in paths])
    keys = {text: standard_smiles(text, "salts") for text in rows["smiles"].unique()}
    rows["smiles"] = rows["smiles"].map(keys)
    unknown = rows["protein"].isin([path.stem for path in left_out])
    tests = rows["smiles"][unknown & (rows["split"] == "test")]
    rows = rows[~unknown & ~rows["smiles"].isin(tests)]
    wide = rows.groupby(["smiles", "protein"])["y"].mean().unstack()
    joint = pd.read_csv(end_points / "all.csv", index_col="smiles").join(wide, how="outer")
    folder.mkdir(parents=True, exist_ok=True)
    joint.to_csv(folder / "table.csv", index_label="smiles")


def train(folder: Path) -> None:
    """Train one network on the table."""
    from molsepnorm import load_config
    from molsepnorm import train as trained
    from molsepnorm.training import loop

    loop.fit_kernel = lambda *_: None  # the heads start from a linear regression
    table = folder / "table.csv"
    settings = {
        "data.targets": [*pd.read_csv(table, index_col="smiles", nrows=1)],
        "data.split": [0.96, 0.03, 0.01],
        "data.standardize": "salts",
        "finetune.start": FROM,
        "run.epochs": EPOCHS,
        "run.baseline": False,
        "run.refit": False,
    }
    trained(load_config(table, overrides=settings), folder / "run")


def ship(folder: Path) -> None:
    """Write the network without its outputs, and its card, into the package."""
    from molsepnorm import pretrained
    from molsepnorm.model import PropertyModel, weights_digest
    from molsepnorm.model.training_molecules import TrainingMolecules
    from molsepnorm.nn.parts import in_head
    from molsepnorm.pretrained.card import CARD, Source, read_card
    from molsepnorm.tasks import Task

    network = PropertyModel.from_pretrained(BEFORE).network
    learned = PropertyModel.from_pretrained(folder / "run" / "model").network.state_dict()
    mean = {
        name: torch.lerp(each, learned[name], SHARE)
        for name, each in network.state_dict().items()
        if not in_head(name) and each.is_floating_point()
    }
    network.load_state_dict(mean, strict=False)
    table = pd.read_csv(folder / "table.csv", index_col="smiles")
    smiles, none = tuple(table.index), np.zeros((len(table), 0))
    molecules = TrainingMolecules(smiles, none.astype(np.uint8), none, none.astype(np.int8))
    before = read_card(pretrained.resolve(FROM))
    model = PropertyModel.of(
        network,
        "ogb",
        Task((), "loss"),
        objective="pretraining",
        structures=(molecules,),
        excludes=before.excludes,
    )
    target = Path(pretrained.__file__).parent / NAME
    (target / CARD).unlink(missing_ok=True)  # a model with a card is not replaced
    model.save_pretrained(target)
    digest = hashlib.sha256("\n".join(smiles).encode()).hexdigest()
    seconds = pd.read_csv(folder / "run" / "history.csv")["seconds"].sum()
    card = replace(
        before,
        name=NAME,
        version="1",
        description="A small Graphormer with SepNorm that has learned from public measurements: 34 "
        "of absorption, distribution, metabolism, toxicity and solubility, and affinities to 30 "
        "proteins. It has no outputs: train it on your table.",
        licence="MIT; the data have licences of their own: those of molsepnorm-admet, and for the "
        "proteins CC BY-SA 3.0 (ChEMBL)",
        sources=(
            Source("TDC, MoleculeNet, Biogen ADME and MoleculeACE", len(smiles), digest),
            *before.sources[1:],
        ),
        objectives={"assays": 1.0},
        architecture=before.architecture.removeprefix("2 networks of "),
        parameters=model.parameters,
        hours=round(before.hours + seconds / 3600, 1),
        machine=machine(),
        weights_sha256=weights_digest(target),
        scores=(),
        end_points={},
        reference="",
    )
    text = json.dumps(asdict(card), indent=1, ensure_ascii=False)
    (target / CARD).write_text(f"{text}\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    table = commands.add_parser("table")
    table.add_argument("end_points", type=Path)
    table.add_argument("proteins", type=Path)
    table.add_argument("--without", type=int)
    for command in (table, commands.add_parser("train"), commands.add_parser("ship")):
        command.add_argument("folder", type=Path)
    options = vars(parser.parse_args())
    run = {"table": write_table, "train": train, "ship": ship}
    run[options.pop("command")](**options)


if __name__ == "__main__":
    main()

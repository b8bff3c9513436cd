"""The model card: README.md in the model folder of a run."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import date
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml
from rdkit import Chem
from support import CONTRASTIVE

from molsepnorm.data.datasets import load
from molsepnorm.model import PropertyModel
from molsepnorm.tasks.metrics import significant
from molsepnorm.training import load_config, train
from molsepnorm.training.results.card import composition, elements, model_card
from molsepnorm.training.results.disclosure import CONTENTS

TOP = Path(__file__).parents[2]
YES_NO = [0, 1, 0, 0, 1, 1, 0]
NUMBERS = [0.5, 2, 1.5, 3, 1, 0.2, 0.7]


def card_of(folder: Path) -> str:
    return (folder / "model" / "README.md").read_text(encoding="utf-8")


def cells(card: str, first: str) -> list[str]:
    """The cells of the first row of a table that begins with a text."""
    line = next(each for each in card.splitlines() if each.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture
def run(with_columns, tmp_path, baselines, monkeypatch):
    """A run with two targets, one of them transformed, a forest and a row that cannot be read."""
    monkeypatch.setattr("molsepnorm.training.completing.baseline.TREES", 12)
    settings = {
        "data.targets": ["ic50_nM", "a|b"],
        "data.transform": {"ic50_nM": "pic50"},
        "data.standardize": "salts",
        "run.epochs": 1,
        "run.license": "cc-by-4.0",
    }
    config = with_columns({"ic50_nM": NUMBERS, "a|b": YES_NO}, settings)
    with open(config.data.table, "a") as file:
        file.write("C1CC,1,1\n")
    return train(config, tmp_path / "run")


def test_the_card_describes_model_data_and_scores(run, split_rows):
    card = card_of(run.folder)
    _, front, body = card.split("---\n", 2)
    header = yaml.safe_load(front)
    assert (header["license"], header["library_name"]) == ("cc-by-4.0", "molsepnorm")
    assert header["metrics"] == [name for name in run.metrics["test"] if "/" not in name]
    sizes = {name: len(rows) for name, rows in split_rows(run.folder).items()}
    labels = str(sizes["train"])
    scale = "pic50 = 9 - log10(value in nM)"
    assert cells(body, "ic50_nM") == ["ic50_nM", "regression", scale, "", labels]
    assert f"| a\\|b | binary | probability | 0, 1 | {labels} |" in body
    parameters = sum(each.numel() for each in run.model.network.parameters())
    for line in (
        "# Prediction of ic50_nM, a\\|b",
        "- Source: columns.csv",
        "- Molecules: 24 train, 3 val, 3 test",
        "- Split: random, seed 0",
        "- Rows left out because they cannot be read: 1",
        "- Structures: SMILES, standardised by RDKit, level salts",
        "- Features of atoms and bonds: zinc",
        f"- Graphormer, layers 1, width 16; {parameters:,} parameters in the final model",
        f"- Parts: {composition(run.model, 1)}",
        "- Start of training: random weights",
        f"- Made on {date.today().isoformat()} with molsepnorm",
        "- Elements of the training molecules: C, N, O",
    ):
        assert f"\n{line}" in body
    assert "\ncc-by-4.0\n" in body.partition("## Licence")[2]


def test_the_scores_are_those_of_metrics_json(run):
    metrics, card = run.metrics, card_of(run.folder)
    low, high = metrics["test_interval_95"]["rmse"]
    assert cells(card, "RMSE") == [
        "RMSE",
        *(significant(metrics[split]["rmse"]) for split in ("val", "test")),
        f"{significant(low)} to {significant(high)}",
        significant(metrics["test_constant"]["rmse"]),
        significant(metrics["blend"]["network"]["test"]["rmse"]),
        significant(metrics["baseline"]["test"]["rmse"]),
    ]


def test_the_uncertainty_is_that_of_metrics_json(run):
    section = card_of(run.folder).partition("## Uncertainty")[2]
    for name, row in ("ic50_nM", "ic50_nM"), ("a|b", "a\\|b"):
        found = run.metrics["calibration"][name]
        size = found["width" if name == "ic50_nM" else "classes"]
        unit = "wide" if name == "ic50_nM" else "classes"
        shown = [
            "—" if found["coverage"] is None else f"{found['coverage']:.1%}",
            "—" if size is None else f"{significant(size, 3)} {unit}",
        ]
        assert f"\n| {row} | 90% | {' | '.join(shown)} | {found['molecules']} |" in section
    assert "no intervals" not in section
    config = load_config(config=run.folder / "config.yaml")
    dataset = load(config.data, run.model.encoding)
    plain = replace(run.model, calibration=(), domain=None, structures=())
    card = model_card(plain, config, dataset, {})
    assert "no intervals" in card and "in the domain" not in card


def test_the_card_has_no_structure_path_or_user(run, tmp_path):
    card = card_of(run.folder)
    with open(run.folder / "config.yaml") as file:
        table = Path(yaml.safe_load(file)["data"]["table"])
    with open(table, newline="") as file:
        smiles = {row["smiles"] for row in csv.DictReader(file)}
    assert not {word for word in card.replace("`", " ").split() if len(word) > 2} & smiles
    assert str(tmp_path) not in card and str(Path.home()) not in card


def test_the_domain_is_that_of_the_training_molecules(run, rows_of, split_rows):
    rows = rows_of(run.folder / "predictions_train.csv")
    sizes = sorted(Chem.MolFromSmiles(row["smiles"]).GetNumAtoms() for row in rows)
    middle = (sizes[11] + sizes[12]) / 2
    assert len(sizes) == 24
    line = f"- Atoms of a training molecule: {sizes[0]} to {sizes[-1]}, median {middle:g}\n"
    assert line in card_of(run.folder)


def test_the_similarity_of_the_test_molecules_is_named_if_it_is_known(run):
    config = load_config(config=run.folder / "config.yaml")
    dataset = load(config.data, run.model.encoding)
    text = "nearest training molecule: median 0.43\n"
    for metrics, known in ({}, False), ({"nearest_train_similarity": {"median": 0.432}}, True):
        card = model_card(run.model, config, dataset, {**run.metrics, **metrics})
        assert (text in card) == known


def test_known_leaks_are_named(run):
    config = load_config(config=run.folder / "config.yaml")
    dataset = load(config.data, run.model.encoding)
    card = model_card(
        run.model, config, dataset, {**run.metrics, "molecules_trained_on_before": 20}
    )
    section = card.partition("## Scores")[2].partition("\n## ")[0]
    assert "The scores are too optimistic: the model that training started from" in section
    assert "too optimistic" not in card_of(run.folder)


def test_loading_ignores_the_card(run):
    """Without it, and with any content, the model is the same."""
    path = run.folder / "model" / "README.md"
    path.write_bytes(b"\xff")
    one = PropertyModel.from_pretrained(run.folder)
    path.unlink()
    other = PropertyModel.from_pretrained(run.folder)
    assert one.task == other.task == run.model.task
    path.write_text("mine")
    one.save_pretrained(run.folder / "model")  # the card was part of the model that is replaced
    assert not path.exists()


def test_a_pre_trained_model_has_losses_and_no_targets(table, tmp_path):
    settings = {
        **CONTRASTIVE,
        "model.layers": 1,
        "model.width": 16,
        "model.ffn_width": 16,
        "model.heads": 2,
        "run.epochs": 1,
        "data.structures": [str(table)],
        "data.table": None,
    }
    config = load_config(table, overrides=settings)
    metrics = train(config, tmp_path / "run").metrics
    card = card_of(tmp_path / "run")
    assert "# Pre-trained model of molecules" in card and "without labels" in card
    assert "- Source: data.csv\n" in card
    losses = [significant(metrics[split]["loss"]) for split in ("val", "test")]
    assert cells(card, "loss") == ["loss", *losses]
    assert "molsepnorm embed --model FOLDER" in card
    assert "config.json" not in card.partition("## What the model")[2].partition("## ")[0]


def test_an_unfinished_run_has_a_card_without_scores(configure, stop_at, tmp_path):
    """The card is written again when the run is finished."""
    train(configure({"run.epochs": 2}), tmp_path / "run", callback=stop_at(5))
    card = card_of(tmp_path / "run")
    assert "There are no scores: the run is not finished, or it has no test split." in card
    assert "license: unknown" in card and "Not stated." in card
    metrics = train(folder=tmp_path / "run", resume=True).metrics
    assert significant(metrics["test"]["mae"]) in cells(card_of(tmp_path / "run"), "MAE")


@pytest.mark.parametrize(
    ("settings", "split"),
    [
        (
            {"data.split_type": "scaffold", "data.split_seed": 3, "data.split": [0.4, 0.3, 0.3]},
            "scaffold, seed 3",
        ),
        ({"data.fold": 2}, "random, seed 0, replicate 2"),
        ({"data.folds": 3, "data.fold": 1}, "random, seed 0, fold 1 of 3"),
        ({"data.splits_column": "part"}, "from the column part"),
    ],
)
def test_the_card_names_the_split(with_columns, tmp_path, settings, split):
    parts = ["train"] * 6 + ["val", "test"]
    config = with_columns(
        {"y": NUMBERS, "part": parts}, {"data.targets": ["y"], "run.epochs": 1, **settings}
    )
    train(config, tmp_path / "run")
    assert f"- Split: {split}\n" in card_of(tmp_path / "run")


def test_a_fine_tuned_model_names_its_start(shipped, configure, tmp_path):
    """A shipped model with its licence, another one by the name of its folder only."""
    first = train(configure({"run.epochs": 1}), tmp_path / "first").folder
    table = configure().data.table
    for start, text in (
        (str(first), "another model (first), whose licence applies too"),
        (shipped.name, f"{shipped.name}, licence MIT"),
    ):
        settings = {"finetune.start": start, "data.targets": ["y"], "run.epochs": 1}
        folder = tmp_path / "runs" / text[:5]
        train(load_config(table, overrides=settings), folder)
        assert f"- Start of training: {text}\n" in card_of(folder)


def test_elements_are_those_of_rdkit():
    """In all SMILES of the demonstration data, and in some with charges, isotopes and metals."""
    with open(TOP / "data" / "demo.csv", newline="") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    smiles += ["[Na+].[Cl-]", "c1c[se]cc1", "[13CH4]", "[Co]", "CO", "Oc1ncc[nH]1", "B(O)O"]
    smiles += ["[Sn](C)(C)C", "C[Si](C)(C)C", "Clc1ccccc1Br", "[nH]1cccc1", "C[As]", "[2H]O[2H]"]
    for text in smiles:
        mol = Chem.MolFromSmiles(text, sanitize=False)
        assert elements([text]) == {atom.GetSymbol() for atom in mol.GetAtoms()}, text


def test_every_file_of_a_run_has_a_description(run):
    """So that the card, and `share`, name what each of them holds."""
    for path in run.folder.rglob("*"):
        name = path.relative_to(run.folder).as_posix()
        if path.is_file():
            assert any(fnmatch(name, pattern) for pattern in CONTENTS), name

"""The model card: README.md in the model folder of a run."""

from __future__ import annotations

from pathlib import Path

import yaml
from rdkit import Chem

from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import KernelPart
from molsepnorm.model.parts.kernel import KernelRegression
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, Target, Task
from molsepnorm.tasks.metrics import significant
from molsepnorm.training import train
from molsepnorm.training.recipes import load_dataset
from molsepnorm.training.results.card import elements, model_card
from molsepnorm.training.results.summary import composition
from runs import YES_NO, rows_of, split_rows
from support import tiny_model

TOP = Path(__file__).parents[2]
NUMBERS = [0.5, 2, 1.5, 3, 1, 0.2, 0.7]


def card_of(folder: Path) -> str:
    return (folder / "model" / "README.md").read_text(encoding="utf-8")


def cells(card: str, first: str) -> list[str]:
    """The cells of the first row of a table that begins with a text."""
    line = next(each for each in card.splitlines() if each.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_card_describes_model_data_and_scores(with_columns, tmp_path, baselines):
    """The run has two targets, one of them transformed, a forest and a row that cannot be read. The
    card has no structure, path or user."""
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
    run = train(config, tmp_path / "run")
    card, metrics = card_of(run.folder), run.metrics
    _, front, body = card.split("---\n", 2)
    header = yaml.safe_load(front)
    assert (header["license"], header["library_name"]) == ("cc-by-4.0", "molsepnorm")
    assert header["metrics"] == [name for name in metrics["test"] if "/" not in name]
    labels = str(len(split_rows(run.folder)["train"]))
    scale = "pic50 = 9 - log10(value in nM)"
    assert cells(body, "ic50_nM") == ["ic50_nM", "regression", scale, "", labels]
    assert f"| a\\|b | binary | probability | 0, 1 | {labels} |" in body
    for text in ("24 train, 3 val, 3 test", composition(run.model, 1), "C, N, O"):
        assert f": {text}\n" in body
    low, high = metrics["test_interval_95"]["rmse"]
    assert cells(card, "RMSE") == [
        "RMSE",
        *(significant(metrics[split]["rmse"]) for split in ("val", "test")),
        f"{significant(low)} to {significant(high)}",
        significant(metrics["test_constant"]["rmse"]),
        significant(metrics["blend"]["network"]["test"]["rmse"]),
        significant(metrics["baseline"]["test"]["rmse"]),
    ]
    smiles = {row["smiles"] for row in rows_of(config.data.table)}
    assert not {word for word in card.replace("`", " ").split() if len(word) > 2} & smiles
    assert str(tmp_path) not in card and str(Path.home()) not in card


def test_elements_are_those_of_rdkit():
    """In all SMILES of the demonstration data, and in some with charges, isotopes and metals."""
    smiles = [row["smiles"] for row in rows_of(TOP / "data" / "demo.csv")]
    smiles += ["[Na+].[Cl-]", "c1c[se]cc1", "[13CH4]", "[Co]", "CO", "Oc1ncc[nH]1", "B(O)O"]
    smiles += ["[Sn](C)(C)C", "C[Si](C)(C)C", "Clc1ccccc1Br", "[nH]1cccc1", "C[As]", "[2H]O[2H]"]
    for text in smiles:
        mol = Chem.MolFromSmiles(text, sanitize=False)
        assert elements([text]) == {atom.GetSymbol() for atom in mol.GetAtoms()}, text


def test_the_numbers_of_training_molecules_in_a_model_are_revealed(configure):
    """Those of a kernel regression, with the descriptors and counts that it compares."""
    config = configure()
    task, network = Task((Target("y", "regression"),), "mae"), tiny_model().network
    plain = PropertyModel.of(network, "zinc", task)
    inputs = ExtraInputs(morgan=2048, descriptors=tuple(map(str, range(72))))
    kernels = (KernelPart(network, KernelRegression(16, 1234, 1, r)) for r in (NO_INPUTS, inputs))
    models = [plain, *(plain.with_parts([each], [1.0]) for each in kernels)]
    texts = [model_card(each, config, load_dataset(config), None) for each in models]
    texts = [text.partition("What the model file reveals")[2] for text in texts]
    assert ["1,234" in text for text in texts] == [False, True, True]
    assert ["2,120" in text for text in texts] == [False, False, True]
    assert ["network weights only" in text for text in texts] == [True, False, False]

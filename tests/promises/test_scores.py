"""Test scores of the default recipe on two sets, and predictions of the models in the package."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from molsepnorm import Predictor

from .conftest import DEMO, figures


@pytest.mark.parametrize(
    ("file", "target", "epochs"), [("esol", "log_solubility", 3), ("bace", "Class", 2)]
)
def test_training(molsepnorm, datasets, tmp_path, golden, file, target, epochs):
    """Fine-tuning, kernel regression and forest, with a seed."""
    given = ("--data", datasets / "moleculenet" / f"{file}.csv", "--targets", target)
    given += ("--splits-column", "scaffold_split", "--epochs", epochs, "--seed", 0)
    molsepnorm("train", *given, "--output", tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    golden(f"scores {file}", {split: metrics[split] for split in ("val", "test")})


@pytest.mark.parametrize("name", ["molsepnorm-zinc", "molsepnorm-molhiv"])
def test_a_shipped_model_predicts(golden, name):
    smiles = pd.read_csv(DEMO)["smiles"][:200].tolist()
    rows = [*Predictor.from_pretrained(name).stream(smiles)]
    predicted = pd.DataFrame([row.values for row in rows])
    golden(name, {"every tenth": predicted[::10].to_dict("list"), **figures(predicted)}, 1e-5)


def test_the_shipped_network_embeds(golden):
    smiles = pd.read_csv(DEMO)["smiles"][:200].tolist()
    vectors = Predictor.from_pretrained("molsepnorm-small").embed(smiles).molecules
    found = vectors[::20, :4].tolist(), float(np.abs(vectors).mean())
    golden("molsepnorm-small", found, 1e-5)

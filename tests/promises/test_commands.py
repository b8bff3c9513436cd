"""One output of each command on a small table: its columns, rows and numbers."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request

import numpy as np
import pandas as pd
import pytest

from support import predicted, tiny_model

from .conftest import PROGRAM, TARGETS, environment, figures


def test_train(run, golden):
    metrics = json.loads((run / "metrics.json").read_text())
    for split in ("val", "test"):
        golden(f"train {split}", metrics[split])
    golden("train predictions", figures(pd.read_csv(run / "predictions_test.csv")))
    history = pd.read_csv(run / "history.csv")
    golden("train history", figures(history[["epoch", "step", "lr", "train_loss", "val_loss"]]))
    assert (run / "report.html").stat().st_size > 10_000


def test_evaluate(molsepnorm, run, table, golden):
    done = molsepnorm("evaluate", "--model", run, "--data", table, "--split", "val", "--json")
    scores = json.loads(done.stdout)
    golden("evaluate", {name: scores[name] for name in ("molecules", "mae", "roc_auc")})


def test_predict(molsepnorm, run, unknown, tmp_path, golden):
    """With intervals and the domain; every row stays, and the unreadable one has its reason."""
    output = tmp_path / "predicted.csv"
    given = ("--model", run, "--input", unknown, "--output", output)
    molsepnorm("predict", *given, "--uncertainty", "--domain")
    rows = pd.read_csv(output)
    assert rows["name"].tolist() == pd.read_csv(unknown)["name"].tolist()
    assert rows["error"].notna().tolist() == [number == 7 for number in range(40)]
    assert (rows["penalised_logp_low"] < rows["penalised_logp_high"]).drop(7).all()
    golden("predict", figures(rows.drop(columns="error")))


def test_screen(molsepnorm, run, unknown, tmp_path, golden):
    output = tmp_path / "hits"
    given = ("--model", run, "--input", unknown, "--output", output)
    molsepnorm("screen", *given, "--top", 10, "--by", "penalised_logp_pred")
    best = pd.read_csv(output / "top.csv")
    assert best["penalised_logp_pred"].is_monotonic_decreasing
    golden("screen", figures(best))
    assert len(pd.read_parquet(output / "rejected")) == 1


def test_explain(molsepnorm, run, tmp_path, golden):
    """The contributions of a molecule add up to its prediction minus that without atoms."""
    output = tmp_path / "reasons.json"
    given = ("--smiles", "CC(=O)Oc1ccccc1C(=O)O", "--smiles", "CCN(CC)CC")
    molsepnorm("explain", "--model", run, *given, "--targets", "penalised_logp", "--output", output)
    for molecule in json.loads(output.read_text())["molecules"]:
        (found,) = molecule["targets"]
        golden(f"explain {molecule['smiles']}", found)


def test_embed(molsepnorm, run, unknown, tmp_path, golden):
    output = tmp_path / "embeddings.parquet"
    molsepnorm("embed", "--model", run, "--input", unknown, "--output", output)
    rows = pd.read_parquet(output)
    vectors = np.stack(rows["embedding"].drop(7))
    assert [*rows.columns] == ["name", "smiles", "embedding", "error"]
    golden("embed", [*vectors.shape, float(vectors.mean()), float(vectors.std())])


def test_data_check(molsepnorm, table, tmp_path, golden):
    """The copy has a row for each molecule, the unreadable one left out."""
    rows = pd.read_csv(table)
    rows.loc[len(rows)] = ["M-x", "C1CC", 1.0, 1]
    rows.loc[len(rows)] = ["M-y", rows["smiles"][3], rows["penalised_logp"][3] + 0.1, None]
    given, fixed = tmp_path / "messy.csv", tmp_path / "clean.csv"
    rows.to_csv(given, index=False)
    molsepnorm("data", "check", given, "--targets", TARGETS, "--fix", fixed)
    golden("data check", figures(pd.read_csv(fixed)))


def test_benchmark_and_ablate(molsepnorm, table, tmp_path, golden):
    """Runs with the same seed and settings have the same scores in both."""
    given = ("--data", table, "--targets", "penalised_logp", "--epochs", 1, "--no-baseline")
    given += ("--seeds", "0,1", "--output", tmp_path)
    molsepnorm("benchmark", *given[:-1], tmp_path / "benchmark")
    molsepnorm("benchmark", *given[:-1], tmp_path / "ablation", "--vary", "optim.lr=8e-4,1e-3")
    summary = json.loads((tmp_path / "benchmark" / "summary.json").read_text())
    ablation = json.loads((tmp_path / "ablation" / "ablation.json").read_text())
    golden("benchmark", summary["test"])
    first, second = (each["test"] for each in ablation["variants"].values())
    assert first == summary["test"]
    golden("ablate", second)


def test_tune(molsepnorm, table, tmp_path, golden):
    given = ("--data", table, "--targets", "penalised_logp", "--epochs", 1, "--trials", 2)
    molsepnorm("tune", *given, "--no-baseline", "--output", tmp_path / "search")
    trials = pd.read_csv(tmp_path / "search" / "trials.csv")
    golden("tune", figures(trials[["trial", "state", "score", "optim.lr"]]))


def test_pretrain(molsepnorm, table, tmp_path, golden):
    folder = tmp_path / "run"
    small = ("--set", "model.layers=2", "--set", "model.width=16", "--set", "model.heads=2")
    molsepnorm("pretrain", "--data", table, "--epochs", 1, *small, "--output", folder)
    golden("pretrain", json.loads((folder / "metrics.json").read_text())["val"])


def test_share(molsepnorm, run, unknown, tmp_path):
    """A model folder without the training molecules predicts the same."""
    shared = tmp_path / "shared"
    shutil.copytree(run / "model", shared, ignore=shutil.ignore_patterns("training_molecules*"))
    predicted = []
    for number, model in enumerate((run, shared)):
        output = tmp_path / f"{number}.csv"
        molsepnorm("predict", "--model", model, "--input", unknown, "--output", output)
        predicted.append(pd.read_csv(output))
    pd.testing.assert_frame_equal(*predicted)


def test_export(molsepnorm, tmp_path, golden):
    """The model is small, because PyTorch's exporter takes minutes for a network of usual size."""
    model, output = tmp_path / "model", tmp_path / "onnx"
    tiny_model().save_pretrained(model)
    molsepnorm("models", "export", "--model", model, "--output", output)
    with np.load(output / "example.npz") as example:
        golden("export", [*example.files])
        expected = predicted(tiny_model(), example["smiles"].tolist())
        np.testing.assert_allclose(example["predictions"], expected, rtol=1e-3, atol=1e-4)


def test_analyze(molsepnorm, run, table, tmp_path, golden):
    given = ("--model", run, "--data", table, "--split", "all", "--output", tmp_path / "geometry")
    done = molsepnorm("analyze", *given, "--json")
    golden("analyze", _numbers(json.loads(done.stdout)))


def test_report(molsepnorm, run, tmp_path):
    molsepnorm("models", "report", run, "--output", tmp_path / "page.html")
    assert "penalised_logp" in (tmp_path / "page.html").read_text()


def test_serve(run, unknown):
    """A page, and predictions over HTTP that equal those of the library."""
    from molsepnorm import Predictor

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*PROGRAM, "serve", "--model", str(run), "--port", str(port)]
    server = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
    try:
        url, content = f"http://127.0.0.1:{port}", None
        for _ in range(120):
            try:
                content = urllib.request.urlopen(url, timeout=5).read().decode()
                break
            except OSError:
                time.sleep(0.5)
        assert content is not None and "<html" in content
        body = json.dumps({"smiles": ["CCO", "c1ccccc1"]}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{url}/predict", body, headers)
        answer = json.loads(urllib.request.urlopen(request, timeout=60).read())
    finally:
        server.terminate()
        server.wait(30)
    found = [row["values"] for row in answer["predictions"]]
    expected = [row.values for row in Predictor.from_pretrained(run).stream(["CCO", "c1ccccc1"])]
    for row, other in zip(found, expected, strict=True):
        assert row == pytest.approx(other, abs=1e-5)


def test_models_data_list_and_doctor(molsepnorm):
    assert "molsepnorm-small" in molsepnorm("models").stdout
    assert "ogbg-molhiv" in molsepnorm("data", "list").stdout
    assert "torch" in molsepnorm("doctor").stdout


def _numbers(content: object) -> object:
    """Return the numbers of JSON content, without times, paths and texts."""
    if isinstance(content, dict):
        found = {key: _numbers(value) for key, value in content.items() if "seconds" not in key}
        return {key: value for key, value in found.items() if value not in (None, {}, [])}
    if isinstance(content, list):
        return [value for each in content if (value := _numbers(each)) not in (None, {}, [])]
    return content if isinstance(content, int | float) and not isinstance(content, bool) else None

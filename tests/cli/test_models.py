"""`molsepnorm models`, and --allow-leak on the command line."""

from __future__ import annotations

import json
from dataclasses import asdict

from molsepnorm.model import PropertyModel
from molsepnorm.pretrained import resolve


def test_json_holds_the_whole_card(shipped, ok):
    size = sum(path.stat().st_size for path in resolve(shipped.name).iterdir())
    expected = json.loads(json.dumps({**asdict(shipped), "bytes": size}))
    assert json.loads(ok("models", shipped.name, "--json")) == expected
    assert json.loads(ok("models", "--json")) == [expected]


def test_a_shipped_model_is_fine_tuned_by_name(shipped, ok, write_table, tmp_path):
    table = write_table(tmp_path / "data.csv", y=[0.5, 2, -1.5, 3, 1])
    args = ("--data", table, "--epochs", 1, "--batch-size", 8, "-o", tmp_path / "run")
    text = " ".join(ok("train", *args, "--from", shipped.name).split())
    assert f"Training starts from {shipped.name}: " in text
    assert PropertyModel.from_pretrained(tmp_path / "run").excludes == shipped.excludes


def test_a_damaged_file_of_a_model_or_run_is_named(ok, run, write_table, tiny, tmp_path):
    table = write_table(tmp_path / "data.csv", y=[0.5, 2, -1.5, 3, 1])
    ok("train", "--data", table, *tiny, "-o", tmp_path / "run")
    found = dict(line.split() for line in ok("models", "verify", tmp_path / "run").splitlines())
    assert found == {"model": "intact", "checkpoints/last.safetensors": "intact"}
    for name, what in (
        ("model/training_molecules.gz", "model"),
        ("checkpoints/last.safetensors", "checkpoints/last.safetensors"),
    ):
        path = tmp_path / "run" / name
        content = path.read_bytes()
        path.write_bytes(content.replace(b"0", b"1"))
        result = run("models", "verify", tmp_path / "run")
        assert result.exit_code == 1
        assert f"Error: {path} is damaged" in result.stderr and "Traceback" not in result.output
        result = run("models", "verify", tmp_path / "run", "--json")
        (damaged,) = (each for each in json.loads(result.stdout) if each["problem"])
        assert (result.exit_code, damaged["path"]) == (1, what)
        path.write_bytes(content)

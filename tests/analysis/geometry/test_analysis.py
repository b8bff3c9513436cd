"""`analyze` measures the right embeddings, and summarises groups of runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from molsepnorm.analysis.geometry import (
    ModelOnMolecules,
    analyze,
    effective_rank,
    mean_cosine,
    outlier_share,
    singular_values,
    uniformity,
)
from molsepnorm.analysis.geometry.analysis import ATOMS, TOKEN, load_models
from molsepnorm.analysis.geometry.figure import draw, write
from molsepnorm.analysis.geometry.measures import correlate
from molsepnorm.data.batching import GraphTensors
from molsepnorm.data.datasets import DataConfig
from molsepnorm.data.store import GraphStore
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode
from molsepnorm.nn import GraphormerConfig
from molsepnorm.tasks import Target, Task
from support import SMALL, far_from_initial

SMILES = tuple("C" * length + end for length in range(1, 6) for end in ("O", "N", "Cl", "F", "C=O"))
LABELS = np.stack([np.arange(25.0), np.arange(25) % 2, np.arange(25) % 3], axis=1)
LABELS[3] = np.nan
TASK = Task(
    (
        Target("y", "regression", mean=0.0, scale=1.0),
        Target("active", "binary"),
        Target("colour", "multiclass", classes=("red", "green", "blue")),
    ),
    metric="mae",
)


@pytest.fixture(scope="module")
def model() -> Callable[..., ModelOnMolecules]:
    """`model("a", group="a", graphs=range(25), dropout=0.1)`, and network settings."""
    zinc = featurize.get("zinc")

    def make(name: str, group: str | None = None, graphs=range(25), **settings) -> ModelOnMolecules:
        config = GraphormerConfig(**{**SMALL, "outputs": TASK.outputs, **settings})
        model = PropertyModel.of(far_from_initial(config), "zinc", TASK)
        encoded = encode([zinc(text) for text in SMILES], model.encoding)
        chunks = [(encoded, np.arange(len(SMILES)))]
        store = GraphStore.of(chunks, (), model.encoding, "zinc")
        shown = np.array(graphs)
        smiles = tuple(SMILES[index] for index in shown)
        return ModelOnMolecules(name, group or name, model, store, shown, LABELS[shown], smiles)

    return make


def with_targets(one: ModelOnMolecules, *targets: Target) -> ModelOnMolecules:
    task = replace(TASK, targets=targets)
    return replace(one, model=replace(one.model, task=task, weights=np.ones(1)))


@pytest.mark.parametrize(("readout", "read"), [("token", TOKEN), ("mean", ATOMS)])
def test_the_last_statistics_are_of_what_the_readout_uses(model, readout, read):
    """Each molecule is embedded alone."""
    shown = model("one", graphs=[*range(24, -1, -2), *range(1, 25, 2)], readout=readout)
    tensors = GraphTensors.of(shown.store)
    with torch.no_grad():
        rows = [shown.model.network.embed(tensors.cut([int(graph)])) for graph in shown.graphs]
    points = torch.cat(rows).double()
    cloud = analyze([shown], device="cpu").runs[0].at(read)
    assert (cloud.of, cloud.site) == (read, "last norm")
    assert cloud.effective_rank == pytest.approx(effective_rank(points), rel=1e-4)
    assert cloud.uniformity == pytest.approx(float(uniformity(points)), rel=1e-4)
    assert cloud.mean_cosine == pytest.approx(mean_cosine(points), abs=1e-5)
    assert cloud.outlier_share == pytest.approx(outlier_share(points), rel=1e-4)
    spread = singular_values(points) / len(points) ** 0.5
    np.testing.assert_allclose(cloud.singular_values, spread, atol=1e-5)
    expected = correlate(points, shown.store.sizes[shown.graphs].astype(float))
    assert cloud.correlations["size"] == pytest.approx(expected, abs=1e-3)


def test_atoms_have_statistics_up_to_their_last_layer(model):
    """They skip the last layer if the readout uses the token alone."""
    token, both = analyze([model("token"), model("both", readout="token+mean")], device="cpu").runs
    sites = ["layer 1", "layer 2", "layer 3", "last norm"]
    assert [c.site for c in token.statistics if c.of == TOKEN] == sites
    assert [c.site for c in token.statistics if c.of == ATOMS] == sites[:2]
    assert [c.site for c in both.statistics if c.of == ATOMS] == sites
    assert token.at(ATOMS).site == "layer 2"
    assert token.at(ATOMS, "layer 3") is None


def test_alignment_depends_on_dropout_alone(model):
    """It grows with dropout, is reproducible, and does not change batch statistics."""
    gentle, strong = model("gentle", dropout=0.02), model("strong", dropout=0.3)
    before = {name: value.clone() for name, value in strong.model.network.state_dict().items()}
    state = torch.random.get_rng_state()
    first, second = (analyze([gentle, strong], device="cpu") for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    weak, much = (run.at().alignment for run in first.runs)
    assert 0 < weak < much / 3
    assert [run.at().alignment for run in second.runs] == [weak, much]
    for name, value in strong.model.network.state_dict().items():
        assert torch.equal(value, before[name]), name
    none = analyze([model("none", dropout=0.0, attention_dropout=0.0)], device="cpu")
    assert none.runs[0].at().alignment is None


def test_numbers_are_correlated_and_classes_are_not(model):
    one = model("one")

    def numbers(targets=None):
        return [*analyze([one], "cpu", targets=targets).runs[0].at().correlations]

    assert (numbers(), numbers(["active"])) == (["size", "y", "active"], ["size", "active"])
    for names in (["logS"], ["colour"], "y"):
        with pytest.raises(ConfigError):
            numbers(names)
    few = analyze([model("few", graphs=range(5))], device="cpu")
    assert few.runs[0].at().correlations == {"size": None, "y": None, "active": None}
    assert few.summary()["few"]["y"] == {"mean": None, "sd": None}


def test_a_target_may_be_called_like_another_number(model):
    one = model("one")
    names = ("size", "alignment", "colour")
    named = [replace(each, name=name) for each, name in zip(TASK.targets, names, strict=True)]
    found, plain = (analyze([each], "cpu") for each in (with_targets(one, *named), one))
    correlations = found.runs[0].at().correlations
    assert [*correlations] == ["size", "target size", "target alignment"]
    assert [*correlations.values()] == [*plain.runs[0].at().correlations.values()]
    assert found.summary()["one"]["alignment"] == plain.summary()["one"]["alignment"]


def test_runs_of_a_group_are_summarised_together(model, tmp_path):
    """In the table and in the file of all numbers."""
    models = [
        model("a", "wide", init="v1"),
        model("b", "wide", dropout=0.0),
        model("c", "<$_$>", readout="mean"),
    ]
    told: list[str] = []
    analysis = analyze(models, "cpu", told.append)
    assert told == ["a", "b", "c"]
    assert [*analysis.groups] == ["wide", "<$_$>"]
    ranks = [run.at().effective_rank for run in analysis.groups["wide"]]
    found = analysis.summary()["wide"]["effective_rank"]
    assert found["mean"] == pytest.approx(np.mean(ranks))
    assert found["sd"] == pytest.approx(np.std(ranks, ddof=1))
    assert analysis.summary()["<$_$>"]["effective_rank"]["sd"] is None
    head, runs, rank, *_ = analysis.table()
    assert (head, runs) == (["", "wide", "<$_$>"], ["runs", "2", "1"])
    assert rank[:2] == ["effective rank", f"{found['mean']:.3g} ± {found['sd']:.2g}"]
    write(analysis, tmp_path / "new")
    written = json.loads((tmp_path / "new" / "geometry.json").read_text())
    assert written == json.loads(json.dumps(analysis.to_json()))
    assert written["molecules"] == 25
    assert written["summary"][TOKEN]["wide"]["effective_rank"] == found
    first = written["runs"][0]["statistics"][0]
    assert (first["site"], first["of"]) == ("layer 1", TOKEN)
    assert first["correlations"].keys() == {"size", "y", "active"}
    assert (tmp_path / "new" / "geometry.png").stat().st_size > 20_000


@pytest.mark.filterwarnings("error")
def test_a_constant_token_has_rank_zero(model):
    """Its attention has no effect, and rounding errors do not count."""
    blind = model("blind")
    with torch.no_grad():
        for name, parameter in blind.model.network.named_parameters():
            if "qkv" in name:
                parameter.zero_()
    analysis = analyze([blind], "cpu")
    cloud = analysis.runs[0].at()
    assert cloud.effective_rank == 0
    assert cloud.correlations["y"] is None
    draw(analysis)


@pytest.mark.parametrize("targets", [1, 0])
@pytest.mark.parametrize("labels", [True, False])
def test_the_labels_of_a_table_are_correlated(tmp_path, targets, labels):
    """A model of pre-training has no targets: those of the table are used. Bounds are missing."""
    network = far_from_initial(GraphormerConfig(**{**SMALL, "outputs": targets}))
    task = Task((Target("y", "regression"),) * targets, "mae" if targets else "loss")
    PropertyModel.of(network, "zinc", task).save_pretrained(tmp_path / "m")
    rows = [f"{'C' * n}{end},{'>' * (n == 1)}{n}" for n in range(1, 9) for end in "ONF"]
    lines = ["smiles,y", *rows] if labels else [row.split(",")[0] for row in ["smiles", *rows]]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    data = DataConfig(table=tmp_path / "t.csv", targets=["y"] if labels else None)
    (one,) = load_models([tmp_path / "m"], data)
    assert one.smiles is not None and len(one.smiles) == 24
    found = analyze([one], device="cpu").runs[0].at().correlations
    assert [*found] == ["size"] + ["y"] * (labels or targets)
    if labels:
        assert np.isnan(one.labels).sum() == 3
        assert found["y"] > 0.5

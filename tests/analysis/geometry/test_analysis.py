"""`analyze` measures the right embeddings, and summarises groups of runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from molsepnorm.analysis.geometry import (
    Analysis,
    ModelOnMolecules,
    analyze,
    correlate,
    effective_rank,
    mean_cosine,
    outlier_share,
    principal_map,
    singular_values,
    uniformity,
)
from molsepnorm.analysis.geometry.analysis import ATOMS, TOKEN
from molsepnorm.analysis.geometry.models import load_models
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.tasks import Target


def embeddings(model: ModelOnMolecules) -> torch.Tensor:  # (n, R)
    """Return the embeddings that the readout uses, for one molecule at a time."""
    tensors = GraphTensors.of(model.store)
    with torch.no_grad():
        rows = [model.model.network.embed(tensors.cut([int(graph)])) for graph in model.graphs]
    return torch.cat(rows).double()


@pytest.mark.parametrize(("readout", "read"), [("token", TOKEN), ("mean", ATOMS)])
def test_the_last_statistics_are_of_what_the_readout_uses(model, readout, read):
    shown = model("one", graphs=[*range(24, -1, -2), *range(1, 25, 2)], readout=readout)
    points = embeddings(shown)
    run = analyze([shown], device="cpu").runs[0]
    cloud = run.at(run.read)
    assert (cloud.of, cloud.site) == (read, "last norm")
    assert cloud.effective_rank == pytest.approx(effective_rank(points), rel=1e-4)
    assert cloud.uniformity == pytest.approx(float(uniformity(points)), rel=1e-4)
    assert cloud.mean_cosine == pytest.approx(mean_cosine(points), abs=1e-5)
    assert cloud.outlier_share == pytest.approx(outlier_share(points), rel=1e-4)
    spread = singular_values(points) / len(points) ** 0.5
    np.testing.assert_allclose(cloud.singular_values, spread, atol=1e-5)
    places, shares = principal_map(points)
    np.testing.assert_allclose(run.coordinates, places, atol=1e-4)
    assert run.shares == pytest.approx(shares.tolist(), abs=1e-5)
    sizes = shown.store.sizes[shown.graphs].astype(float)
    expected = correlate(points.numpy(), places[:, 0].numpy(), sizes)
    assert cloud.correlations["size"].linear == pytest.approx(expected.linear, abs=1e-3)
    assert cloud.correlations["size"].axis == pytest.approx(expected.axis, abs=1e-3)


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


def test_labels_that_are_missing_or_classes_are_not_correlated(model):
    analysis = analyze([model("one")], device="cpu")
    assert analysis.numbers == ("size", "y", "active")
    assert all(found is not None for found in analysis.runs[0].at().correlations.values())
    few = analyze([model("few", graphs=range(5))], device="cpu")
    assert few.runs[0].at().correlations == {"size": None, "y": None, "active": None}
    assert few.summary()["few"]["y"] == {"mean": None, "sd": None}


def test_bounds_are_not_correlated(model):
    """As if they were missing."""
    one = model("one")
    bounds = np.zeros(one.labels.shape, dtype=np.int8)
    bounds[::4, 0] = 1
    found = analyze([replace(one, bounds=bounds)], "cpu")
    missing = analyze([replace(one, labels=np.where(bounds, np.nan, one.labels))], "cpu")
    assert found.to_json() == missing.to_json()
    assert found.summary()["one"]["y"] != analyze([one], "cpu").summary()["one"]["y"]


def test_runs_of_a_group_are_summarised_together(model):
    models = [
        model("a", "wide", init="v1"),
        model("b", "wide", dropout=0.0),
        model("c", "post", norm_order="post"),
    ]
    told: list[str] = []
    analysis = analyze(models, "cpu", told.append)
    assert told == ["a", "b", "c"]
    assert analysis.groups == ("wide", "post")
    ranks = [run.at().effective_rank for run in analysis.of_group("wide")]
    found = analysis.summary()["wide"]["effective_rank"]
    assert found["mean"] == pytest.approx(sum(ranks) / 2)
    assert found["sd"] == pytest.approx(abs(ranks[0] - ranks[1]) / math.sqrt(2))
    post = analysis.runs[2]
    assert [c.site for c in post.statistics if c.of == TOKEN][-1] == "layer 3"
    assert analysis.summary()["post"]["effective_rank"]["sd"] is None


def test_json_has_every_number(model):
    analysis = analyze([model("a", "g"), model("b", "g")], device="cpu")
    told = json.loads(json.dumps(analysis.to_json()))
    assert told["molecules"] == 25
    assert told["summary"][TOKEN]["g"] == analysis.summary()["g"]
    first = told["runs"][0]["statistics"][0]
    assert (first["site"], first["of"]) == ("layer 1", TOKEN)
    assert first["correlations"]["y"]["linear"] == (
        analysis.runs[0].statistics[0].correlations["y"].linear
    )


def relabelled(model):
    """Return the same sizes with other labels."""
    return replace(model, labels=np.roll(model.labels, 1, axis=0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda each: relabelled(each), "one and other have different"),
        (
            lambda each: replace(each, smiles=tuple("C" for _ in each.smiles)),
            "one and other have different",
        ),
        (lambda each: replace(each, graphs=each.graphs[::-1]), "one and other have different"),
        (lambda each: replace(each, graphs=each.graphs[:1]), "one and other have different"),
    ],
)
def test_other_molecules_are_refused(model, change, message):
    with pytest.raises(ConfigError, match=message):
        analyze([model("one"), change(model("other"))])


def test_nothing_to_compare_is_refused(model):
    with pytest.raises(ConfigError, match="no model to analyze"):
        analyze([])
    with pytest.raises(ConfigError, match="two molecules or more; got 1"):
        analyze([model("one", graphs=[3])])
    other = model("other")
    task = replace(other.model.task, targets=(Target("logS", "regression"),))
    other = replace(other, model=replace(other.model, task=task))
    with pytest.raises(ConfigError, match="one predicts y, active, colour, and other logS"):
        analyze([model("one"), other])
    logged = replace(other.model.task.targets[0], transform="log10")
    learned = replace(other, model=replace(other.model, task=replace(task, targets=(logged,))))
    with pytest.raises(ConfigError, match="other predicts logS, and other logS_log10"):
        analyze([other, learned])


def test_targets_can_be_chosen(model):
    """The first one colours the map."""
    analysis = analyze([model("one")], "cpu", targets=["active", "y"])
    assert (analysis.numbers, analysis.colour.name) == (("size", "active", "y"), "active")
    classes = analyze([model("one")], "cpu", targets=["colour"])
    assert (classes.numbers, classes.colour.name) == (("size",), "colour")
    with pytest.raises(ConfigError, match="predicts y, active, colour, and not logS"):
        analyze([model("one")], targets=["logS"])
    with pytest.raises(ConfigError, match="targets must be a list, and is one text"):
        analyze([model("one")], targets="y")


def test_a_target_may_be_called_like_another_number(model):
    one = model("one")
    names = ("size", "alignment", "colour")
    targets = tuple(
        replace(target, name=name)
        for target, name in zip(one.model.task.targets, names, strict=True)
    )
    task = replace(one.model.task, targets=targets)
    found = analyze([replace(one, model=replace(one.model, task=task))], "cpu")
    plain = analyze([one], "cpu")
    assert found.numbers == ("size", "target size", "target alignment")
    assert [*found.runs[0].at().correlations.values()] == [
        *plain.runs[0].at().correlations.values()
    ]
    assert found.summary()["one"]["alignment"] == plain.summary()["one"]["alignment"]


def test_the_error_about_nan_names_the_model(model):
    broken = model("broken")
    with torch.no_grad():
        for parameter in broken.model.network.parameters():
            parameter.fill_(torch.inf)
    with pytest.raises(DataError, match="broken: embeddings must be finite"):
        analyze([model("one"), broken], "cpu")


def test_a_constant_token_has_rank_zero(model):
    """Its attention has no effect, and rounding errors do not count."""
    blind = model("blind")
    with torch.no_grad():
        for name, parameter in blind.model.network.named_parameters():
            if "qkv" in name:
                parameter.zero_()
    cloud = analyze([blind], "cpu").runs[0].at()
    assert cloud.effective_rank == 0
    assert cloud.correlations["y"] is None


def test_an_analysis_is_frozen(model):
    analysis = analyze([model("one")], device="cpu")
    assert isinstance(analysis, Analysis)
    with pytest.raises(AttributeError):
        analysis.runs = ()


def test_a_single_folder_is_not_read_as_a_list_of_letters():
    with pytest.raises(ConfigError, match=r"folders must be a list, and is one text: write \['ru"):
        load_models("runs/a")

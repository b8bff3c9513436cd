"""`analyze`: the right embeddings are measured, and runs are told of side by side."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from molsepnorm.analysis.geometry import (
    Analysis,
    Subject,
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
from molsepnorm.analysis.geometry.subjects import load_subjects
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.tasks import Target


def embeddings(subject: Subject) -> torch.Tensor:  # (n, R)
    """What the read-out reads, one molecule at a time."""
    tensors = GraphTensors.of(subject.store)
    with torch.no_grad():
        rows = [subject.model.network.embed(tensors.cut([int(graph)])) for graph in subject.graphs]
    return torch.cat(rows).double()


@pytest.mark.parametrize(("readout", "read"), [("token", TOKEN), ("mean", ATOMS)])
def test_the_end_is_what_the_read_out_reads(subject, readout, read):
    shown = subject("one", graphs=[*range(24, -1, -2), *range(1, 25, 2)], readout=readout)
    points = embeddings(shown)
    run = analyze([shown], device="cpu").runs[0]
    cloud = run.cloud(run.read)
    assert (cloud.of, cloud.site) == (read, "last norm")
    assert cloud.effective_rank == pytest.approx(effective_rank(points), rel=1e-4)
    assert cloud.uniformity == pytest.approx(float(uniformity(points)), rel=1e-4)
    assert cloud.mean_cosine == pytest.approx(mean_cosine(points), abs=1e-5)
    assert cloud.outlier_share == pytest.approx(outlier_share(points), rel=1e-4)
    spread = singular_values(points) / len(points) ** 0.5
    np.testing.assert_allclose(cloud.singular_values, spread, atol=1e-5)
    places, shares = principal_map(points)
    np.testing.assert_allclose(run.places, places, atol=1e-4)
    assert run.shares == pytest.approx(shares.tolist(), abs=1e-5)
    sizes = shown.store.sizes[shown.graphs].astype(float)
    expected = correlate(points.numpy(), places[:, 0].numpy(), sizes)
    assert cloud.correlations["size"].linear == pytest.approx(expected.linear, abs=1e-3)
    assert cloud.correlations["size"].axis == pytest.approx(expected.axis, abs=1e-3)


def test_atoms_are_looked_at_as_far_as_they_go(subject):
    """Where the token alone is read out, they do not go through the last layer."""
    token, both = analyze(
        [subject("token"), subject("both", readout="token+mean")], device="cpu"
    ).runs
    sites = ["layer 1", "layer 2", "layer 3", "last norm"]
    assert [c.site for c in token.clouds if c.of == TOKEN] == sites
    assert [c.site for c in token.clouds if c.of == ATOMS] == sites[:2]
    assert [c.site for c in both.clouds if c.of == ATOMS] == sites
    assert token.cloud(ATOMS).site == "layer 2"
    assert token.cloud(ATOMS, "layer 3") is None


def test_alignment_is_of_dropout_alone(subject):
    """It grows with dropout, is the same in each call, and leaves batch statistics alone."""
    gentle, strong = subject("gentle", dropout=0.02), subject("strong", dropout=0.3)
    before = {name: value.clone() for name, value in strong.model.network.state_dict().items()}
    state = torch.random.get_rng_state()
    first, second = (analyze([gentle, strong], device="cpu") for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    weak, much = (run.cloud().alignment for run in first.runs)
    assert 0 < weak < much / 3
    assert [run.cloud().alignment for run in second.runs] == [weak, much]
    for name, value in strong.model.network.state_dict().items():
        assert torch.equal(value, before[name]), name
    none = analyze([subject("none", dropout=0.0, attention_dropout=0.0)], device="cpu")
    assert none.runs[0].cloud().alignment is None


def test_labels_that_are_missing_or_classes_are_not_correlated(subject):
    analysis = analyze([subject("one")], device="cpu")
    assert analysis.numbers == ("size", "y", "active")
    assert all(found is not None for found in analysis.runs[0].cloud().correlations.values())
    few = analyze([subject("few", graphs=range(5))], device="cpu")
    assert few.runs[0].cloud().correlations == {"size": None, "y": None, "active": None}
    assert few.summary()["few"]["y"] == {"mean": None, "sd": None}


def test_runs_of_a_group_are_told_of_together(subject):
    subjects = [
        subject("a", "wide", init="v1"),
        subject("b", "wide", dropout=0.0),
        subject("c", "post", norm_order="post"),
    ]
    told: list[str] = []
    analysis = analyze(subjects, "cpu", told.append)
    assert told == ["a", "b", "c"]
    assert analysis.groups == ("wide", "post")
    ranks = [run.cloud().effective_rank for run in analysis.of_group("wide")]
    found = analysis.summary()["wide"]["effective_rank"]
    assert found["mean"] == pytest.approx(sum(ranks) / 2)
    assert found["sd"] == pytest.approx(abs(ranks[0] - ranks[1]) / math.sqrt(2))
    post = analysis.runs[2]
    assert [c.site for c in post.clouds if c.of == TOKEN][-1] == "layer 3"
    assert analysis.summary()["post"]["effective_rank"]["sd"] is None


def test_json_has_every_number(subject):
    analysis = analyze([subject("a", "g"), subject("b", "g")], device="cpu")
    told = json.loads(json.dumps(analysis.to_json()))
    assert told["molecules"] == 25
    assert told["summary"][TOKEN]["g"] == analysis.summary()["g"]
    first = told["runs"][0]["clouds"][0]
    assert (first["site"], first["of"]) == ("layer 1", TOKEN)
    assert first["correlations"]["y"]["linear"] == (
        analysis.runs[0].clouds[0].correlations["y"].linear
    )


def relabelled(subject):
    """Molecules of the same sizes."""
    return replace(subject, labels=np.roll(subject.labels, 1, axis=0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda each: relabelled(each), "one and other are shown different"),
        (
            lambda each: replace(each, smiles=tuple("C" for _ in each.smiles)),
            "one and other are shown different",
        ),
        (lambda each: replace(each, graphs=each.graphs[::-1]), "one and other are shown different"),
        (lambda each: replace(each, graphs=each.graphs[:1]), "one and other are shown different"),
    ],
)
def test_other_molecules_are_refused(subject, change, message):
    with pytest.raises(ConfigError, match=message):
        analyze([subject("one"), change(subject("other"))])


def test_nothing_to_compare_is_refused(subject):
    with pytest.raises(ConfigError, match="no model to analyze"):
        analyze([])
    with pytest.raises(ConfigError, match="two molecules or more; got 1"):
        analyze([subject("one", graphs=[3])])
    other = subject("other")
    task = replace(other.model.task, targets=(Target("logS", "regression"),))
    other = replace(other, model=replace(other.model, task=task))
    with pytest.raises(ConfigError, match="one predicts y, active, colour, and other logS"):
        analyze([subject("one"), other])


def test_targets_can_be_chosen(subject):
    """In their order; the first colours the map."""
    analysis = analyze([subject("one")], "cpu", targets=["active", "y"])
    assert (analysis.numbers, analysis.colour) == (("size", "active", "y"), "active")
    assert analysis.classes == ()
    classes = analyze([subject("one")], "cpu", targets=["colour"])
    assert (classes.numbers, classes.colour) == (("size",), "colour")
    assert classes.classes == ("red", "green", "blue")
    with pytest.raises(ConfigError, match="predicts y, active, colour, and not logS"):
        analyze([subject("one")], targets=["logS"])
    with pytest.raises(ConfigError, match="targets must be a list, and is one text"):
        analyze([subject("one")], targets="y")


def test_a_network_that_makes_nan_is_named(subject):
    broken = subject("broken")
    with torch.no_grad():
        for parameter in broken.model.network.parameters():
            parameter.fill_(torch.inf)
    with pytest.raises(DataError, match="broken: embeddings must be finite"):
        analyze([subject("one"), broken], "cpu")


def test_a_token_that_is_one_and_the_same_has_no_rank(subject):
    """But for rounding, which is no spread: attention reads nothing."""
    blind = subject("blind")
    with torch.no_grad():
        for name, parameter in blind.model.network.named_parameters():
            if "qkv" in name:
                parameter.zero_()
    cloud = analyze([blind], "cpu").runs[0].cloud()
    assert cloud.effective_rank == 0
    assert cloud.correlations["y"] is None


def test_what_is_found_is_frozen(subject):
    analysis = analyze([subject("one")], device="cpu")
    assert isinstance(analysis, Analysis)
    with pytest.raises(AttributeError):
        analysis.runs = ()


def test_one_folder_is_not_taken_for_its_letters():
    with pytest.raises(ConfigError, match=r"folders must be a list, and is one text: write \['ru"):
        load_subjects("runs/a")

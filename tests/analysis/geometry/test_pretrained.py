"""Models of pre-training have no targets: those of the data are used, if there are any."""

from __future__ import annotations

import pytest
from support import SMALL, far_from_initial

from molsepnorm.analysis.geometry import analyze
from molsepnorm.analysis.geometry.figure import draw_maps
from molsepnorm.analysis.geometry.models import load_models
from molsepnorm.analysis.geometry.report import write_report
from molsepnorm.data.datasets import DataConfig
from molsepnorm.model import PropertyModel
from molsepnorm.nn import GraphormerConfig
from molsepnorm.tasks import Task


@pytest.fixture
def pretrained(tmp_path):
    """Folder of a model without targets."""
    network = far_from_initial(GraphormerConfig(**{**SMALL, "outputs": 0}))
    PropertyModel(network, "zinc", Task((), "loss"), "pretraining").save_pretrained(tmp_path / "m")
    return tmp_path / "m"


def table_of(path, ends="ONF"):
    rows = [f"{'C' * length}{end},{length}" for length in range(1, 9) for end in ends]
    path.write_text("smiles,y\n" + "\n".join(rows) + "\n")
    return path


def test_the_labels_of_the_data_are_correlated(pretrained, tmp_path):
    data = DataConfig(table=table_of(tmp_path / "t.csv"), targets=["y"])
    analysis = analyze(load_models([pretrained], data), device="cpu")
    assert [analysis.colour] == [*analysis.targets] and analysis.colour.name == "y"
    assert analysis.labels.shape == (24, 1)
    assert analysis.runs[0].at("graph token").correlations["y"].linear > 0.5


def test_structures_alone_are_coloured_by_their_size(pretrained, tmp_path):
    path = table_of(tmp_path / "t.csv")
    for data in (
        DataConfig(table=path),
        DataConfig(structures=[path], split=(0.5, 0.25, 0.25), featurizer="zinc"),
    ):
        analysis = analyze(load_models([pretrained], data), device="cpu")
        assert (analysis.targets, analysis.colour, analysis.numbers) == ((), None, ("size",))
        assert draw_maps(analysis).axes[-1].get_ylabel() == "atoms"
        write_report(analysis, tmp_path / "report")
        assert "8 atoms" in (tmp_path / "report" / "index.html").read_text()

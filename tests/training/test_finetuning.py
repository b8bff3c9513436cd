"""Training that starts from the weights of a trained model."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.model import PropertyModel, weights_digest
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.tasks import Target, Task
from molsepnorm.training import load_config, train
from molsepnorm.training.start import load_weights
from runs import outcome, stop_at

SMALL = {"layers": 3, "width": 8, "ffn_width": 8, "heads": 2, "max_path_length": 2}
NO_CHANGE = {"optim.lr": 1e-30, "optim.weight_decay": 0.0, "run.seed": 5}


@pytest.fixture
def start(trained) -> Path:
    """Folder of a run on target y."""
    return trained({"run.epochs": 2}).folder


def _network(**config) -> Graphormer:
    return Graphormer(GraphormerConfig(**{**SMALL, **config}))


def _model(*targets: Target, **config) -> PropertyModel:
    task = Task(targets, "loss")
    return PropertyModel.of(_network(outputs=task.outputs, **config), "zinc", task)


def _body(folder: Path) -> dict[str, torch.Tensor]:
    state = PropertyModel.from_pretrained(folder).network.state_dict()
    return {name: tensor for name, tensor in state.items() if not name.startswith("head.")}


def _equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_no_learning_rate_gives_the_predictions_of_the_start(configure, start, tmp_path):
    """To the last bit, batch-norm statistics and moving average included."""
    settings = {"finetune.start": str(start), **NO_CHANGE}
    result = train(configure(settings), tmp_path / "run")
    predictions = [
        (folder / "predictions_test.csv").read_bytes() for folder in (start, tmp_path / "run")
    ]
    assert predictions[0] == predictions[1]
    model = PropertyModel.from_pretrained(start)
    assert _equal(result.model.network.state_dict(), model.network.state_dict())


def test_batch_norms_keep_the_statistics_of_the_start(configure, trained, tmp_path):
    """Those of a small table differ, and the embeddings would no longer be those of the start."""
    start = trained({"model.norm": "sep-rms-bn"}).folder
    settings = {"finetune.start": str(start), "data.split_seed": 3}
    new = train(configure(settings), tmp_path / "run").model.network
    old = PropertyModel.from_pretrained(start).network
    assert "running_var" in " ".join(dict(old.named_buffers()))
    assert _equal(dict(new.named_buffers()), dict(old.named_buffers()))
    assert not _equal(new.state_dict(), old.state_dict())


def test_predictions_stay_the_same_under_another_standardisation(configure, start, tmp_path):
    """The output weights are rescaled to the mean and deviation of the new labels."""
    settings = {"finetune.start": str(start), **NO_CHANGE}
    other = {"data.split_seed": 3, **settings}
    model = train(configure(other), tmp_path / "run").model
    old = PropertyModel.from_pretrained(start)
    assert model.task.targets[0].mean != old.task.targets[0].mean
    assert model.task.targets[0].scale != old.task.targets[0].scale
    vectors = torch.randn(9, model.network.config.width)
    with torch.no_grad():
        mine, theirs = (m.task.predictions(m.network.head(vectors)) for m in (model, old))
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


def test_targets_that_the_start_has_keep_their_outputs_and_others_are_new():
    colour = Target("colour", "multiclass", classes=("red", "green", "blue"))
    y, renamed = Target("y", "regression", 2.0, 4.0), Target("Y", "regression", 2.0, 4.0)
    start = _model(y, colour, Target("active", "binary"))
    new = _model(Target("active", "binary"), renamed, colour, Target("y", "binary"))
    before = new.network.head.weight.detach().clone()
    loaded = load_weights(new, start)
    old, weight = start.network.head.weight, new.network.head.weight
    assert torch.equal(weight[0], old[4])
    assert torch.equal(weight[2:5], old[1:4])
    assert torch.equal(weight[[1, 5]], before[[1, 5]])
    assert loaded.same_targets == ("active", "colour")
    assert loaded.new_targets == ("Y", "y")
    assert loaded.parameters - loaded.loaded == 2 * (8 + 1)


@pytest.mark.parametrize(
    ("factor", "shift", "fits"),
    [(1.0, 0.0, True), (4.184, 0.0, False), (1.0, 273.15, False)],
)
def test_labels_in_another_unit_get_new_output_weights(
    configure, trained, tmp_path, table, factor, shift, fits
):
    """A series with a smaller spread keeps them."""
    start = trained({"run.epochs": 30, "optim.lr": 0.01}).folder
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    numbers = [(smiles, float(y)) for smiles, y, _ in rows if y and not (fits and float(y) > 1)]
    lines = ["smiles,y", *(f"{smiles},{y * factor + shift}" for smiles, y in numbers)]
    table.write_text("\n".join(lines))
    run = train(configure({"finetune.start": str(start), "run.epochs": 1}), tmp_path / "run").folder
    loaded = json.loads((run / "environment.json").read_text())["loaded_weights"]
    assert loaded["new_targets"] == ([] if fits else ["y"])


def test_a_head_that_was_never_trained_is_not_loaded(start):
    """Only a supervised objective trains the head; the model folder names the objective."""
    model = PropertyModel.from_pretrained(start)
    assert model.objective == "supervised"
    model = replace(model, objective="another")
    new = PropertyModel.of(Graphormer(model.network.config), "zinc", model.task)
    before = new.network.head.weight.detach().clone()
    loaded = load_weights(new, model)
    assert (loaded.same_targets, loaded.new_targets) == ((), ("y",))
    assert torch.equal(new.network.head.weight, before)


def test_a_model_without_targets_gives_its_body_to_any_task():
    """The head is new; a model without targets can be trained further, too."""
    pretrained = replace(_model(), objective="pretraining")
    for targets in ((Target("y", "regression"), Target("z", "binary")), ()):
        new = _model(*targets)
        before = {name: tensor.clone() for name, tensor in new.network.state_dict().items()}
        loaded = load_weights(new, pretrained)
        old = pretrained.network.state_dict()
        for name, tensor in new.network.state_dict().items():
            expected = before if name.startswith("head.") else old
            assert torch.equal(tensor, expected[name]), name
        parameters = new.network.named_parameters()
        in_head = sum(p.numel() for name, p in parameters if name.startswith("head."))
        assert loaded.parameters - loaded.loaded == in_head
        assert (loaded.same_targets, loaded.new_targets) == ((), new.task.names)


def test_a_smaller_body_rate_changes_the_body_less(configure, start, tmp_path):
    """One step of AdamW moves a weight by about its learning rate."""
    first = _body(start)
    moved = {}
    for rate in (1.0, 0.01):
        settings = {"finetune.start": str(start), "finetune.body_lr": rate, "run.epochs": 1}
        settings |= {"optim.ema": None, "optim.lr": 1e-3, "optim.warmup": 0.0}
        settings |= {"run.batch_size": 64, "optim.weight_decay": 0.0}
        result = train(configure(settings), tmp_path / str(rate))
        body = _body(result.folder)
        moved[rate] = max(
            float((body[name] - first[name]).abs().max())
            for name in body
            if "embedding" in name or "attention" in name
        )
    assert moved[1.0] == pytest.approx(1e-3, rel=0.05)
    assert moved[0.01] == pytest.approx(1e-5, rel=0.1)


def test_a_stopped_run_resumes_exactly_without_the_start(configure, copied, tmp_path):
    start = copied({"run.epochs": 2})
    config = configure({"finetune.start": str(start), "finetune.body_lr": 0.3})
    train(config, tmp_path / "whole")
    assert not train(config, tmp_path / "parts", callback=stop_at(2)).finished
    shutil.rmtree(start)
    assert train(None, tmp_path / "parts", resume=True).finished
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


def test_the_architecture_is_that_of_the_start(configure, start):
    """Settings of the recipe give way; settings that do not change the weights may be named."""
    config = load_config(
        configure().data.table,
        overrides={"finetune.start": start, "model.dropout": 0.25, "model.layers": 1},
    )
    expected = PropertyModel.from_pretrained(start).network.config
    assert config.model.width == 16 != load_config(configure().data.table).model.width
    assert replace(config.model, dropout=expected.dropout) == replace(
        expected, atom_sizes=config.model.atom_sizes, bond_sizes=config.model.bond_sizes
    )
    assert config.model.dropout == 0.25
    assert config.data.featurizer == "zinc"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.layers": 5}, "has another architecture or other features: model.layers is 1, not"),
        ({"data.featurizer": "ogb"}, "data.featurizer is zinc, not ogb. Leave these settings out"),
        ({"finetune.body_lr": 0}, "finetune.body_lr: .*greater than 0"),
    ],
)
def test_settings_that_contradict_the_start_are_refused(configure, start, settings, message):
    table = configure().data.table
    with pytest.raises(ConfigError, match=message):
        load_config(table, overrides={"finetune.start": str(start), **settings})
    with pytest.raises(ConfigError, match="preset mini and finetune.start both choose an archite"):
        load_config(table, preset="mini", overrides={"finetune.start": start})


def test_a_start_that_changed_since_is_refused(configure, trained, copied, tmp_path):
    start = copied({"run.epochs": 2})
    config = configure({"finetune.start": str(start)})
    other = trained({"run.epochs": 2, "run.seed": 8}).folder
    shutil.copytree(other / "model", start / "model", dirs_exist_ok=True)
    with pytest.raises(
        ModelError, match=r"the weights of .* have the digest .* put that model back"
    ):
        train(config, tmp_path / "run")
    again = config.changed({"finetune.start": str(start)})
    assert again.finetune.weights_sha256 == weights_digest(start)

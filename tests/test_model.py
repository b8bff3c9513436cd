"""Model folders: what they hold, and how damaged ones are refused."""

from __future__ import annotations

import copy
import dataclasses
import functools
import io
import json
import os
from math import nan

import numpy as np
import pytest
import torch
from safetensors.torch import save

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError, ModelError, MolsepnormError, StorageError
from molsepnorm.files.digests import json_digest
from molsepnorm.model import SCHEMA, PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import encode
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.predict import Predictor, predict_rows
from molsepnorm.tasks import Target, Task

CONFIG = {"layers": 1, "width": 16, "ffn_width": 16, "heads": 2, "max_path_length": 3}
SMILES = ["CCO", "c1ccccc1O", "CC(=O)[O-]", "C"]


def _model(seed: int = 0, **config) -> PropertyModel:
    """Return a model with two targets and random batch-norm statistics."""
    torch.manual_seed(seed)
    task = Task((Target("logS", "regression", -3.1, 1 / 3), Target("toxic", "binary")), "loss")
    network = Graphormer(GraphormerConfig(**{**CONFIG, "outputs": 2, **config}))
    for name, buffer in network.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_()
    return PropertyModel(network.eval(), "zinc", task)


def _outputs(model: PropertyModel) -> torch.Tensor:
    zinc = featurize.get(model.featurizer)
    graphs = GraphTensors.of(encode([zinc(text) for text in SMILES], model.encoding))
    with torch.no_grad():
        return model.network(graphs.cut(list(range(len(SMILES)))))


def test_a_saved_model_is_read_back_exactly(tmp_path):
    """Weights, statistics and outputs are equal to the bit."""
    model = _model(norm="sep", graph_norm="layer", node_norm="batch", attention_dropout=0.3)
    model.save_pretrained(tmp_path / "model")
    again = PropertyModel.from_pretrained(tmp_path / "model")
    assert again.task == model.task
    assert again.featurizer == "zinc"
    assert again.network.config == model.network.config
    assert again.encoding == model.encoding
    here, there = model.network.state_dict(), again.network.state_dict()
    assert here.keys() == there.keys()
    assert all(torch.equal(here[name], there[name]) for name in here)
    assert not again.network.training
    assert torch.equal(_outputs(model), _outputs(again))


def test_classes_and_their_weights_are_read_back(tmp_path):
    """Predictions are equal to the bit."""
    targets = (
        Target("colour", "multiclass", classes=("red", "10", "é"), class_weights=(0.5, 2.0, 1 / 3)),
        Target("toxic", "binary", class_weights=(0.6, 3.0)),
        Target("logS", "regression", -3.1, 1 / 3),
    )
    torch.manual_seed(0)
    network = Graphormer(GraphormerConfig(**{**CONFIG, "outputs": 5}))
    model = PropertyModel(network.eval(), "zinc", Task(targets, "loss", "mse"))
    model.save_pretrained(tmp_path / "model")
    again = PropertyModel.from_pretrained(tmp_path / "model")
    assert again.task == model.task
    assert [type(target.classes) for target in again.task.targets] == [tuple] * 3
    assert torch.equal(
        again.task.predictions(_outputs(again)), model.task.predictions(_outputs(model))
    )


def _joined() -> PropertyModel:
    """Return a model of three networks, one of them with another architecture."""
    one, two, three = _model(0), _model(1), _model(2, layers=2, heads=4)
    partners = two.network, three.network
    return dataclasses.replace(one, partners=partners, weights=(0.5, 0.3, 0.2))


def test_several_networks_are_read_back_exactly(tmp_path):
    model = _joined()
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["schema"] == SCHEMA == 2
    again = PropertyModel.from_pretrained(tmp_path)
    assert again.weights == model.weights
    for here, there in zip(model.networks, again.networks, strict=True):
        assert here.config == there.config and not there.training
        ours, theirs = here.state_dict(), there.state_dict()
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_prediction_of_several_networks_is_their_weighted_mean(tmp_path):
    """This holds for values and probabilities; the spread is the weighted standard deviation."""
    model = _joined()
    alone = [
        Predictor(dataclasses.replace(model, network=each, partners=(), weights=(1.0,)))
        for each in model.networks
    ]
    values = np.array([[list(p.values.values()) for p in one.predict(SMILES)] for one in alone])
    weights = np.array(model.weights)[:, None, None]
    mean = (weights * values).sum(0)
    sd = np.sqrt((weights * (values - mean) ** 2).sum(0))
    found = Predictor(model).predict(SMILES)
    np.testing.assert_allclose([list(p.values.values()) for p in found], mean, rtol=1e-5)
    np.testing.assert_allclose([list(p.spread.values()) for p in found], sd, rtol=1e-3)
    assert alone[0].predict(SMILES)[0].spread == {}
    out = io.StringIO()
    predict_rows(
        Predictor(model), [{"smiles": [*SMILES, "?"]}], out, smiles_column="smiles", source="table"
    )
    header, first, *_, last = out.getvalue().splitlines()
    assert header == "smiles,logS_pred,logS_spread,toxic_pred,toxic_spread,error"
    expected = [mean[0, 0], sd[0, 0], mean[0, 1], sd[0, 1]]
    np.testing.assert_allclose([float(x) for x in first.split(",")[1:5]], expected, rtol=1e-3)
    assert last.startswith("?,,,,,")


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.5, 0.3, 0.3), (1.2, -0.1, -0.1), (nan,) * 3])
def test_weights_of_networks_must_sum_to_one(tmp_path, weights):
    model = _joined()
    with pytest.raises(ConfigError, match=r"the mean over 3 networks needs as many weights"):
        dataclasses.replace(model, weights=weights)
    model.save_pretrained(tmp_path)
    _change(tmp_path / "config.json", lambda about: about.update(weights=list(weights)))
    with pytest.raises(ModelError, match="config.json"):
        PropertyModel.from_pretrained(tmp_path)


def test_networks_that_do_not_fit_each_other_are_refused(tmp_path):
    """Networks that read other encodings, and one that is missing in the file of weights."""
    model = _joined()
    model.save_pretrained(tmp_path)

    def lengthen(about):
        about["partners"][0]["max_path_length"] = 2

    _change(tmp_path / "config.json", lengthen)
    with pytest.raises(ModelError, match="read different features or encodings"):
        PropertyModel.from_pretrained(tmp_path)
    model.save_pretrained(tmp_path)

    def drop(about):
        about["partners"].pop()
        about["weights"] = [0.5, 0.5]

    _change(tmp_path / "config.json", drop)
    with pytest.raises(ModelError, match="model.safetensors is damaged or belongs to another"):
        PropertyModel.from_pretrained(tmp_path)


def test_a_folder_of_the_first_version_is_read(tmp_path):
    """It has no entries for classes, class weights and the regression loss."""
    model = _model()
    model.save_pretrained(tmp_path)

    def forget(about):
        for target in about["task"]["targets"]:
            del target["classes"], target["class_weights"]
        del about["task"]["regression_loss"]

    _change(tmp_path / "config.json", forget)
    assert PropertyModel.from_pretrained(tmp_path).task == model.task


def test_the_folder_holds_json_and_safetensors(tmp_path):
    """Neither format runs code when it is loaded."""
    from safetensors.torch import load_file

    _model().save_pretrained(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    about = json.loads((tmp_path / "model" / "config.json").read_text())
    assert about["schema"] == 1 and "partners" not in about  # which earlier versions read
    assert about["featurizer"] == "zinc"
    assert [target["name"] for target in about["task"]["targets"]] == ["logS", "toxic"]
    assert about["network"]["width"] == 16
    assert load_file(tmp_path / "model" / "model.safetensors")


def test_a_run_folder_is_read_like_its_model_folder(tmp_path):
    """RUN and RUN/model are equivalent, as a path or as a string."""
    model = _model()
    model.save_pretrained(tmp_path / "run" / "model")
    for folder in (tmp_path / "run", tmp_path / "run" / "model", str(tmp_path / "run")):
        assert PropertyModel.from_pretrained(folder).task == model.task


@pytest.mark.parametrize("head", ["linear", "mlp"])
@pytest.mark.filterwarnings("error")
def test_a_model_without_targets_is_read_back_and_predicts_nothing(tmp_path, head):
    """Its network has no outputs; every other weight is equal to the bit."""
    torch.manual_seed(0)
    network = Graphormer(GraphormerConfig(**CONFIG, outputs=0, head=head)).eval()
    model = PropertyModel(network, "zinc", Task((), "loss"), "pretraining")
    model.save_pretrained(tmp_path)
    again = PropertyModel.from_pretrained(tmp_path)
    assert (again.task, again.objective) == (model.task, "pretraining")
    here, there = model.network.state_dict(), again.network.state_dict()
    assert here.keys() == there.keys()
    assert all(torch.equal(here[name], there[name]) for name in here)
    assert _outputs(again).shape == (len(SMILES), 0)
    predictor, refusal = Predictor(again), "pre-trained without targets, so it predicts nothing"
    with pytest.raises(ConfigError, match=refusal):
        predictor.predict(SMILES)
    with pytest.raises(ConfigError, match=refusal):
        predictor.predict_graphs([featurize.get("zinc")("CCO")])
    out = io.StringIO()
    with pytest.raises(ConfigError, match="fine-tune it on your table .*--from.* or use its embed"):
        predict_rows(predictor, [{"smiles": SMILES}], out, smiles_column="smiles", source="rows")
    assert out.getvalue() == ""


def test_reading_does_not_change_the_random_state(tmp_path):
    """Creating the network draws initial weights, which must not advance the generator."""
    _model().save_pretrained(tmp_path / "model")
    torch.manual_seed(3)
    before = torch.get_rng_state()
    PropertyModel.from_pretrained(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(
        ModelError, match="there is no folder .*none: give a run's folder or its mo"
    ):
        PropertyModel.from_pretrained(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelError, match="there is no folder .*file"):
        PropertyModel.from_pretrained(tmp_path / "file")
    with pytest.raises(StorageError, match="cannot read x+: File name too long"):
        PropertyModel.from_pretrained("x" * 5000)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["config.json"], "not a complete model folder: config.json missing"),
        (["model.safetensors"], "not a complete model folder: model.safetensors missing"),
        (
            ["config.json", "model.safetensors"],
            "config.json and model.safetensors missing. A model",
        ),
    ],
)
def test_an_incomplete_folder_is_refused(tmp_path, missing, message):
    _model().save_pretrained(tmp_path / "model")
    for name in missing:
        (tmp_path / "model" / name).unlink()
    with pytest.raises(ModelError, match=message):
        PropertyModel.from_pretrained(tmp_path / "model")


def test_a_run_without_a_model_is_refused(tmp_path):
    """The message says when a model is written."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("x")
    with pytest.raises(ModelError, match="writes one to RUN/model once its first epoch ends"):
        PropertyModel.from_pretrained(tmp_path / "run")


def _change(path, change) -> None:
    """Change the description and remove its digests."""
    about = json.loads(path.read_text())
    del about["sha256"]
    change(about)
    path.write_text(json.dumps(about))


def test_a_folder_of_a_newer_version_is_refused(tmp_path):
    _model().save_pretrained(tmp_path)
    _change(
        tmp_path / "config.json", lambda about: about.update(schema=SCHEMA + 1, molsepnorm="9.9")
    )
    with pytest.raises(
        ModelError,
        match=rf"config.json was written by molsepnorm 9.9 \(schema {SCHEMA + 1}\), and this is "
        r".*: upgrade molsepnorm to use this model",
    ):
        PropertyModel.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "3",
        "{}",
        '{"schema": "new"}',
        '{"schema": null}',
        "\0\0",
        "[" * 200_000,
    ],
)
def test_invalid_json_is_refused(tmp_path, text):
    _model().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match="config.json (is damaged|does not describe a model)"):
        PropertyModel.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.pop("task"),
        lambda about: about.pop("network"),
        lambda about: about.pop("featurizer"),
        lambda about: about.update(network=[]),
        lambda about: about.update(task=None),
        lambda about: about["task"].update(metric="accurracy"),
        lambda about: about["task"].update(targets=None),
        lambda about: about["task"]["targets"].append("x"),
        lambda about: about["network"].update(unheard_of=1),
        lambda about: about["network"].update(width="wide"),
        lambda about: about["network"].update(width=17),
        lambda about: about["network"].update(layers=1.5),
    ],
)
def test_an_incomplete_description_is_refused(tmp_path, change):
    _model().save_pretrained(tmp_path)
    _change(tmp_path / "config.json", change)
    with pytest.raises(ModelError, match="config.json does not describe a model"):
        PropertyModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("keep", [0, 7, 40, -10])
def test_truncated_weights_are_refused(tmp_path, keep):
    _model().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(
        ModelError, match="model.safetensors is damaged or belongs to another model"
    ):
        PropertyModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("other", [{"width": 32}, {"layers": 2}, {"max_path_length": 2}])
def test_weights_of_another_architecture_are_refused(tmp_path, other):
    """The message is one line, not torch's list of every tensor."""
    _model().save_pretrained(tmp_path / "one")
    _model(**other).save_pretrained(tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").replace(tmp_path / "one" / "model.safetensors")
    with pytest.raises(ModelError, match="belongs to another model") as caught:
        PropertyModel.from_pretrained(tmp_path / "one")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "outputs"),
    [
        (lambda targets: targets.pop(), 1),
        (lambda targets: targets[0].update(kind="multiclass", classes=["a", "b"]), 3),
        (lambda targets: targets[0].update(kind="multiclass", classes=[]), 1),
    ],
)
def test_a_task_that_does_not_fit_the_network_is_refused(tmp_path, change, outputs):
    """The network has two outputs, and the targets need fewer or more."""
    _model().save_pretrained(tmp_path)
    _change(tmp_path / "config.json", lambda about: change(about["task"]["targets"]))
    with pytest.raises(
        ModelError, match=f"does not describe a model: targets of {outputs} outputs and 2 outputs"
    ):
        PropertyModel.from_pretrained(tmp_path)


def test_saving_again_replaces_the_old_model(tmp_path):
    """Files that only the old model had are removed."""
    _model(0).save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "conversion.json").write_text("{}")
    new = _model(1)
    new.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model" / "conversion.json").exists()
    again = PropertyModel.from_pretrained(tmp_path / "model")
    assert torch.equal(again.network.head.weight, new.network.head.weight)


@pytest.mark.parametrize("other", ["thesis.txt", "config.json"])
def test_a_folder_of_other_files_is_never_replaced(tmp_path, tree, monkeypatch, other):
    """This includes the working directory and models of other libraries."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / other).write_text('{"model_type": "graphormer"}')
    before = tree(tmp_path)
    monkeypatch.chdir(tmp_path / "mine")
    for folder in (tmp_path / "mine", tmp_path, ".", "..", "/"):
        with pytest.raises(StorageError, match=r"cannot write .*: it holds .*: choose another"):
            _model().save_pretrained(folder)
    assert tree(tmp_path) == before


def test_an_empty_or_damaged_model_folder_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path / "model")
    _model().save_pretrained(".")
    (tmp_path / "model" / "config.json").write_text("{")
    _model().save_pretrained(tmp_path / "model")
    PropertyModel.from_pretrained(tmp_path / "model")


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", [1, 2])
def test_the_old_model_survives_a_save_that_fails(tmp_path, tree, monkeypatch, failure, call):
    """Any of the renamings that replace the folder may fail."""
    _model(0).save_pretrained(tmp_path / "model")
    before = tree(tmp_path)
    rename, calls = os.replace, []

    def fail(source, target):
        calls.append(target)
        if len(calls) == call:
            raise failure
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        try:
            _model(1).save_pretrained(tmp_path / "model")
        except (StorageError, KeyboardInterrupt):
            assert tree(tmp_path) == before
        else:
            assert len(calls) < call


def test_a_full_disk_is_reported_and_the_old_model_stays(small_disk, tree):
    """A real full disk, for which safetensors has an error of its own."""
    _model(0).save_pretrained(small_disk / "model")
    before = tree(small_disk)
    with pytest.raises(StorageError, match="cannot write .*model: the disk is full: free some"):
        _model(1, width=64, ffn_width=64, layers=3).save_pretrained(small_disk / "model")
    assert tree(small_disk) == before


def test_a_folder_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot write .*file/model"):
        _model().save_pretrained(tmp_path / "file" / "model")


@pytest.mark.parametrize("part", ["config.json", "length", "header", "data"])
def test_a_changed_byte_is_noticed_wherever_it_is(tmp_path, part):
    """100 flipped bits in each part of each file change no prediction. Either the model is refused
    with a message that names the file, or it is the same."""
    model = _model()
    model.save_pretrained(tmp_path)
    path = tmp_path / (part if part == "config.json" else "model.safetensors")
    content, outputs = path.read_bytes(), _outputs(model)
    header = 8 + int.from_bytes(content[:8], "little")
    parts = {"length": (0, 8), "header": (8, header), "data": (header, len(content))}
    rng, noticed = np.random.default_rng(0), 0
    for position in rng.integers(*parts.get(part, (0, len(content))), 100).tolist():
        changed = bytearray(content)
        changed[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            again = PropertyModel.from_pretrained(tmp_path)
        except ModelError as error:
            noticed += 1
            assert str(path) in str(error)
        else:
            assert part == "config.json"  # white space, or the name of the digests' entry
            assert torch.equal(_outputs(again), outputs)
    assert noticed == 100 if part != "config.json" else noticed > 80


def _zeros(weights):
    return {name: torch.zeros_like(tensor) for name, tensor in weights.items()}


def _swapped(weights):
    names = [name for name, tensor in weights.items() if tensor.shape == (16, 16)][:2]
    return {**weights, names[0]: weights[names[1]], names[1]: weights[names[0]]}


def _another_seed(weights):
    return {name: t.contiguous() for name, t in _model(1).network.state_dict().items()}


@pytest.mark.parametrize("other", [_zeros, _swapped, _another_seed])
def test_other_weights_of_the_same_shapes_are_refused(tmp_path, other):
    from safetensors.torch import load_file, save_file

    _model().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file(other(load_file(path)), path)
    with pytest.raises(
        ModelError,
        match=r"model.safetensors is damaged or belongs to another model \(it does not match",
    ):
        PropertyModel.from_pretrained(tmp_path)


def test_the_description_of_another_model_is_refused(tmp_path):
    """Both files are intact, but they belong to different models."""
    _model(0).save_pretrained(tmp_path / "one")
    _model(1).save_pretrained(tmp_path / "other")
    (tmp_path / "other" / "config.json").replace(tmp_path / "one" / "config.json")
    with pytest.raises(ModelError, match="model.safetensors is damaged or belongs to another mod"):
        PropertyModel.from_pretrained(tmp_path / "one")


def test_a_changed_description_is_read_only_without_its_digest(tmp_path):
    """The message says how to change it on purpose. Formatting does not count as a change."""
    _model().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about, indent=7, sort_keys=True))
    PropertyModel.from_pretrained(tmp_path)
    about["task"]["targets"][0]["name"] = "log S"
    path.write_text(json.dumps(about))
    with pytest.raises(ModelError, match="was changed: .* you meant .* remove its entry 'sha256'"):
        PropertyModel.from_pretrained(tmp_path)
    del about["sha256"]
    path.write_text(json.dumps(about))
    assert PropertyModel.from_pretrained(tmp_path).task.names == ("log S", "toxic")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("tensor", ["head.weight", "layers.0.attention_norm.tok_norm.weight"])
def test_weights_that_are_not_finite_are_refused(tmp_path, value, tensor):
    """They are neither saved nor, from a file of an earlier version, loaded."""
    model = _model()
    model.save_pretrained(tmp_path)
    state = model.network.state_dict()
    tensor = tensor if tensor in state else next(name for name in state if "norm" in name)
    state[tensor].view(-1)[0] = value
    path, before = tmp_path / "model.safetensors", (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(ModelError, match=f"cannot be saved in .*{tensor} has a number that is not"):
        model.save_pretrained(tmp_path)
    assert path.read_bytes() == before
    path.write_bytes(save({name: each.contiguous() for name, each in state.items()}))
    about = json.loads((tmp_path / "config.json").read_text())
    del about["sha256"]
    (tmp_path / "config.json").write_text(json.dumps(about))
    with pytest.raises(
        ModelError, match=rf"model.safetensors .*\({tensor} has a number that is not finite\)"
    ):
        PropertyModel.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"scale": float("nan")},
            "'logS' needs a finite mean and a finite scale above 0; got .*nan",
        ),
        ({"scale": 0}, "'logS' needs a finite mean and a finite scale above 0; got .*scale=0"),
        ({"scale": -1.0}, "'logS' needs .*scale=-1"),
        ({"mean": float("inf")}, "'logS' needs .*mean=inf"),
        ({"mean": "1"}, r"task\.targets\.0\.mean: .*valid number; got '1'"),
        ({"name": []}, r"task\.targets\.0\.name: .*valid string; got \[\]"),
        ({"class_weights": [1.0]}, "'logS' has 2 classes; got 1 class_weights"),
        ({"class_weights": [1.0, -1.0]}, "'logS' needs finite class_weights of 0 or more"),
    ],
)
def test_an_invalid_target_is_refused(tmp_path, entry, message):
    """The message names the file and the entry."""
    _model().save_pretrained(tmp_path)
    _change(tmp_path / "config.json", lambda about: about["task"]["targets"][0].update(entry))
    with pytest.raises(ModelError, match=f"config.json does not describe a model: .*{message}"):
        PropertyModel.from_pretrained(tmp_path)


def _forge(about) -> None:
    """Enter the matching digest, as if a faulty program had written the file."""
    del about["sha256"]["config.json"]
    about["sha256"]["config.json"] = json_digest(about)


@pytest.mark.parametrize("forged", [True, False])
@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        (("network", "layers"), 10**9, "model.layers must be at most 256; got 1000000000"),
        (("network", "layers"), 200, "network.layers and network.width need more weights than"),
        (("network", "width"), 10**4, "network.width is 10000, more than all weights in model.s"),
        (("network", "max_degree"), 10**12, "model.max_degree must be at most 255"),
        (("network", "atom_sizes"), [10**9], "molecule_features are not those of .zinc"),
        (("network", "heads"), {}, "network.heads: .*valid integer; got {}"),
        (("network", "heads"), None, "network.heads: .*valid integer; got None"),
        (("network", "dropout"), "0.1", "network.dropout: .*valid number; got '0.1'"),
        (("task", "targets", 0, "mean"), None, r"task.targets.0.mean: .*valid number; got None"),
        (("task", "targets", 0, "scale"), {}, r"task.targets.0.scale: .*valid number; got {}"),
        (("task", "targets", 0, "name"), 3, r"task.targets.0.name: .*valid string; got 3"),
        (("task", "targets", 0, "classes"), [float("nan")], r"targets.0.classes.0: .*valid string"),
        (("task", "targets"), {}, "task.targets: .*valid"),
        (("featurizer",), {}, "featurizer: .*valid string; got {}"),
    ],
)
def test_an_invalid_entry_is_named(tmp_path, entry, value, message, forged):
    """The digest does not matter, and no memory is allocated for invalid sizes."""
    _model().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    about = json.loads(path.read_text())
    functools.reduce(lambda part, key: part[key], entry[:-1], about)[entry[-1]] = value
    if forged:
        _forge(about)
    else:
        del about["sha256"]
    path.write_text(json.dumps(about))
    with pytest.raises(ModelError, match=f"config.json does not describe a model: .*{message}"):
        PropertyModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("depth", [*range(900, 1000, 3), 100_000])
def test_brackets_of_any_depth_are_refused(tmp_path, depth):
    _model().save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text()
    nested = "[" * depth + "]" * depth
    (tmp_path / "config.json").write_text(
        text.replace('"schema": 1', f'"schema": 1, "a": {nested}')
    )
    with pytest.raises(ModelError, match="config.json is damaged"):
        PropertyModel.from_pretrained(tmp_path)


def test_features_of_another_featuriser_are_refused(tmp_path):
    _model().save_pretrained(tmp_path)
    _change(tmp_path / "config.json", lambda about: about.update(featurizer="ogb"))
    with pytest.raises(ModelError, match="molecule_features are not those of 'ogb'"):
        PropertyModel.from_pretrained(tmp_path)


STRANGE = [
    *(None, True, 0, -1, 3, 10**9, 10**30, 10**400, 0.5, -0.5, 1e300, float("nan"), float("inf")),
    *(
        "",
        "1",
        "sep",
        "\ud800",
        "\0",
        "x" * 100_000,
        [],
        [1],
        ["a"],
        [[]],
        [None] * 5,
        {},
        {"a": 1},
    ),
]


def _entries(content, where=()):
    """Yield the path of every entry of JSON content."""
    parts = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in parts:
        yield (*where, key)
        if isinstance(value, dict | list):
            yield from _entries(value, (*where, key))


@pytest.mark.parametrize("digests", ["old", "forged", "none"])
def test_any_value_of_any_entry_is_read_or_refused(tmp_path, digests):
    """The model is the same, or it is refused with a message that names the file. Without digests,
    as in folders of the first versions, or with those of a faulty program, it may also be another
    model that works."""
    model = _model()
    model.save_pretrained(tmp_path)
    path, outputs = tmp_path / "config.json", _outputs(model)
    about = json.loads(path.read_text())
    if digests == "none":
        del about["sha256"]
    tried = 0
    for number, entry in enumerate(_entries(about)):
        rng = np.random.default_rng(number)
        for choice in rng.choice(len(STRANGE), 5, replace=False):
            changed = copy.deepcopy(about)
            parent = functools.reduce(lambda part, key: part[key], entry[:-1], changed)
            parent[entry[-1]] = STRANGE[choice]
            if digests == "forged" and entry[0] != "sha256":
                _forge(changed)
            path.write_text(json.dumps(changed))
            tried += 1
            try:
                again = PropertyModel.from_pretrained(tmp_path)
            except MolsepnormError as error:
                assert str(tmp_path) in str(error)
                assert len(str(error)) < 1000
            else:
                found = again.task.predictions(_outputs(again))
                assert digests != "old" or torch.equal(_outputs(again), outputs)
                assert found.shape == outputs.shape
    assert tried > 250

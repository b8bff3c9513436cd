"""Importing other Graphormers: the map, the report, the command, and every refusal."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from torch import Tensor

from molsepnorm.cli import main
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError, ModelError, StorageError
from molsepnorm.interop.graphormer_weights import convert
from molsepnorm.interop.graphormer_weights import run as convert_module
from molsepnorm.interop.graphormer_weights.parity import MOLECULES, reference_inputs, v1_outputs
from molsepnorm.interop.graphormer_weights.weights import import_weights
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode
from molsepnorm.nn import Graphormer
from molsepnorm.predict import Predictor

WIDTH, HEADS, FFN, LAYERS, LENGTH = 16, 4, 24, 2, 5
State = dict[str, Tensor]


def v1_state(featurizer: str = "zinc", outputs: int = 1) -> State:
    """As the first release would write it, every value random, padding rows too."""
    atoms, bonds, distances, positions, degrees = {
        "zinc": (64, 64, 40, 40, 64),
        "ogb": (512 * 9 + 1, 512 * 3 + 1, 512, 128, 512),
    }[featurizer]
    shapes: dict[str, tuple[int, ...]] = {
        "atom_encoder.weight": (atoms, WIDTH),
        "edge_encoder.weight": (bonds, HEADS),
        "edge_dis_encoder.weight": (positions * HEADS**2, 1),
        "spatial_pos_encoder.weight": (distances, HEADS),
        "in_degree_encoder.weight": (degrees, WIDTH),
        "out_degree_encoder.weight": (degrees, WIDTH),
        "graph_token.weight": (1, WIDTH),
        "graph_token_virtual_distance.weight": (1, HEADS),
    }
    modules: dict[str, tuple[int, ...]] = {
        "final_ln": (WIDTH,),
        "downstream_out_proj": (outputs, WIDTH),
    }
    for layer in range(LAYERS):
        at = f"layers.{layer}"
        modules |= {f"{at}.{name}": (WIDTH,) for name in ("self_attention_norm", "ffn_norm")}
        names = ("linear_q", "linear_k", "linear_v", "output_layer")
        modules |= {f"{at}.self_attention.{name}": (WIDTH, WIDTH) for name in names}
        modules |= {f"{at}.ffn.layer1": (FFN, WIDTH), f"{at}.ffn.layer2": (WIDTH, FFN)}
    for name, shape in modules.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    generator = torch.Generator().manual_seed(0)
    state = {name: 0.3 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    for name, value in state.items():
        if name.endswith(("norm.weight", "ln.weight")):
            value += 1
    return state


def hf_state() -> State:
    """As transformers would write it."""
    v1 = v1_state()
    tables = {
        **dict.fromkeys(("atom", "in_degree", "out_degree", "graph_token."), "graph_node_feature"),
        **dict.fromkeys(("edge", "spatial_pos", "graph_token_virtual"), "graph_attn_bias"),
    }
    renamed = {}
    for name, value in v1.items():
        for old, new in (
            ("self_attention.linear_q", "self_attn.q_proj"),
            ("self_attention.linear_k", "self_attn.k_proj"),
            ("self_attention.linear_v", "self_attn.v_proj"),
            ("self_attention.output_layer", "self_attn.out_proj"),
            ("self_attention_norm", "self_attn_layer_norm"),
            ("ffn_norm", "final_layer_norm"),
            ("ffn.layer", "fc"),
            ("final_ln", "final_layer_norm"),
        ):
            name = name.replace(old, new)
        home = next((f"{home}." for start, home in tables.items() if name.startswith(start)), "")
        renamed[f"encoder.graph_encoder.{home}{name}"] = value
    weight = renamed.pop("encoder.graph_encoder.downstream_out_proj.weight")
    renamed.pop("encoder.graph_encoder.downstream_out_proj.bias")
    head = {
        "encoder.lm_head_transform_weight.weight": torch.ones(WIDTH, WIDTH),
        "encoder.lm_head_transform_weight.bias": torch.ones(WIDTH),
        "encoder.layer_norm.weight": torch.ones(WIDTH),
        "encoder.layer_norm.bias": torch.ones(WIDTH),
        "classifier.lm_output_learned_bias": torch.ones(1),
        "classifier.classifier.weight": weight,
    }
    return {**renamed, **head}


def load(source: str, state: State, **options: Any) -> Any:
    defaults = {"settings": {}, "featurizer": "zinc", "max_path_length": LENGTH}
    return import_weights(source, state, **{**defaults, **options})


# --- the map --------------------------------------------------------------------------------------


@pytest.mark.claim(
    "molsepnorm convert imports weights of transformers and of Graphormer v1, and refuses a "
    "result that differs."
)
@pytest.mark.parametrize("featurizer", ["zinc", "ogb"])
@pytest.mark.parametrize("length", [1, LENGTH, 20, 0])
def test_v1_outputs_are_ours(featurizer: str, length: int) -> None:
    """To 1e-5, in one padded batch, with random padding rows; all of the network is imported."""
    state = v1_state(featurizer, outputs=3)
    found = load("graphormer-v1", state, featurizer=featurizer, max_path_length=length)
    network = Graphormer(found.config).eval()
    assert set(found.state) | {"pair_encoding.bias.unreachable"} == set(network.state_dict())
    network.load_state_dict(found.state, strict=False)
    assert set().union(*found.mapped.values()) == set(state)
    assert found.unused == {}
    molecules = MOLECULES[featurizer][: None if featurizer == "ogb" else -1]  # ZINC's has no salts
    graphs = [featurize.get(featurizer)(smiles) for smiles in molecules]
    assert found.max_path_length == (length or {"zinc": 40, "ogb": 128}[featurizer])
    batch = GraphTensors.of(encode(graphs, encoding_of(found.config))).cut(range(len(graphs)), 2)
    inputs = reference_inputs(graphs, "graphormer-v1", featurizer, found.max_path_length)
    with torch.no_grad():
        torch.testing.assert_close(network(batch), v1_outputs(state, inputs), rtol=1e-5, atol=1e-5)


def test_v1_outputs_depend_on_the_longest_path_of_a_batch() -> None:
    """While its padding row is random; the import says so. A row of zeros has no influence."""
    state = v1_state()
    graphs = [featurize.get("zinc")(smiles) for smiles in ("CCO", "C1CC1N")]
    for random in (True, False):
        if not random:
            state["edge_encoder.weight"][0] = 0
        short, long = (
            v1_outputs(state, reference_inputs(graphs, "graphormer-v1", "zinc", length))
            for length in (3, LENGTH)
        )
        assert torch.allclose(short, long, rtol=0, atol=1e-6) == (not random)
        assert load("graphormer-v1", state).padding == random


def test_rows_are_shifted_as_the_table_says() -> None:
    """Each row holds its own number, so that what came from where can be read off."""
    number = lambda table: torch.arange(len(table)).float()[:, None].expand_as(table)  # noqa: E731
    state = {
        name: number(value) if "encoder.weight" in name and "dis" not in name else value
        for name, value in v1_state("ogb").items()
    }
    state["edge_encoder.weight"] = number(state["edge_encoder.weight"])
    ogb = load("graphormer-v1", state, featurizer="ogb").state
    atoms = ogb["embedding.atoms"][:, 0].tolist()
    assert atoms[:3] == [2, 3, 4]
    assert atoms[119:121] == [512 + 2, 512 + 3]
    assert [ogb[f"pair_encoding.bias.bonds.{f}"][0, 0].item() for f in range(3)] == [
        3,
        512 + 3,
        1024 + 3,
    ]
    assert ogb["embedding.degrees"][:3, 0].tolist() == [2, 4, 6]  # in and out, rows 1, 2, 3
    assert ogb["pair_encoding.bias.spatial"][:3, 0].tolist() == [1, 2, 3]
    assert len(ogb["pair_encoding.bias.spatial"]) == len(ogb["embedding.degrees"]) == 256
    assert ogb["pair_encoding.bias.unreachable"][0] == 511
    zinc = load("graphormer-v1", state).state
    assert zinc["embedding.atoms"][:, 0].tolist() == list(range(2, 30))
    assert zinc["pair_encoding.bias.bonds.0"][:, 0].tolist() == [
        4,
        5,
        6,
    ]  # ZINC's bonds are 1, 2, 3 there
    shifted = load("graphormer-v1", state, atom_shift=3).state
    assert shifted["embedding.atoms"][0, 0] == 3


def test_names_may_have_a_prefix_and_their_later_form() -> None:
    """A wrapper's prefix, spatial_pos_encoder and out_proj are understood; transformers' too."""
    names = {"spatial_pos_encoder": "rel_pos_encoder", "downstream_out_proj": "out_proj"}
    plain, renamed = v1_state(), {}
    for name, value in plain.items():
        module, _, kind = name.rpartition(".")
        renamed[f"model.{names.get(module, module)}.{kind}"] = value
    found = load("graphormer-v1", renamed)
    assert found.mapped["head.weight"] == ("model.out_proj.weight",)
    expected = load("graphormer-v1", plain).state
    torch.testing.assert_close(found.state, expected, rtol=0, atol=0)

    whole = hf_state()
    encoder = {n.removeprefix("encoder."): v for n, v in whole.items() if ".graph_encoder." in n}
    one, other = load("hf", whole), load("hf", encoder)
    torch.testing.assert_close(one.state, other.state, rtol=0, atol=0)
    assert len(one.unused) == 8
    assert set(one.unused) | set().union(*one.mapped.values()) == set(whole)


# --- refusals -------------------------------------------------------------------------------------

Change = Callable[[State], object]
REFUSED: dict[str, tuple[str, Change, dict[str, Any], str]] = {
    "missing": (
        "graphormer-v1",
        lambda s: s.pop("layers.1.ffn.layer2.bias"),
        {},
        r"not the tensors of a graphormer-v1 network; missing: layers\.1\.ffn\.layer2\.bias$",
    ),
    "left over": (
        "graphormer-v1",
        lambda s: s.update({"rbf.centers": torch.ones(3)}),
        {},
        r"left over: rbf\.centers$",
    ),
    "many missing": ("hf", lambda s: s.clear(), {}, r"missing: graph_node.*, .* and 16 more$"),
    "two read-outs": (
        "graphormer-v1",
        lambda s: s.update({"out_proj.bias": torch.ones(1)}),
        {},
        r"left over: out_proj\.bias$",
    ),
    "a table": (
        "graphormer-v1",
        lambda s: s.update({"edge_encoder.weight": torch.ones(64, 3)}),
        {},
        r"edge_encoder\.weight is \(64, 3\), expected at least 1 rows of 4",
    ),
    "a layer": (
        "graphormer-v1",
        lambda s: s.update({"layers.1.ffn.layer2.weight": torch.ones(WIDTH, 7)}),
        {},
        r"layers\.1\.ffn\.layer2\.weight as \(16, 7\), expected \(16, 24\)",
    ),
    "queries": (
        "graphormer-v1",
        lambda s: s.update({"layers.0.self_attention.linear_q.weight": torch.ones(8, 16)}),
        {},
        r"these differ in shape: layers\.0\.self_attention\.linear_q\.weight, layers",
    ),
    "matrices": (
        "graphormer-v1",
        lambda s: s.update({"edge_dis_encoder.weight": torch.ones(50, 1)}),
        {},
        r"edge_dis_encoder\.weight has 50 rows, no multiple of 4²",
    ),
    "heads": (
        "graphormer-v1",
        lambda s: s.update({"graph_token_virtual_distance.weight": torch.ones(1, 5)}),
        {},
        "5 heads do not divide a width of 16",
    ),
    "empty": (
        "graphormer-v1",
        lambda s: s.update({"final_ln.bias": torch.tensor(1.0)}),
        {},
        r"final_ln\.bias is empty",
    ),
    "not finite": (
        "graphormer-v1",
        lambda s: s["final_ln.weight"].fill_(float("nan")),
        {},
        r"damaged; not finite: final_ln\.weight$",
    ),
    "small table": (
        "graphormer-v1",
        lambda s: s,
        {"featurizer": "ogb"},
        r"atom_encoder\.weight has 64 rows, and the features need 4100: choose",
    ),
    "post-norm": (
        "hf",
        lambda s: [s.pop(n) for n in list(s) if "graph_encoder.final_layer_norm" in n],
        {},
        r"another architecture: it normalises after each residual \(pre_layernorm is false\)",
    ),
    "post-norm by its settings": (
        "hf",
        lambda s: s,
        {"settings": {"pre_layernorm": False}},
        "normalises after each residual",
    ),
    "input norm": (
        "hf",
        lambda s: s.update({"encoder.graph_encoder.emb_layer_norm.weight": torch.ones(16)}),
        {},
        "it normalises its input",
    ),
    "activation": (
        "hf",
        lambda s: s,
        {"settings": {"activation_fn": "relu"}},
        "its activation is relu, this network's gelu",
    ),
    "scale": ("hf", lambda s: s, {"settings": {"embed_scale": 2.0}}, "scales its embeddings"),
    "edge type": (
        "hf",
        lambda s: s.pop("encoder.graph_encoder.graph_attn_bias.edge_dis_encoder.weight"),
        {},
        "bonds of neighbours alone",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case: str) -> None:
    """Another architecture, and tensors that are missing, left over, misshapen or not finite."""
    source, change, options, message = REFUSED[case]
    state = v1_state() if source == "graphormer-v1" else hf_state()
    change(state)
    with pytest.raises(ModelError, match=message):
        load(source, state, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "graphormer"}, r"unknown format 'graphormer'\. Did you mean 'graphormer-v1'"),
        ({"featurizer": "zink"}, r"unknown featuriser 'zink'\. Did you mean 'zinc'"),
        ({"featurizer": "rich"}, r"unknown featuriser 'rich'"),
        ({"max_path_length": 41}, r"max_path_length is 41, .* first 40 bonds .*: give 40 or less"),
    ],
)
def test_options_that_do_not_match_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(**{"source": "graphormer-v1", "state": v1_state(), **options})


# --- files, the report, the command ---------------------------------------------------------------


def lightning(folder: Path, state: State, **settings: Any) -> Path:
    torch.save({"state_dict": state, "epoch": 3, "hyper_parameters": settings}, folder / "v1.ckpt")
    return folder / "v1.ckpt"


def test_a_converted_model_predicts(tmp_path: Path) -> None:
    """From a Lightning checkpoint: settings are read, the report is full, the folder works."""
    settings = {"multi_hop_max_dist": LENGTH, "dropout_rate": 0.2, "attention_dropout_rate": 0.3}
    checkpoint = lightning(tmp_path, v1_state(outputs=2), **settings)
    model, report = convert("graphormer-v1", checkpoint, targets=["a", "b"])
    config = model.network.config
    assert (config.dropout, config.attention_dropout) == (0.2, 0.3)
    assert (config.norm, config.max_path_length, config.max_distance) == ("shared", LENGTH, 38)
    assert model.task.names == ("a", "b")
    assert report.parity.difference < 1e-5 < report.parity.largest
    assert len(report.parity.molecules) == len(MOLECULES["zinc"]) - 1  # not the salt
    assert set(report.fresh) == {"pair_encoding.bias.unreachable"}
    assert report.parameters["fresh"] == HEADS
    assert report.rows["atom_encoder.weight"] == (28, 64)
    assert "path padding has an influence" in report.notes[0]
    again, _ = convert("graphormer-v1", checkpoint)
    assert again.task.names == ("y1", "y2")
    assert torch.equal(
        again.network.pair_encoding.bias.unreachable, model.network.pair_encoding.bias.unreachable
    )

    model.save_pretrained(tmp_path / "model")
    predicted = Predictor(PropertyModel.from_pretrained(tmp_path / "model")).predict(["CCO"])[0]
    inputs = reference_inputs([featurize.get("zinc")("CCO")], "graphormer-v1", "zinc", LENGTH)
    expected = v1_outputs(v1_state(outputs=2), inputs)
    assert list(predicted.values.values()) == pytest.approx(expected[0].tolist(), abs=1e-5)


def test_the_featuriser_is_chosen_by_the_atom_table(tmp_path: Path) -> None:
    checkpoint = lightning(tmp_path, v1_state("ogb"), multi_hop_max_dist=LENGTH)
    model, report = convert("graphormer-v1", checkpoint, kind="binary")
    assert model.featurizer == report.featurizer == "ogb"
    assert model.task.metric == "roc_auc"
    assert report.fresh == {}
    assert MOLECULES["ogb"] == report.parity.molecules


def test_a_folder_of_transformers_is_imported(tmp_path: Path) -> None:
    """With the settings and defaults of config.json; without the head, so there are no targets."""
    save_file(hf_state(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "graphormer", "dropout": 0.25}))
    with pytest.raises(ConfigError, match="no output head that could be imported"):
        convert("hf", tmp_path, targets=["y"])
    model, report = convert("hf", tmp_path)
    assert report.parity.difference < 1e-5 < report.parity.largest
    with pytest.raises(ConfigError, match="so it predicts nothing: fine-tune it"):
        model.require_targets()
    model.save_pretrained(tmp_path / "model")
    assert PropertyModel.from_pretrained(tmp_path / "model").task.targets == ()
    assert model.network.config.max_path_length == 5
    assert model.network.config.dropout == 0.25
    assert set(report.fresh) == {
        *("pair_encoding.bias.unreachable", "head.weight", "head.bias"),
        *("last_norm.norm.weight", "last_norm.norm.bias"),
    }
    assert len(report.unused) == 8


def test_the_default_size_of_transformers_does_not_tell_the_features(tmp_path: Path) -> None:
    state = hf_state()
    (name,) = (name for name in state if "atom_encoder" in name)
    state[name] = torch.zeros(9 * 512 + 1, state[name].shape[1])
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match="default size of transformers, .*: give --featurizer"):
        convert("hf", tmp_path / "model.safetensors", max_path_length=7)


@pytest.mark.parametrize("shift", [None, 2])
def test_weights_of_transformers_are_compared_with_either_atom_shift(
    tmp_path: Path, shift: int | None
) -> None:
    save_file(hf_state(), tmp_path / "model.safetensors")
    _, report = convert("hf", tmp_path / "model.safetensors", max_path_length=7, atom_shift=shift)
    assert report.parity.difference < 1e-5 < report.parity.largest


def test_a_result_that_differs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as by a mistake in the map, or by numbers without meaning."""
    checkpoint = lightning(tmp_path, v1_state(), multi_hop_max_dist=LENGTH)
    for wrong in (1.0, float("nan")):
        monkeypatch.setattr(
            convert_module, "v1_outputs", lambda *args, by=wrong: v1_outputs(*args) + by
        )
        with pytest.raises(ModelError, match="differs from its own forward pass by"):
            convert("graphormer-v1", checkpoint)


def test_options_of_convert(tmp_path: Path) -> None:
    checkpoint = lightning(tmp_path, v1_state())
    with pytest.raises(ConfigError, match=r"how many bonds of a path .* --max-path-length"):
        convert("graphormer-v1", checkpoint)
    with pytest.raises(
        ConfigError, match="the network has 1 outputs, and 2 names were given: a, b"
    ):
        convert("graphormer-v1", checkpoint, max_path_length=3, targets=["a", "b"])


class Surprise:
    def __reduce__(self) -> tuple:
        return os.system, ("touch surprise",)


def test_unreadable_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each says what is wrong; nothing is unpickled but tensors and plain values."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=r"cannot read .*absent\.pt: there is no such file"):
        convert("graphormer-v1", "absent.pt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"empty holds neither model\.safetensors nor pytorch"):
        convert("hf", "empty")
    torch.save({"state_dict": v1_state(), "callbacks": Surprise()}, "code.ckpt")
    with pytest.raises(ModelError, match=r"more than tensors and plain values .* keep its tensors"):
        convert("graphormer-v1", "code.ckpt")
    assert not Path("surprise").exists()
    for name in ("text.pt", "text.safetensors"):
        Path(name).write_text("these are no tensors")
        with pytest.raises(ModelError, match=rf"{name} is damaged"):
            convert("graphormer-v1", name)
    Path("nothing.pt").touch()
    with pytest.raises(ModelError, match=r"nothing\.pt is damaged"):
        convert("graphormer-v1", "nothing.pt")
    for content in ([1, 2], {"state_dict": {"epoch": 3}}, {}):
        torch.save(content, "numbers.pt")
        with pytest.raises(ModelError, match="holds no tensors by name"):
            convert("graphormer-v1", "numbers.pt")
    save_file(hf_state(), "model.safetensors")
    Path("config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json is damaged"):
        convert("hf", "model.safetensors")
    Path("config.json").write_text('{"model_type": "bert"}')  # of something else
    with pytest.raises(ConfigError, match="--max-path-length"):
        convert("hf", "model.safetensors")


def test_the_command_refuses_repeated_targets(tmp_path: Path) -> None:
    """The predictions of both would be in one column."""
    checkpoint = lightning(tmp_path, v1_state(outputs=2))
    given = ("--max-path-length", str(LENGTH), "--target", "a,a", "-o", str(tmp_path / "made"))
    found = CliRunner().invoke(
        main, ["convert", "--from", "graphormer-v1", str(checkpoint), *given]
    )
    assert found.exit_code == 2
    assert "Error: 2 targets are called 'a'" in found.output
    assert "Traceback" not in found.output and not (tmp_path / "made").exists()


def test_the_command(tmp_path: Path) -> None:
    """It prints the report, keeps it, and writes a folder that predict takes."""
    checkpoint = lightning(tmp_path, v1_state())
    run = lambda *args: CliRunner().invoke(main, [str(arg) for arg in args])  # noqa: E731
    command = ("convert", "--from", "graphormer-v1", checkpoint, "--max-path-length", LENGTH)
    result = run(*command, "--target", "y", "-o", tmp_path / "made")
    assert result.exit_code == 0, result.output
    for part in (
        "parameters",
        "Fresh: pair_encoding.bias.unreachable",
        "Rows: atom_encoder",
        "Parity: outputs",
    ):
        assert part in result.output
    report = json.loads((tmp_path / "made" / "conversion.json").read_text())
    assert report["parity"]["difference"] < 1e-5
    assert report["mapped"]["layers.0.attention.qkv.bias"][0].endswith("linear_q.bias")
    assert run("predict", "--model", tmp_path / "made", "--smiles", "CCO").exit_code == 0

    failed = run(
        "convert", "--from", "v2", checkpoint, "--max-path-length", 5, "-o", tmp_path / "x"
    )
    assert failed.exit_code == 2
    assert "unknown format 'v2'" in failed.output
    assert not (tmp_path / "x").exists()
    assert run("convert", "--help").output.count("molsepnorm convert ") >= 2

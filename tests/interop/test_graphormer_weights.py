"""Weights of transformers' Graphormer are imported, or refused with a reason."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from hf_graphormer import reference_inputs, small_network
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.cli import main
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError, ModelError, MolsepnormError, StorageError
from molsepnorm.interop.graphormer_weights import convert, import_weights
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode

SMILES = ("C", "CCO", "N#CC(F)(Cl)C=CCCCCCCBr", "OC1CCCC1C1CC1P", "CC(=O)[O-].C[NH3+]")
MULTI_HOP = {"multi_hop_max_dist": 5}
ENCODER = "encoder.graph_encoder."
State = dict[str, Tensor]


@pytest.mark.claim("molsepnorm convert imports the encoder of transformers' Graphormer.")
@pytest.mark.parametrize("featurizer", ["zinc", "ogb"])
@pytest.mark.parametrize("length", [1, 5])
def test_a_saved_network_computes_the_same(tmp_path: Path, featurizer: str, length: int) -> None:
    """To 1e-5 in one padded batch, though the row that pads paths is random."""
    theirs = small_network(featurizer, multi_hop_max_dist=length, dropout=0.25)
    theirs.save_pretrained(tmp_path, safe_serialization=length == 1)
    model, found = convert(tmp_path, featurizer=featurizer)
    graphs = [featurize.get(featurizer)(smiles) for smiles in SMILES]
    inputs = reference_inputs(graphs, featurizer, length)
    batch = GraphTensors.of(encode(graphs, encoding_of(found.config))).cut(range(len(graphs)), 2)
    with torch.no_grad():
        expected = theirs.encoder.graph_encoder(**inputs, last_state_only=True)[1]
        ours = model.network.embed(batch)
    torch.testing.assert_close(ours, F.layer_norm(expected, (16,)), rtol=1e-5, atol=1e-5)
    assert found.config.dropout == 0.25
    assert len(found.unused) == 8  # the head, and the last norm of the encoder
    assert set(found.unused).union(*found.mapped.values()) == set(theirs.state_dict())
    assert set(found.fresh) == {
        *("head.weight", "head.bias", "last_norm.norm.weight", "last_norm.norm.bias"),
    }


def test_rows_are_shifted_as_in_transformers() -> None:
    """Each row holds its own number, which shows the origin of an imported row."""
    state = small_network("ogb").state_dict()
    for name, value in state.items():
        if name.endswith("encoder.weight") and "dis" not in name:
            state[name] = torch.arange(len(value)).float()[:, None].expand_as(value).clone()
    state[f"{ENCODER}graph_attn_bias.edge_encoder.weight"][0] = 0
    ogb = import_weights(state, MULTI_HOP, featurizer="ogb").state
    atoms = ogb["embedding.atoms"][:, 0].tolist()
    assert (atoms[:2], atoms[119:121]) == ([3, 4], [515, 516])
    bonds = [ogb[f"pair_encoding.bias.bonds.{feature}"][0, 0].item() for feature in range(3)]
    assert bonds == [3, 515, 1027]
    assert ogb["embedding.degrees"][:3, 0].tolist() == [2, 4, 6]  # in and out, rows 1, 2, 3
    assert ogb["pair_encoding.bias.spatial"][:3, 0].tolist() == [1, 2, 3]
    assert len(ogb["pair_encoding.bias.spatial"]) == 256
    assert ogb["pair_encoding.bias.unreachable"][0] == 511
    zinc = import_weights(state, MULTI_HOP, featurizer="zinc", atom_shift=2).state
    assert zinc["embedding.atoms"][:, 0].tolist() == list(range(2, 30))
    assert zinc["pair_encoding.bias.bonds.0"][:, 0].tolist() == [4, 5, 6]


TABLE = f"{ENCODER}graph_attn_bias.edge_encoder.weight"
LAYER = f"{ENCODER}layers.1.fc2.weight"
REFUSED: dict[str, tuple[Callable[[State], object], dict[str, Any], str]] = {
    "missing": (lambda s: s.pop(LAYER), {}, r"missing: layers\.1\.fc2\.weight; left over: none"),
    "left over": (lambda s: s.update({f"{ENCODER}rbf": torch.ones(3)}), {}, "left over: rbf"),
    "a table": (lambda s: s.update({TABLE: s[TABLE][:, :3]}), {}, r"edge_encoder.* \(7, 3\)"),
    "a layer": (lambda s: s.update({LAYER: torch.ones(16, 7)}), {}, r"expected \(16, 24\)"),
    "not finite": (lambda s: s[LAYER].fill_(float("nan")), {}, r"not finite: layers\.1\.fc2"),
    "post-norm": (lambda s: s, {"pre_layernorm": False}, "pre_layernorm is False"),
    "features": (lambda s: s, {"featurizer": "ogb"}, "atom_encoder.* need 4101"),
    "featurizer": (lambda s: s, {"featurizer": "zink"}, r"'zink'\. Did you mean 'zinc'"),
    "path": (lambda s: s, {"multi_hop_max_dist": 7}, "max_path_length is 7; .* 1 to 6:"),
    "no path": (lambda s: s, {"multi_hop_max_dist": None}, "give --max-path-length"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case: str) -> None:
    change, options, message = REFUSED[case]
    state = small_network("zinc").state_dict()
    change(state)
    settings = {**MULTI_HOP, **options}
    featurizer = settings.pop("featurizer", "zinc")
    with pytest.raises(MolsepnormError, match=message):
        import_weights(state, settings, featurizer=featurizer)


class Surprise:
    def __reduce__(self) -> tuple:
        return os.system, ("touch surprise",)


def test_unreadable_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No code in them is run."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=r"cannot read .*absent\.pt: there is no such file"):
        convert("absent.pt")
    with pytest.raises(ModelError, match=r"holds neither model\.safetensors nor pytorch"):
        convert(tmp_path)
    torch.save({"weight": torch.ones(3), "callbacks": Surprise()}, "code.bin")
    with pytest.raises(ModelError, match=r"code\.bin is damaged, or holds more than tensors"):
        convert("code.bin")
    assert not Path("surprise").exists()
    for name in ("text.pt", "text.safetensors"):
        Path(name).write_text("these are no tensors")
        with pytest.raises(ModelError, match=rf"{name} is damaged"):
            convert(name)
    for content in ([1, 2], {"epoch": 3}, {}):
        torch.save(content, "numbers.pt")
        with pytest.raises(ModelError, match="holds no tensors by name"):
            convert("numbers.pt")


def test_the_command(tmp_path: Path) -> None:
    """It writes a model without targets, and what became of each tensor."""
    small_network("zinc", num_edge_dis=20).save_pretrained(tmp_path / "theirs")
    run = lambda *args: CliRunner().invoke(main, [str(arg) for arg in args])  # noqa: E731
    made = tmp_path / "made"
    result = run("models", "import", tmp_path / "theirs", "--max-path-length", 12, "--output", made)
    assert result.exit_code == 0, result.output
    assert "last_norm.norm.weight" in result.output
    report = json.loads((made / "conversion.json").read_text())
    assert report["mapped"]["layers.0.attention.qkv.bias"][0].endswith(
        "layers.0.self_attn.q_proj.bias"
    )
    model = PropertyModel.from_pretrained(made)
    assert (model.task.targets, model.network.config.max_path_length) == ((), 12)
    with pytest.raises(ConfigError, match="so it predicts nothing: fine-tune it"):
        model.require_targets()
    failed = run(
        "models", "import", tmp_path / "theirs", "--max-path-length", 21, "--output", tmp_path / "x"
    )
    assert failed.exit_code == 2 and "theirs: max_path_length is 21" in failed.output
    assert not (tmp_path / "x").exists()

"""Dense networks against the network itself, and exports against the predictor."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from molsepnorm.data.batching import GraphTensors
from molsepnorm.errors import ModelError
from molsepnorm.interop import export
from molsepnorm.interop.export import (
    MOLECULES,
    DenseForest,
    DenseGraphormer,
    DenseModel,
    dense_inputs,
    encode_table,
    export_onnx,
    onnx_runner,
)
from molsepnorm.model import ExtraArrays, PropertyModel
from molsepnorm.model.parts import Forest, KernelPart, NetworkPart
from molsepnorm.model.parts.kernel import KernelRegression
from molsepnorm.molecules import featurize
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.predict import Predictor
from molsepnorm.predict.encode import Prepare
from molsepnorm.tasks import ExtraInputs, Target, Task
from molsepnorm.tasks.inputs import FeatureColumn

TOP = Path(__file__).parents[2]
SMILES = [
    *MOLECULES,
    "OCC1OC(O)C(O)C(O)C1O",
    "CCN(CC)CCNC(=O)c1ccc(N)cc1",
    "C" * 60,
    "[Na+].[Cl-].O",
]
TARGETS = (
    Target("logS", "regression", mean=-3.0, scale=2.0),
    Target("ic50_nM", "regression", mean=6.0, scale=1.5, transform="pic50:nM"),
    Target("toxic", "binary"),
    Target("phase", "multiclass", classes=("solid", "liquid", "gas")),
)

ZINC: dict[str, Any] = {
    "local": "gine",
    "node_walks": 6,
    "pair_walks": 5,
    "norm": "sep-rms-bn",
    "readout": "token+mean",
}
CONFIGS: dict[str, dict[str, Any]] = {
    "slim": {},
    "zinc": ZINC,
    "token-only": {**ZINC, "readout": "token"},
    "features": {"molecule_features": 5, "readout": "sum"},
    "shared-batch": {"norm": "shared-bn", "readout": "mean"},
    "short": {"max_path_length": 1, "max_distance": 3, "max_degree": 2},
}


def network_of(
    outputs: int = 2, seed: int = 0, featurizer: str = "ogb", **changes: Any
) -> Graphormer:
    """A small network with random weights, biases and statistics of norms."""
    sizes = featurize.SIZES[featurizer]
    settings = {"layers": 3, "width": 16, "ffn_width": 24, "heads": 4, "max_path_length": 5}
    config = GraphormerConfig(
        **{**settings, **changes},
        atom_sizes=sizes.atoms,
        bond_sizes=sizes.bonds,
        outputs=outputs,
    )
    network = Graphormer(config).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, value in network.state_dict().items():
        if value.is_floating_point():
            noise = torch.randn(value.shape, generator=generator)
            positive = name.endswith(("running_var", "scale", "sd"))
            value.copy_(noise.square() + 0.5 if positive else 0.3 * noise + value.clamp(-1, 1))
    return network


def model_of(*networks: Graphormer, task: Task | None = None, **changes: Any) -> PropertyModel:
    """A model with the networks' mean."""
    networks = networks or (network_of(task.outputs if task else 1),)
    task = task or Task(TARGETS[:1], "mae")
    total = len(networks) * (len(networks) + 1) / 2
    weights = tuple((number + 1) / total for number in range(len(networks)))
    return PropertyModel(tuple(map(NetworkPart, networks)), "ogb", task, weights=weights, **changes)


def encoded(network: Graphormer, smiles: list[str]) -> dict[str, Tensor]:
    """Inputs of a dense network; molecule-level features are random."""
    bare = Graphormer(replace(network.config, molecule_features=0))
    arrays = dense_inputs(model_of(bare), smiles).arrays
    inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
    if count := network.config.molecule_features:
        generator = torch.Generator().manual_seed(1)
        inputs["features"] = torch.randint(0, 7, (len(smiles), count), generator=generator).float()
        inputs["features"][0, 0] = torch.nan
    return inputs


def native(network: Graphormer, smiles: list[str], features: Tensor | None) -> Tensor:
    """The outputs of the network itself."""
    bare = Graphormer(replace(network.config, molecule_features=0))
    outputs = torch.empty(len(smiles), network.config.outputs, dtype=network.embedding.atoms.dtype)
    prepare = Prepare(model_of(bare), torch.device("cpu"))
    for rows, group, _ in prepare([(text,) for text in smiles]).groups:
        batch = GraphTensors.of(group).cut(list(range(len(rows))))
        its = None if features is None else features[torch.from_numpy(rows)]
        with torch.no_grad():
            outputs[torch.from_numpy(rows)] = network(replace(batch, features=its))
    return outputs


@pytest.mark.claim(
    "An exported model equals the network and the predictor, with any number of molecules and"
    " atoms; one that differs is not written."
)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_dense_network_equals_the_network(name: str) -> None:
    """In float32 and, up to a much smaller rounding, in float64."""
    network = network_of(**CONFIGS[name])
    inputs = encoded(network, SMILES)
    expected = native(network, SMILES, inputs.get("features"))
    assert expected.std(dim=0).min() > 0.01
    found = DenseGraphormer(network)(**inputs)
    assert (found - expected).abs().max() < 1e-3 * expected.std()

    network = network.double()
    expected = native(network, SMILES, inputs.get("features"))
    found = DenseGraphormer(network)(**inputs)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", ["slim", "zinc", "token-only"])
def test_padding_and_the_other_molecules_have_no_influence(name: str) -> None:
    """Also if padding holds valid numbers of other meanings, for batches of one and seven."""
    dense = DenseGraphormer(network_of(**CONFIGS[name])).double()
    smiles = ["C", "C" * 60, *SMILES[1:6]]
    inputs = encoded(dense.network, smiles)
    together = dense(**inputs)
    for row in range(7):
        size = int(inputs["mask"][row].sum())
        alone = {n: v[row : row + 1] for n, v in inputs.items()}
        alone |= {n: v[:, :size] for n, v in alone.items() if n != "features"}
        alone |= {n: v[:, :, :size] for n, v in alone.items() if n in ("distances", "paths")}
        torch.testing.assert_close(dense(**alone)[0], together[row], atol=1e-9, rtol=0)
    padding = ~inputs["mask"]
    both = padding[:, :, None] | padding[:, None]
    inputs["atoms"][padding] = 1
    inputs["degrees"][padding] = 3
    inputs["distances"][both] = 0
    inputs["paths"][both] = 2
    torch.testing.assert_close(dense(**inputs), together, atol=1e-9, rtol=0)


def test_inputs_are_those_of_rdkit() -> None:
    """Distances, degrees and neighbours of every molecule; -1 in padding and between fragments."""
    from rdkit import Chem

    model = model_of(network_of(1, **ZINC))
    found = dense_inputs(model, ["not a molecule", *SMILES])
    assert found.errors[0] is not None and "not a molecule" in found.errors[0]
    assert found.rows.tolist() == list(range(1, len(SMILES) + 1))
    arrays = found.arrays
    for row, smiles in enumerate(SMILES):
        size = int(arrays["mask"][row].sum())
        assert arrays["mask"][row, :size].all()
        distances = arrays["distances"][row]
        expected = Chem.GetDistanceMatrix(Chem.MolFromSmiles(smiles))
        expected = np.where(expected > 1e6, -1, np.minimum(expected, 39))
        # the featuriser may order the atoms in another way
        assert np.array_equal(
            *(np.sort(each.sum(axis=1)) for each in (distances[:size, :size], expected))
        )
        assert (distances[size:] == -1).all() and (distances[:, size:] == -1).all()
        for atom in range(size):
            bonded = np.flatnonzero(distances[atom] == 1)
            listed = arrays["neighbours"][row, atom]
            assert sorted(listed[listed >= 0]) == bonded.tolist()
            assert arrays["degrees"][row, atom] == len(bonded)
        labelled = (arrays["paths"][row] > 0).sum(axis=-1)
        assert np.array_equal(labelled, np.clip(distances, 0, 5))


SOLVENT_AND_PH = (FeatureColumn("solvent", ("dmso", "water")), FeatureColumn("ph"))


def mixed_model(count: int = 2) -> PropertyModel:
    """Targets of all kinds, a network that reads columns and one that does not, standardised."""
    task = Task(TARGETS, "loss")
    small = {**ZINC, "layers": 1, "node_walks": 2, "pair_walks": 2}
    networks = [
        network_of(6, 1, **small, molecule_features=3, columns=3),
        network_of(6, 2, **{**small, "node_walks": 1}),
    ]
    model = model_of(*networks[:count], task=task, standardize="parent")
    reader = NetworkPart(networks[0], ExtraInputs(SOLVENT_AND_PH))
    return model.with_parts((reader, *model.parts[1:]), model.weights)


COLUMNS = {"solvent": ["dmso", "water"] * 9, "ph": np.linspace(1, 12, 18).tolist()}


def expected_table(model: PropertyModel, columns: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """The columns of `Predictor.to_frame` that an export returns."""
    frame = Predictor(model).to_frame(SMILES[:17], columns)
    names = ["logS_pred", "ic50_nM_pred", "toxic_pred"]
    names += [f"phase_prob_{each}" for each in ("solid", "liquid", "gas")]
    return frame[names]


def kernel_part(reads: ExtraInputs, outputs: int = 6) -> KernelPart:
    """A kernel regression of random numbers, with nine centres."""
    network = network_of(0, 3, layers=2)
    regression = KernelRegression(network.layers_width, 9, outputs, reads)
    generator = torch.Generator().manual_seed(0)
    for name, values in regression.named_buffers():
        if values.dtype == torch.uint8:
            values.copy_(torch.randint(0, 7, values.shape, generator=generator))
        elif name.endswith("scale"):
            values.fill_(20)
        else:
            values.copy_(torch.rand(values.shape, generator=generator))
    return KernelPart(network, regression)


def blended_model(count: int = 2) -> PropertyModel:
    """The mixed model with a kernel regression and two forests, whose trees have different depths;
    one is a leaf."""
    model = mixed_model(count)
    reads = ExtraInputs(SOLVENT_AND_PH, 2048, ("MolWt", "TPSA", "MolLogP"))
    generator = np.random.default_rng(0)
    described = generator.normal([150, 60, 2], [90, 50, 2], (60, 3)).astype(np.float32)
    described[0, -1] = np.nan
    extra = ExtraArrays.none(60)._replace(
        counts=generator.integers(0, 3, (60, 2048)),
        descriptors=described,
        columns=generator.integers(0, 3, (60, 3)),
    )
    kinds = extra.counts[:, 2:4] % [2, 3]
    labels = np.stack([described[:, -1], described[:, 0] / 40, *kinds.T], axis=1)
    labels[0] = np.nan
    constant = labels * [1, 1, np.nan, 1]  # a target without labels is a leaf
    forests = [
        Forest.fit(
            reads, extra.read_by(reads).stacked(), each, model.task, seed=seed, trees=4 + seed
        )
        for seed, each in enumerate((labels, constant))
    ]
    kernel = kernel_part(replace(reads, pairs=2048))
    others = np.repeat([[0.1], [0.4], [0.3]], len(labels.T), axis=1)
    weights = np.vstack([0.2 * model.weights, others])
    weights[-2:, 0] = 0.7, 0.0  # other weights for the first target
    return model.with_parts((*model.parts, kernel, *forests), weights)


def test_every_part_is_in_a_dense_model() -> None:
    """Also where a molecule lacks a descriptor, and if the networks have a lower precision."""
    model = blended_model()
    columns = {name: values[:17] for name, values in COLUMNS.items()}
    expected = expected_table(model, columns).to_numpy()
    arrays = dense_inputs(model, SMILES[:17], columns).arrays
    assert arrays["features"].shape == (17, model.inputs.width)
    inputs = {name: torch.from_numpy(each) for name, each in arrays.items()}
    found = DenseModel(model)(**inputs)
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-4, atol=1e-6)
    extra = ExtraArrays(*np.split(arrays["features"], np.cumsum(model.inputs.widths)[:-1], axis=1))
    extra.descriptors[3, -1] = np.nan
    for forest in model.parts[-2:]:
        given = [torch.from_numpy(each) for each in extra.read_by(forest.reads)]
        values = forest.values(extra)
        assert values.std(axis=0)[:2].min() > 0.01
        dense = DenseForest(forest)
        alone = dense(model.task, None, torch.empty(17, 0), given)
        np.testing.assert_allclose(alone.numpy(), values, rtol=1e-5, atol=1e-6)
        assert torch.equal(dense.bfloat16()(model.task, None, torch.empty(17, 0), given), alone)
    kernel = model.with_parts([model.parts[2]], [1.0])
    values = expected_table(kernel, columns).to_numpy()
    assert values[:, 0].std() > 0.1
    found = DenseModel(kernel)(**inputs | {"features": inputs["features"]})
    np.testing.assert_allclose(found.numpy(), values, rtol=1e-3, atol=1e-6)


def test_an_output_that_is_not_finite_is_nan() -> None:
    """Also where a sigmoid would make it a probability of 1."""
    network = network_of(1)
    network.head.bias.data.fill_(torch.inf)
    model = model_of(network, task=Task(TARGETS[2:3], "roc_auc"))
    arrays = dense_inputs(model, ["CCO"]).arrays
    found = DenseModel(model)(**{name: torch.from_numpy(each) for name, each in arrays.items()})
    assert found.isnan().all()


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[PropertyModel, Path]:
    """A model with a network, a kernel regression and a forest, all kinds of targets and feature
    columns, and its folder."""
    pytest.importorskip("onnxruntime")
    model, folder = blended_model(1), tmp_path_factory.mktemp("export") / "model"
    shares = model.weights[:-1] / model.weights[:-1].sum(axis=0)
    model = model.with_parts(model.parts[:-1], shares)
    report = export_onnx(model, folder)
    assert report.difference < 1e-4 and report.molecules > 10
    return model, folder


@pytest.fixture
def unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports have an empty file, and are compared by the network that would be in it."""

    def write(dense: DenseModel, _: Any, file: Path) -> export.Run:
        file.touch()
        return lambda arrays: dense(**{n: torch.from_numpy(a) for n, a in arrays.items()}).numpy()

    monkeypatch.setattr(export, "write_onnx", write)


def test_a_file_predicts_as_the_predictor(exported: tuple[PropertyModel, Path]) -> None:
    """Also for molecules larger than those that were traced, and for one molecule alone."""
    model, folder = exported
    columns = {name: values[:17] for name, values in COLUMNS.items()}
    expected = expected_table(model, columns)
    run_file = onnx_runner(folder / "model.onnx")
    arrays = dense_inputs(model, SMILES[:17], columns).arrays
    assert arrays["mask"].shape[1] == 60
    np.testing.assert_allclose(run_file(arrays), expected.to_numpy(), rtol=2e-4, atol=1e-6)
    alone = dense_inputs(model, ["C"], {"solvent": ["dmso"], "ph": [1.0]}).arrays
    np.testing.assert_allclose(run_file(alone)[0], expected.to_numpy()[0], rtol=2e-4, atol=1e-6)

    about = json.loads((folder / "model.json").read_text())
    assert [each["name"] for each in about["output"]["columns"]] == [*expected.columns]
    assert [each["name"] for each in about["inputs"]] == [*arrays]
    for each in about["inputs"]:
        array = arrays[each["name"]]
        assert (each["type"], len(each["shape"])) == (array.dtype.name, array.ndim)
    with np.load(folder / "example.npz") as example:
        again = run_file({name: example[name] for name in arrays})
        np.testing.assert_array_equal(example["predictions"], again)
        assert {*example["smiles"].tolist()} <= {*MOLECULES}


@pytest.mark.usefixtures("unwritten")
def test_the_check_compares_training_molecules_and_writes_none(tmp_path: Path) -> None:
    from molsepnorm.model.training_molecules import TrainingMolecules

    secret = ["CCCCCOCCCCC", "CCCCCNCCCCC"]
    structures = TrainingMolecules(
        tuple(secret), np.zeros((2, 256), np.uint8), np.zeros((2, 1)), np.zeros((2, 1), np.int8)
    )
    model = model_of(network_of(1, layers=1), structures=(structures,))
    assert export_onnx(model, tmp_path / "out").molecules == len(MOLECULES) + 2
    with np.load(tmp_path / "out" / "example.npz") as example:
        assert not {*secret} & {*example["smiles"].tolist()}
    assert not any(text in (tmp_path / "out" / "model.json").read_text() for text in secret)


@pytest.mark.usefixtures("unwritten")
def test_values_that_are_infinite_in_the_unit_of_the_table_can_be_compared(tmp_path: Path) -> None:
    """As those of a network whose learned value is -60, which is 10^69 nM."""
    network = network_of(1, layers=1)
    network.head.bias.data.fill_(-40)
    model = model_of(network, task=Task(TARGETS[1:2], "mae"))
    assert export_onnx(model, tmp_path / "out").difference == 0
    expected = Predictor(model).to_frame(["CCO"])["ic50_nM_pred"]
    assert np.isinf(expected).all()


@pytest.mark.usefixtures("unwritten")
@pytest.mark.parametrize("error", [0.01, np.nan])
def test_an_export_that_differs_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    model = model_of(network_of(1, layers=1))
    write = export.write_onnx
    monkeypatch.setattr(export, "write_onnx", lambda *args: lambda x: write(*args)(x) + error)
    with pytest.raises(ModelError, match=f"differs .* by {error / 2:.2g} "):
        export_onnx(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- refusals -------------------------------------------------------------------------------------


def seventy_rows(path: Path) -> pd.DataFrame:
    """Write a table with the columns of the mixed model; the fourth SMILES is invalid."""
    ends = ("O", "N", "c1ccccc1", "C#N", "C=O", "F")
    smiles = ["C" * (row % 12 + 1) + ends[row // 12] for row in range(70)]
    smiles[3] = "C("
    table = pd.DataFrame({"smiles": smiles, "solvent": ["dmso", "water"] * 35, "ph": 7.5})
    table.to_csv(path, index=False)
    return table


def test_a_table_is_encoded_without_its_invalid_rows(tmp_path: Path) -> None:
    """In two files, the second with six molecules."""
    smiles = seventy_rows(tmp_path / "my.csv")["smiles"]
    found = encode_table(model_of(), tmp_path / "my.csv", tmp_path / "out")
    assert (found.molecules, found.files, len(found.rejected)) == (69, 2, 1)
    assert "my.csv, line 5: RDKit cannot read 'C('" in found.rejected[0]
    rows = []
    for path, first, count in (("00001.npz", 0, 63), ("00002.npz", 64, 6)):
        with np.load(tmp_path / "out" / path) as arrays:
            rows += arrays["rows"].tolist()
            assert arrays["rows"][0] == first
            assert arrays["smiles"].tolist() == [smiles[row] for row in arrays["rows"]]
            expected = dense_inputs(model_of(), arrays["smiles"].tolist()).arrays
            assert len(arrays["atoms"]) == count
            for name, array in expected.items():
                np.testing.assert_array_equal(arrays[name], array)
    assert rows == [row for row in range(70) if row != 3]


# --- the page and the command ---------------------------------------------------------------------


def blocks() -> list[str]:
    """The Python examples of docs/export.md."""
    page = (TOP / "docs" / "export.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)


def test_the_script_of_the_page_predicts_without_molsepnorm(
    exported: tuple[PropertyModel, Path], tmp_path: Path
) -> None:
    model, folder = exported
    table = seventy_rows(tmp_path / "my.csv")
    encode_table(model, tmp_path / "my.csv", tmp_path / "encoded")
    (tmp_path / "predict.py").write_text(blocks()[0])
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "predict.py", folder, "encoded"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "onnxruntime" in imported
    assert not {"molsepnorm", "torch", "rdkit"} & imported
    found = pd.read_csv(io.StringIO(done.stdout))
    expected = Predictor(model).to_frame(table["smiles"], table).drop(index=3)
    assert found["smiles"].tolist() == expected["smiles"].tolist()
    for name in ("logS_pred", "toxic_pred", "phase_prob_gas"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-4)


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_of(network_of(1, layers=1)).save_pretrained(tmp_path / "runs" / "logS")
    monkeypatch.chdir(tmp_path)
    _, code = blocks()
    code = code.replace("fullgraph=True", 'fullgraph=True, backend="eager"')  # needs no compiler
    namespace: dict[str, Any] = {}
    exec(compile(code, "docs/export.md", "exec"), namespace)
    expected = Predictor.from_pretrained("runs/logS").to_frame(["CCO", "c1ccccc1O"])["logS_pred"]
    np.testing.assert_allclose(namespace["predictions"][:, 0], expected, atol=1e-4)
    np.testing.assert_allclose(namespace["half"][:, 0], expected, atol=0.3)
    for smiles in (["C"], SMILES[:7], ["C" * 60, "O"]):
        arrays = dense_inputs(namespace["model"], smiles).arrays
        inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
        expected = namespace["dense"](**inputs)
        for call in (namespace["compiled"], namespace["program"].module()):
            torch.testing.assert_close(call(**inputs), expected, atol=1e-5, rtol=1e-5)

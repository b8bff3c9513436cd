"""Pre-training on structures: its losses, their sum, and runs."""

from __future__ import annotations

import csv
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from rdkit import Chem

from molsepnorm.data import datasets
from molsepnorm.data.batching import GraphTensors
from molsepnorm.errors import DataError
from molsepnorm.model import Inputs, PropertyModel, encoding_of
from molsepnorm.tasks import Task
from molsepnorm.training import load_config, train
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.loop import Schedule
from molsepnorm.training.objectives import Examples
from molsepnorm.training.objectives.pretraining import Pretraining, Regression, clipped_scaling
from molsepnorm.training.recipes import architecture
from molsepnorm.training.step import estimate_statistics
from runs import outcome, require_exact_resume, rows_of
from support import far_from_initial

NETWORK = {
    "data.featurizer": "zinc",
    **{f"model.{name}": 16 for name in ("width", "ffn_width")},
    "model.layers": 2,
    "model.heads": 2,
    "model.max_path_length": 3,
    "model.readout": "token",
    "model.dropout": 0.1,
    "optim.lr": 3e-3,
    "run.batch_size": 16,
    "run.epochs": 3,
}
ALL = {"teacher": 1.5, "descriptors": 1.0}


def weights(**values: float) -> dict[str, float]:
    return {f"objective.{name}": values.get(name, 0.0) for name in ALL}


def write_vectors(path, smiles: list[str]) -> np.ndarray:
    """Write the numbers of C, N and O as a teacher's vectors; return them, [n, 3]."""
    vectors = np.array([[text.upper().count(sign) for sign in "CNO"] for text in smiles])
    pq.write_table(pa.table({"smiles": smiles, "embedding": vectors.astype(float).tolist()}), path)
    return vectors


@pytest.fixture
def configure(tmp_path):
    """`configure(molecules, settings)`: a small run on a file of so many molecules."""

    def make(molecules: int, settings: dict) -> object:
        path = tmp_path / "molecules.csv"
        ends = ("O", "N", "C(=O)O", "c1ccccc1", "C1CC1", "F", "C#N", "Cl", "N(C)C", "S")
        middles = ("", "O", "C(C)", "C=C", "N", "C(=O)", "S", "C(F)", "c1ccc(cc1)", "C1CC(C1)")
        with open(path, "w", newline="") as file:
            rows = [[f"{'C' * n}{m}C{end}"] for n in (1, 2) for m in middles for end in ends]
            csv.writer(file).writerows([["smiles"], *rows[:molecules]])
        if settings.get("objective.teacher"):
            write_vectors(tmp_path / "vectors.parquet", [row[0] for row in rows[:molecules]])
            settings = {**settings, "objective.teacher_vectors": str(tmp_path / "vectors.parquet")}
        source = {"data.structures": [str(path)]}
        return load_config(overrides={**source, **NETWORK, **settings})

    return make


def objective_of(config) -> tuple[Pretraining, object]:
    dataset = datasets.load(config.data, encoding_of(architecture(config)))
    dataset = Pretraining.prepare(config, dataset, lambda done, of: None)
    arrays = {name: torch.from_numpy(np.array(a)) for name, a in dataset.arrays.items()}
    inputs = Inputs.of(dataset.store)
    none = torch.zeros(len(dataset.store), 0)
    examples = Examples(inputs, inputs.graphs, none, None, arrays, dataset)
    network = far_from_initial(replace(architecture(config), outputs=0))
    model = PropertyModel.of(network, "zinc", Task((), "loss"))
    return Pretraining(model, examples, config), dataset


# The losses of descriptors and of a teacher


@pytest.fixture
def descriptors():
    """The loss of descriptors on 40 made-up molecules, with its values, an eighth missing."""
    rng = np.random.default_rng(0)
    values = rng.normal(2, 3, size=(40, 12)).astype(np.float32)
    values[rng.random(values.shape) < 0.125] = np.nan
    values[0, 0], values[1, 1], values[4, 3] = 1000, -1000, np.nan
    scaling = clipped_scaling(values, np.arange(10, 40))
    arrays = {"descriptors": values, "descriptors_scaling": scaling}
    arrays = {name: torch.from_numpy(array) for name, array in arrays.items()}
    torch.manual_seed(0)
    loss = Regression(5, Examples(None, None, None, None, arrays, None), "descriptors", share=0.3)
    return loss, values, scaling


def test_the_loss_of_descriptors_is_that_of_a_loop(descriptors):
    """In evaluation: the mean over all values that are there, limited to ±6."""
    loss, values, (mean, scale) = descriptors
    loss.eval()
    graphs, read = torch.tensor([1, 7, 0, 30]), torch.randn(4, 5)
    outputs = loss.head(read)
    errors, limited = [], 0
    for row, graph in enumerate(graphs.tolist()):
        for column in range(12):
            if not math.isnan(values[graph, column]):
                target = (values[graph, column] - mean[column]) / scale[column]
                limited += abs(target) > 6
                target = max(-6.0, min(6.0, float(target)))
                errors.append((float(outputs[row, column].detach()) - target) ** 2)
    assert limited == 2
    assert len(errors) < 48
    with torch.no_grad():
        found = loss(read, graphs)
    assert float(found) == pytest.approx(np.mean(errors), rel=1e-5)


def test_in_training_a_share_of_the_descriptors_counts(descriptors):
    """The gradient of the head's biases shows which ones do."""
    loss, values, _ = descriptors
    loss.train()
    there = ~np.isnan(values[4])
    assert 0 < there.sum() < 12
    counts = np.zeros(12)
    torch.manual_seed(1)
    for _ in range(2000):
        found = loss(torch.zeros(1, 5), torch.tensor([4]))
        (gradient,) = torch.autograd.grad(found, loss.head.bias)
        counts += (gradient != 0).numpy()
    assert not counts[~there].any()
    assert np.abs(counts[there] / 2000 - 0.3).max() < 0.05  # five standard deviations


def test_a_molecule_without_any_descriptor_has_no_loss(descriptors):
    loss, *_ = descriptors
    loss.examples.arrays["descriptors"][2] = torch.nan
    found = loss(torch.ones(1, 5), torch.tensor([2]))
    found.backward()
    assert found.item() == 0
    assert not loss.head.weight.grad.any()


def test_the_teachers_loss_is_that_of_its_standardised_vectors(configure, tmp_path):
    """Rows are in another order and written otherwise; a molecule without a vector is left out."""
    config = configure(20, weights(teacher=1))
    dataset = datasets.load(config.data, encoding_of(architecture(config)))
    mols = [Chem.MolFromSmiles(text) for text in dataset.smiles]
    smiles = [Chem.MolToSmiles(mol, rootedAtAtom=mol.GetNumAtoms() - 1) for mol in mols]
    assert any(new != old for new, old in zip(smiles, dataset.smiles, strict=True))
    vectors = write_vectors(tmp_path / "vectors.parquet", smiles[:0:-1])[::-1]  # not of the first
    objective, dataset = objective_of(config)
    assert "has vectors of 19 of 20 molecules" in dataset.warnings[-1]
    loss = objective.losses["teacher"].eval()
    read = torch.randn(4, 16)
    train = dataset.splits["train"]
    known = vectors[train[train > 0] - 1]
    targets = (vectors[[6, 2, 18]] - known.mean(0)) / known.std(0)
    with torch.no_grad():
        found = loss(read, torch.tensor([7, 0, 3, 19]))
        errors = (loss.head(read)[[0, 2, 3]].numpy() - targets) ** 2
    assert float(found) == pytest.approx(errors.mean(), rel=1e-3)


@pytest.mark.parametrize(
    "vectors",
    [
        {"smiles": ["CCO"], "vector": [[1.0]]},
        {"smiles": ["C" * 40], "embedding": [[1.0]]},
        {"smiles": ["CCO", "CCN"], "embedding": [[1.0], [1.0, 2.0]]},
        {"smiles": ["CCO"], "embedding": [[1e6]]},
        {"smiles": ["CCO"], "embedding": ["1.0"]},
    ],
)
def test_unusable_vectors_of_a_teacher_are_refused(configure, tmp_path, vectors):
    config = configure(20, weights(teacher=1))
    pq.write_table(pa.table(vectors), tmp_path / "vectors.parquet")
    with pytest.raises(DataError):
        objective_of(config)


def scaling_by_hand(values: list[float]) -> tuple[float, float]:
    there = [value for value in values if not math.isnan(value)]
    if not there:
        return 0.0, 1.0
    ends = np.percentile(there, [0.1, 99.9])
    limited = [min(max(value, ends[0]), ends[1]) for value in there]
    mean = sum(limited) / len(limited)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in limited) / len(limited))
    return mean, deviation if len({*there}) > 1 else 1.0


@pytest.mark.filterwarnings("error")
def test_the_scaling_ignores_outliers_constants_and_missing_values():
    rng = np.random.default_rng(0)
    values = rng.normal(5, 2, size=(3000, 7)).astype(np.float32)
    values[17, 0], values[18, 0] = 1e12, -1e9  # outliers
    values[:, 1] = 0.1  # constant
    values[:, 2] = np.nan
    values[::2, 3] = np.nan
    values[:, 4] = np.where(np.arange(3000) % 3, 7.7, np.nan)  # constant where it is there
    values[:, 5] *= 1e6
    train = rng.permutation(3000)[:2500]
    values[2999 if 2999 not in train else 0, 6] = 1e30  # perhaps not in the training split
    found = clipped_scaling(values, train)
    assert found.dtype == np.float32
    for column in range(7):
        expected = scaling_by_hand(values[train, column].astype(float).tolist())
        assert found[:, column] == pytest.approx(expected, rel=1e-4), column
    assert found[1, 0] < 3
    assert np.isfinite(found).all()


# The sum


def test_the_sum_is_that_of_the_parts(configure):
    """Each loss alone, with the same network and heads."""
    objective, _ = objective_of(configure(40, weights(**ALL)))
    objective.eval()
    graphs = np.arange(30)
    batch, indices = objective.examples.graphs.cut(graphs, 2), torch.arange(30)
    with torch.no_grad():
        loss_sum, count = objective(batch, indices)
        read, total = objective.network.embed(batch), 0.0
        for name, weight in ALL.items():
            total += weight * objective.losses[name](read, indices)
    assert count == 30
    torch.testing.assert_close(loss_sum / 30, total)


def test_validation_returns_the_mean_of_each_loss(configure):
    """Over all batches, whose sizes differ."""
    objective, _ = objective_of(configure(40, weights(**ALL)))
    objective.eval()
    graphs = np.arange(37)
    loss, scores = objective.validate(graphs, DistributedContext())
    assert objective.validate(graphs, DistributedContext()) == (loss, scores)
    assert scores.keys() == ALL.keys()
    assert loss == pytest.approx(sum(ALL[name] * score for name, score in scores.items()))


# Runs


def test_a_run_lowers_every_loss(configure, tmp_path):
    """The history has a column for each loss; the final scores are those of the last epoch."""
    settings = {"run.epochs": 8, "optim.ema": None, "model.dropout": 0.1}
    config = configure(200, {**weights(**ALL), **settings})
    result = train(config, tmp_path / "run")
    rows = rows_of(tmp_path / "run" / "history.csv")
    for name in ("loss", *ALL):
        values = [float(row[f"val_{name}"]) for row in rows]
        assert values[-1] < 0.97 * values[0], name
    assert result.metrics["kept_epoch"] == 8
    for name, score in result.metrics["val"].items():
        assert score == pytest.approx(float(rows[-1][f"val_{name}"]), rel=1e-4)
    assert result.metrics["test"].keys() == {"loss", *ALL}
    assert not (tmp_path / "run" / "predictions_test.csv").exists()


def test_a_stopped_run_resumes_exactly(configure, tmp_path):
    config = configure(60, {**weights(**ALL), "optim.ema": 0.9})
    train(config, tmp_path / "whole")
    require_exact_resume(config, tmp_path / "whole", tmp_path / "parts", 4)
    state = outcome(tmp_path / "parts")["state"]
    assert "average/losses.descriptors.head.weight" in state


def test_the_saved_model_is_the_body_alone_and_a_run_starts_from_it(configure, tmp_path):
    """The head of the run is new, and its body begins with the weights of the start."""
    config = configure(60, {**weights(descriptors=1), "run.epochs": 2})
    pretrained = train(config, tmp_path / "pretrained").folder
    model = PropertyModel.from_pretrained(pretrained)
    assert (model.objective, model.task.names) == ("pretraining", ())
    assert model.network.config.outputs == 0
    assert sum(each.numel() for each in model.network.head.parameters()) == 0
    assert not any("losses" in name for name in model.network.state_dict())
    table = tmp_path / "table.csv"
    table.write_text("smiles,y\n" + "".join(f"{'C' * n}O,{n}.5\n" for n in range(1, 31)))
    settings = {"finetune.start": str(pretrained), "run.epochs": 2, "run.batch_size": 8}
    settings["finetune.probe"] = False  # which could be the best model
    before = body_of(pretrained)
    still = {"optim.lr": 1e-30, "optim.weight_decay": 0.0}
    kept = train(load_config(table, overrides={**settings, **still}), tmp_path / "kept").folder
    assert PropertyModel.from_pretrained(kept).task.names == ("y",)
    after = body_of(kept)
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    free = body_of(train(load_config(table, overrides=settings), tmp_path / "free").folder)
    changed = [name for name, value in before.items() if not torch.equal(free[name], value)]
    assert len(changed) > 0.8 * len(before)


def test_training_without_labels_leaves_statistics_of_the_saved_weights(configure, tmp_path):
    """The batch norms of the saved model have their statistics estimated."""
    settings = {"model.norm": "sep-rms-bn", "optim.ema": None}
    config = configure(60, {**weights(descriptors=1), **settings})
    train(config, tmp_path / "run")
    model = PropertyModel.from_pretrained(tmp_path / "run")
    saved = {name: buffer.clone() for name, buffer in model.network.named_buffers()}
    assert any("running_var" in name for name in saved)
    dataset = datasets.load(config.data, model.encoding)
    tensors = GraphTensors.of(dataset.store)
    schedule = Schedule(config.run, dataset.splits["train"], tensors.sizes)
    batches = schedule.statistics_batches()
    estimate_statistics(
        model.network, (tensors.cut(each, config.run.max_groups) for each in batches)
    )
    for name, buffer in model.network.named_buffers():
        torch.testing.assert_close(buffer, saved[name])


def body_of(folder) -> dict[str, torch.Tensor]:
    named = PropertyModel.from_pretrained(folder).network.named_parameters()
    return {name: value for name, value in named if not name.startswith("head.")}

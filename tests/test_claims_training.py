"""Claims about training: it learns by heart, learns nothing from noise, and counts rightly."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from molsepnorm.data import datasets as sources
from molsepnorm.data.batching import GraphTensors
from molsepnorm.data.datasets import DataConfig
from molsepnorm.model import PropertyModel
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.predict import Predictor, infer
from molsepnorm.tasks import Loss, Task
from molsepnorm.training import Callback, EpochRecord, load_config, train
from molsepnorm.training.loop import Trainer
from runs import rows_of, write_rows

DEMO = Path(__file__).parents[1] / "data" / "demo.csv"
SMALL = {
    "data.featurizer": "zinc",
    "data.targets": ["y"],
    "model.layers": 2,
    "model.width": 32,
    "model.ffn_width": 32,
    "model.heads": 4,
    "model.dropout": 0.0,
    "model.attention_dropout": 0.0,
    "model.init": "xavier",
    "optim.ema": None,
}


def demo(count: int) -> tuple[list[str], list[float]]:
    """The first molecules of data/demo.csv, and their penalised logP."""
    rows = rows_of(DEMO)[:count]
    return [row["smiles"] for row in rows], [float(row["penalised_logp"]) for row in rows]


def write(path: Path, smiles: Sequence[str], **columns: Sequence[Any]) -> Path:
    return write_rows(path, ["smiles", *columns], *zip(smiles, *columns.values(), strict=True))


@pytest.mark.claim("Ten molecules are learnt to an MAE below 0.01.")
@pytest.mark.parametrize("norm", ["sep-ln", "sep"])
def test_ten_molecules_are_learnt_to_an_mae_below_a_hundredth(tmp_path: Path, norm: str) -> None:
    """Through `train`, in the labels' own units, in which the constant is off by more than one.

    With a layer norm of the graph token the predictor gives the labels back. With the batch norm
    the last epoch's training outputs do; in evaluation its variance is unbiased, as torch's, which
    for a batch of ten is 10/9 of what training divided by, and shows at this precision.
    """
    smiles, labels = demo(10)
    # a split needs others: two more molecules, for validation and test
    smiles, labels = [*smiles, "CCO", "CCN"], [*labels, 0.0, 0.1]
    table = write(tmp_path / "ten.csv", smiles, y=labels)
    config = load_config(
        table,
        overrides={
            **SMALL,
            "data.split": [10 / 12, 1 / 12, 1 / 12],
            "model.norm": norm,
            "optim.lr": 3e-3,
            "optim.weight_decay": 0.0,
            "run.epochs": 400,
            "run.validate_every": 20,
            "run.batch_size": 10,
        },
    )
    last = Last()
    train(config, tmp_path / "run", callback=last)
    # the last network, not the best by the validation molecule
    rows = last.dataset.store.rows[last.dataset.splits["train"]]
    truth = np.array(labels)[rows]
    assert len(truth) == 10
    assert np.abs(truth - np.median(truth)).mean() > 1
    if norm == "sep":
        error = last.records[-1].train_loss * last.task.targets[0].scale
    else:
        model = PropertyModel.of(last.network, "zinc", last.task)
        predicted = [p.values["y"] for p in Predictor(model).predict([smiles[i] for i in rows])]
        error = np.abs(np.array(predicted) - truth).mean()
    assert error < 0.01


class Last(Callback):
    """Keeps what a run began with and ended with."""

    def __init__(self) -> None:
        self.records: list[EpochRecord] = []

    def on_start(self, config, dataset, model, folder) -> None:
        self.dataset, self.network, self.task = dataset, model.network, model.task

    def on_epoch(self, record: EpochRecord, epochs: int) -> None:
        self.records.append(record)


def skill(tmp_path: Path, smiles: list[str], labels: Sequence[float], name: str) -> float:
    """Validation MAE of the last epoch, as a share of the constant prediction's."""
    table = write(tmp_path / f"{name}.csv", smiles, y=labels)
    config = load_config(
        table,
        overrides={
            **SMALL,
            "data.split": [0.6, 0.3, 0.1],
            "optim.lr": 2e-3,
            "run.epochs": 12,
            "run.batch_size": 32,
        },
    )
    last = Last()
    train(config, tmp_path / name, callback=last)
    labels, splits = last.dataset.labels, last.dataset.splits
    constant = last.task.baseline_prediction(labels[splits["train"]])
    return last.records[-1].scores["mae"] / np.abs(labels[splits["val"]] - constant).mean()


@pytest.mark.claim(
    "Shuffled labels give no skill and true labels do. Test labels never influence the model,"
    " and validation labels no training step."
)
def test_shuffled_labels_give_no_skill_on_validation(tmp_path: Path) -> None:
    """Nothing leaks: with labels dealt out at random the validation MAE is no better than the
    constant prediction's, but for chance (5 %); with the true labels it is far better."""
    smiles, labels = demo(400)
    assert skill(tmp_path, smiles, labels, "true") < 0.75
    shuffled = np.random.default_rng(0).permutation(labels).tolist()
    assert skill(tmp_path, smiles, shuffled, "shuffled") > 0.95


@pytest.mark.claim(
    "The MAE of a constant prediction on ZINC's splits is that of the median, 1.56 on the "
    "test split."
)
def test_the_constant_predictor_has_the_known_mae_on_zinc(datasets: Path) -> None:
    """The training median's MAE on the subset's splits, against the raw files read plainly; 1.56
    on the test split."""
    raw = {
        split: raw_labels(datasets / "ZINC" / "raw", split) for split in ("train", "val", "test")
    }
    median = np.median(raw["train"])
    expected = {split: np.abs(values - median).mean() for split, values in raw.items()}
    assert expected["test"] == pytest.approx(1.56, abs=0.01)

    dataset = sources.load(DataConfig(dataset="zinc", data_dir=datasets), EncodingSpec((3,)))
    labels, splits = dataset.labels, dataset.splits
    task = Task.fit(dataset.targets, labels[splits["train"]])
    constant = task.baseline_prediction(labels[splits["train"]])
    for split, graphs in splits.items():
        predictions = np.tile(constant, (len(graphs), 1))
        assert task.scores(predictions, labels[graphs])["mae"] == pytest.approx(
            expected[split], rel=1e-5
        )


def raw_labels(folder: Path, split: str) -> np.ndarray:
    with open(folder / f"{split}.pickle", "rb") as file:
        molecules = pickle.load(file)
    with open(folder / f"{split}.index") as file:
        index = [int(number) for number in file.read().strip().split(",")]
    return np.array([float(molecules[i]["logP_SA_cycle_normalized"]) for i in index])


# --- an epoch's numbers --------------------------------------------------------------------------


@pytest.fixture
def still(tmp_path: Path) -> Callable[..., tuple[Last, list[np.ndarray]]]:
    """`still(batch_size, epochs=1)`: a run on 30 molecules with blanks, at a learning rate so small
    that no weight moves; what it recorded, and the batches it trained on."""
    smiles, labels = demo(30)
    numbers = ["" if i % 7 == 3 else value for i, value in enumerate(labels)]
    active = ["" if i % 5 == 1 else int(value > 1) for i, value in enumerate(labels)]
    table = write(tmp_path / "still.csv", smiles, y=numbers, active=active)

    def run(batch_size: int, epochs: int = 1) -> tuple[Last, list[np.ndarray]]:
        settings = {
            **SMALL,
            "data.targets": ["y", "active"],
            "data.split": [0.6, 0.3, 0.1],
            "model.norm": "sep-ln",  # so that a molecule's loss does not depend on its batch
            "optim.lr": 1e-30,
            "run.epochs": epochs,
            "run.batch_size": batch_size,
        }
        batches: list[np.ndarray] = []
        plain, last = Trainer.steps, Last()

        def steps(self: Trainer, taken: list[np.ndarray]) -> Iterator[int]:
            batches.extend(taken)
            return plain(self, taken)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Trainer, "steps", steps)
            train(
                load_config(table, overrides=settings),
                tmp_path / f"{batch_size}-{epochs}",
                callback=last,
            )
        return last, batches

    return run


@pytest.mark.claim(
    "An epoch's loss and scores equal those of one pass over all molecules, for any batch "
    "size. No molecule is lost."
)
@pytest.mark.parametrize("batch_size", [2, 17, 64])
def test_an_epochs_loss_and_scores_are_those_of_one_pass(still, batch_size: int) -> None:
    """Whatever the batches, their sizes and their number of blanks: the mean over all labels, one
    molecule at a time."""
    last, _ = still(batch_size)
    (record,) = last.records
    store, splits, task = last.dataset.store, last.dataset.splits, last.task
    tensors = GraphTensors.of(store)
    losses, predictions = {}, {}
    for split in ("train", "val"):
        total, count, values = 0.0, 0, []
        for graph in splits[split].tolist():
            outputs = infer(last.network, tensors, np.array([graph]))
            loss, labels = Loss(task)(outputs, torch.from_numpy(last.dataset.labels[[graph]]))
            total, count = total + float(loss), count + int(labels)
            values.append(task.predictions(outputs).numpy())
        losses[split], predictions[split] = total / count, np.concatenate(values)
    assert record.train_loss == pytest.approx(losses["train"], rel=1e-5)
    assert record.val_loss == pytest.approx(losses["val"], rel=1e-5)
    labels = last.dataset.labels[splits["val"]]
    mae = np.nanmean(np.abs(labels[:, 0] - predictions["val"][:, 0]))
    assert record.scores["mae"] == pytest.approx(float(mae), rel=1e-5)
    assert np.isnan(labels).any()


@pytest.mark.parametrize("batch_size", [5, 17, 64])
def test_no_molecule_is_lost_over_the_epochs(still, batch_size: int) -> None:
    """18 molecules, in sizes that divide them and others: each exactly once per epoch, in another
    order each time."""
    last, batches = still(batch_size, epochs=3)
    seen = np.concatenate(batches)
    epochs = seen.reshape(3, -1)
    wanted = sorted(last.dataset.splits["train"].tolist())
    assert len(wanted) == 18
    assert all(sorted(epoch.tolist()) == wanted for epoch in epochs)
    assert (epochs[0] != epochs[1]).any()
    assert all(2 <= len(batch) <= max(batch_size, 3) for batch in batches)


def test_training_never_reads_the_labels_it_is_tested_on(tmp_path: Path) -> None:
    """Other labels of the test molecules change no bit of the run's model, other ones of the
    validation molecules no bit of the steps taken; standardisation is by training labels alone."""
    smiles, labels = demo(30)
    settings = {**SMALL, "data.split": [0.6, 0.3, 0.1], "run.epochs": 2, "run.batch_size": 6}
    results: dict[str, tuple[dict[str, torch.Tensor], bytes]] = {}
    rows: dict[str, np.ndarray] = {}
    for changed in ("nothing", "test", "val"):
        mine = np.array(labels)
        if changed in rows:
            mine[rows[changed]] += np.linspace(50, 90, len(rows[changed]))
        table = write(tmp_path / f"{changed}.csv", smiles, y=mine.tolist())
        last = Last()
        result = train(
            load_config(table, overrides=settings), tmp_path / f"{changed}-run", callback=last
        )
        store, splits = last.dataset.store, last.dataset.splits
        rows = {split: store.rows[graphs] for split, graphs in splits.items()}
        assert not {*rows["train"]} & {*rows["val"], *rows["test"]}
        assert last.task.targets[0].mean == pytest.approx(mine[rows["train"]].mean(), rel=1e-6)
        assert last.task.targets[0].scale == pytest.approx(mine[rows["train"]].std(), rel=1e-6)
        weights = {name: value.clone() for name, value in last.network.state_dict().items()}
        results[changed] = weights, (result.folder / "model" / "model.safetensors").read_bytes()
    assert results["test"][1] == results["nothing"][1]
    for changed in ("test", "val"):
        for name, value in results["nothing"][0].items():
            assert torch.equal(results[changed][0][name], value), (changed, name)


def test_the_average_of_the_weights_is_what_is_validated_and_kept(tmp_path: Path) -> None:
    """With optim.ema the scores of the history are those of the model folder, not of the network
    under training, which is another one."""
    smiles, labels = demo(30)
    table = write(tmp_path / "ema.csv", smiles, y=labels)
    settings = {**SMALL, "data.split": [0.6, 0.3, 0.1], "optim.ema": 0.9, "run.epochs": 1}
    last = Last()
    result = train(
        load_config(table, overrides={**settings, "run.batch_size": 6, "optim.lr": 1e-2}),
        tmp_path / "run",
        callback=last,
    )
    truth = last.dataset.labels[last.dataset.splits["val"], 0]
    texts = [smiles[row] for row in last.dataset.store.rows[last.dataset.splits["val"]]]

    def mae(model: PropertyModel) -> float:
        values = [p.values["y"] for p in Predictor(model).predict(texts)]
        return float(np.abs(np.array(values) - truth).mean())

    told = last.records[0].scores["mae"]
    assert mae(result.model) == pytest.approx(told, rel=1e-4)
    assert abs(mae(PropertyModel.of(last.network, "zinc", last.task)) - told) > 1e-3

"""Trains graph tokens without labels, as SimCSE does: two dropout views of a molecule are to agree.

    python benchmarks/geometry/contrastive.py --seeds 0-2 -o runs/contrastive
    molsepnorm analyze --model runs/contrastive --dataset zinc -o runs/contrastive/geometry

Network, batches and schedule are slim.yaml's, without its average of weights; the norms are those
of `molsepnorm ablate --vary norm=...`. Each run's folder is OUTPUT/NORM/seed-N, with a model whose
read-out is as it was drawn, and whose batch norms have statistics of the final weights. Runs that
are there are not repeated.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parents[1])]  # this checkout's package

import click  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

from molsepnorm.cli.options import seeds_option  # noqa: E402
from molsepnorm.data import datasets  # noqa: E402
from molsepnorm.data.batching.bucketing import epoch_batches, num_batches  # noqa: E402
from molsepnorm.data.batching.collate import GraphTensors  # noqa: E402
from molsepnorm.files.writing import write_json  # noqa: E402
from molsepnorm.model import PropertyModel, encoding_of  # noqa: E402
from molsepnorm.nn import Graphormer  # noqa: E402
from molsepnorm.tasks import Task  # noqa: E402
from molsepnorm.training import TrainConfig, load_config  # noqa: E402
from molsepnorm.training.ablation import variants_of  # noqa: E402
from molsepnorm.training.objectives.contrastive import dropout_views, info_nce  # noqa: E402
from molsepnorm.training.optim import learning_rate, make_optimizer  # noqa: E402
from molsepnorm.training.run import architecture  # noqa: E402
from molsepnorm.training.statistics import estimate_statistics, statistics_batches  # noqa: E402


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.option("--norms", default="shared,sep,sep-ln", show_default=True)
@seeds_option
@click.option("--epochs", type=int, default=20, show_default=True)
@click.option("--temperature", type=float, default=0.05, show_default=True, help="SimCSE's.")
@click.option("--threads", type=int, default=1, show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def main(
    norms: str, seeds: list[int], epochs: int, temperature: float, threads: int, output: Path
) -> None:
    torch.set_num_threads(threads)
    config = load_config(config=HERE / "slim.yaml", overrides={"run.epochs": epochs})
    for seed in seeds:
        for name, settings in variants_of({"norm": norms.split(",")}).items():
            folder = output / name / f"seed-{seed}"
            if not (folder / "metrics.json").exists():
                train(config.changed({**settings, "run.seed": seed}), folder, temperature)


def train(config: TrainConfig, folder: Path, temperature: float) -> None:
    """Train one network, and write its model and the losses of its epochs."""
    begun = time.perf_counter()
    torch.manual_seed(config.run.seed)
    network_config = architecture(config)
    dataset = datasets.load(config.data, encoding_of(network_config))
    train_split = dataset.splits["train"]
    task = Task.fit(dataset.targets, dataset.kinds, dataset.labels[train_split])
    network = Graphormer(replace(network_config, outputs=task.outputs)).train()
    optimizer = make_optimizer(network, config.optim)
    tensors = GraphTensors.of(dataset.store)
    run, step, losses = config.run, 0, []
    steps = run.epochs * num_batches(len(train_split), run.batch_size)
    for epoch in range(run.epochs):
        rng = np.random.default_rng([run.seed, epoch])
        total = 0.0
        for graphs in epoch_batches(
            train_split, tensors.sizes, run.batch_size, rng, run.blocks, run.max_pairs
        ):
            views = dropout_views(network, tensors.cut(graphs, run.blocks))
            loss = info_nce(*views, temperature)
            optimizer.param_groups[0]["lr"] = learning_rate(step, steps, config.optim)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), config.optim.clip_norm)
            optimizer.step()
            total += loss.item() * len(graphs)
            step += 1
        losses.append(total / len(train_split))
        seconds = time.perf_counter() - begun
        print(f"{folder}: epoch {epoch + 1}, loss {losses[-1]:.4f}, {seconds:.0f} s", flush=True)
    batches = statistics_batches(train_split, tensors.sizes, run)
    estimate_statistics(network, (tensors.cut(graphs, run.blocks) for graphs in batches))
    PropertyModel(network, dataset.store.featurizer, task).save_pretrained(folder / "model")
    seconds = time.perf_counter() - begun
    facts = {"temperature": temperature, "losses": losses, "seconds": seconds}
    write_json(folder / "metrics.json", facts)


if __name__ == "__main__":
    main()

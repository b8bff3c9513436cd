"""Small models to save, their outputs, and changes of a saved description."""

from __future__ import annotations

import hashlib
import json

import torch

from molsepnorm.data.batching import GraphTensors
from molsepnorm.files.digests import json_digest
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import encode
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import Target, Task

CONFIG = {"layers": 1, "width": 16, "ffn_width": 16, "heads": 2, "max_path_length": 3}
"""Settings of a small `GraphormerConfig`."""

SMILES = ["CCO", "c1ccccc1O", "CC(=O)[O-]", "C"]


def small_model(seed: int = 0, **config) -> PropertyModel:
    """Return a model with two targets and random batch-norm statistics."""
    torch.manual_seed(seed)
    task = Task((Target("logS", "regression", -3.1, 1 / 3), Target("toxic", "binary")), "loss")
    network = Graphormer(GraphormerConfig(**{**CONFIG, "outputs": 2, **config}))
    for name, buffer in network.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_()
    return PropertyModel.of(network.eval(), "zinc", task)


def outputs_of(model: PropertyModel) -> torch.Tensor:
    """Return the outputs of the network for `SMILES`."""
    zinc = featurize.get(model.featurizer)
    graphs = GraphTensors.of(encode([zinc(text) for text in SMILES], model.encoding))
    with torch.no_grad():
        return model.network(graphs.cut(list(range(len(SMILES)))))


def joined_model() -> PropertyModel:
    """Return a model of three networks, one of them with another architecture."""
    one, two, three = small_model(0), small_model(1), small_model(2, layers=2, heads=4)
    return one.with_parts((*one.parts, *two.parts, *three.parts), (0.5, 0.3, 0.2))


def change_description(path, change) -> None:
    """Change the description, and enter the digests of all files as they are."""
    about = json.loads(path.read_text())
    change(about)
    files = [path.with_name(name) for name in about["sha256"]]
    about["sha256"] = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file != path
    }
    about["sha256"][path.name] = json_digest(about)
    path.write_text(json.dumps(about))

"""`PropertyModel`: a trained model, with everything that is needed to predict with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from molsepnorm.errors import ConfigError, ModelError, counted
from molsepnorm.forest import Forest
from molsepnorm.model.checks import encoding_of, require_forest_share, require_shares
from molsepnorm.model.folder import SUPERVISED, read_folder, write_folder
from molsepnorm.model.training_molecules import (
    TRAINING_FILE,
    TrainingFile,
    TrainingMolecules,
)
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.featurize.standardize import Level
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernel_head import KernelHead
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, Task
from molsepnorm.tasks.calibration import Calibration
from molsepnorm.tasks.domain import Domain


@dataclass
class PropertyModel:
    """A network, the featuriser of its molecules, and the task of its outputs.

    It may have partners: further networks of the same inputs and outputs. The prediction is then a
    weighted mean over all networks. Embeddings, analyses and fine-tuning use `network` alone.

    >>> import tempfile
    >>> from molsepnorm.nn import Graphormer, GraphormerConfig
    >>> from molsepnorm.tasks import Target, Task
    >>> task = Task((Target("logS", "regression", mean=-3.1, scale=2.0),), metric="mae")
    >>> model = PropertyModel(Graphormer(GraphormerConfig(layers=1)), "zinc", task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save_pretrained(folder)
    ...     PropertyModel.from_pretrained(folder).task.names
    ('logS',)
    """

    network: Graphormer
    featurizer: str
    """Name of the featuriser in `molsepnorm.molecules.featurize`."""
    task: Task
    objective: str = SUPERVISED
    """Name of the training objective. Other objectives than supervised learning leave the head
    untrained."""
    excludes: dict[str, str] = field(default_factory=dict)
    """Data sets that the model must not be evaluated on, by name, each with the reason. They are
    those of its card and of the models that it was fine-tuned from."""
    inputs: ExtraInputs = NO_INPUTS
    """Inputs beside the features of the featuriser, such as columns of the table. A network may
    read the first of them only."""
    partners: tuple[Graphormer, ...] = ()
    """Networks whose predictions are averaged with those of `network`."""
    weights: tuple[float, ...] = (1.0,)
    """Weight of each of the `networks` in the mean; they sum to 1."""
    standardize: Level = "none"
    """How far structures are standardised before the networks read them; see
    `molsepnorm.molecules.featurize.standardize.standard_smiles`."""
    forests: tuple[Forest, ...] = ()
    """Random forests of all `inputs` but the atom pairs, whose mean is blended with that of the
    networks."""
    forest_share: float = 0.0
    """Weight of the forests in the prediction; 0 without forests."""
    calibration: tuple[Calibration, ...] = ()
    """Size of the errors of each target; empty if the model was not calibrated."""
    domain: Domain | None = None
    """Similarity above which predictions can be trusted; None if it was not fitted."""
    structures: tuple[TrainingMolecules | TrainingFile, ...] = ()
    """The training molecules, whose union counts; empty if they are not known."""

    def __post_init__(self) -> None:
        require_shares(self.weights, len(self.networks))
        require_forest_share(self.forest_share, len(self.forests))

    @property
    def compares(self) -> bool:
        """True if a network compares molecules with training molecules."""
        return any(isinstance(network.head, KernelHead) for network in self.networks)

    @property
    def networks(self) -> tuple[Graphormer, ...]:
        """All networks that predict: `network`, then its partners."""
        return (self.network, *self.partners)

    @property
    def parameters(self) -> int:
        """Number of trained parameters of all networks."""
        return sum(p.numel() for network in self.networks for p in network.parameters())

    def to(self, device: torch.device | str) -> PropertyModel:
        """Move all networks to a device, and return the model."""
        for network in self.networks:
            network.to(device)
        return self

    def mean(self, predictions: Sequence[Any]) -> Any:
        """Return the weighted mean of one array or tensor of predictions per network."""
        if len(predictions) == 1:
            return predictions[0]
        return sum(w * each for w, each in zip(self.weights, predictions, strict=True))

    def blended(self, predictions: np.ndarray, features: np.ndarray | None) -> np.ndarray:
        """Return predictions of the networks (G, O), blended with those of the forests.

        Args:
            predictions: the mean of the networks.
            features: float32 (G, F), the molecule-level features; the last ones are `inputs`.
        """
        if not self.forests:
            return predictions
        assert features is not None
        own = features.shape[1] - self.inputs.width
        inputs = features[:, own : features.shape[1] - self.inputs.pairs]
        forests = np.mean([forest.predict(inputs) for forest in self.forests], axis=0)
        return (1 - self.forest_share) * predictions + self.forest_share * forests

    @property
    def encoding(self) -> EncodingSpec:
        """The encoding of molecules by the featuriser, without the extra inputs."""
        own = len(featurize.SIZES[self.featurizer].molecule)
        return replace(encoding_of(self.network.config), molecule_features=own)

    def require_targets(self) -> None:
        """Raise a `ConfigError` if the model was pre-trained without targets."""
        if not self.task.targets:
            raise ConfigError(
                "this model was pre-trained without targets, so it predicts nothing: fine-tune it "
                "on your table (molsepnorm train --from MODEL), or use its embeddings (molsepnorm "
                "embed)"
            )

    def training_molecules(self) -> TrainingMolecules:
        """Return the molecules that the model was trained on.

        Raises:
            ConfigError: the model does not have them.
            ModelError: their file is damaged.
        """
        if not self.structures:
            why = (
                "they were left out when it was trained (--no-training-structures) or shared"
                if self.domain is not None
                else "it was trained on data without SMILES, joined or converted, or its run is "
                "not finished"
            )
            raise ConfigError(
                f"this model does not have its training molecules, so similarities to them are "
                f"unknown: {why}. Train it again, or leave the domain out"
            )
        found = TrainingMolecules.joined(
            [each.read() for each in self.structures], self.standardize
        )
        if found.labels.shape[1] != len(self.task.targets):
            raise ModelError(
                f"{TRAINING_FILE} belongs to another model: it has labels of "
                f"{counted(found.labels.shape[1], 'target')}, and the model has "
                f"{len(self.task.targets)}. Copy the folder from its source again"
            )
        return found

    def leak(self, dataset: str | None, allow: bool) -> str | None:
        """Return why scores on a named data set would be too optimistic; None if they would not.

        Args:
            dataset: name of the data set; None for a table, which is not recognised.
            allow: return the reason instead of raising an error.

        Raises:
            ConfigError: the model must not be evaluated on the data set.
        """
        reason = None if dataset is None else self.excludes.get(dataset)
        if reason is None or allow:
            return reason
        raise ConfigError(
            f"this model, or one that it was fine-tuned from, must not be evaluated on {dataset}: "
            f"{reason}. Choose another model or data set. With --allow-leak it is used "
            "nevertheless, and the results say so"
        )

    def save_pretrained(self, folder: Path | str) -> None:
        """Write the model folder; an existing model folder is replaced.

        Raises:
            ModelError: a number of the model is not finite.
            StorageError: the folder holds other files, or it cannot be written.
        """
        write_folder(self, folder)

    @staticmethod
    def from_pretrained(folder: Path | str) -> PropertyModel:
        """Read a model folder, or the model folder of a run. The network is in evaluation mode.

        Both files are compared with the digests in `config.json`, if there are any. The file of
        the training molecules is read when they are needed.

        Raises:
            ModelError: the folder is missing, incomplete or damaged, was written by a newer
                molsepnorm, or holds a number that is not finite.
        """
        return PropertyModel(**read_folder(folder))

"""`DenseModel`: a whole model from padded tensors to predictions in the units of the table."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from molsepnorm.interop.export.dense import DenseGraphormer
from molsepnorm.interop.export.forests import DenseForest
from molsepnorm.model import PropertyModel


class DenseModel(nn.Module):
    """The networks and forests of a model, their weighted mean, and the scales of its targets.

    A column of the result is a value in the unit of the table, the probability of class 1, or the
    probability of one class of a multi-class target; `output_columns` names them. They are those of
    `molsepnorm predict` without `--level`: probabilities are not calibrated. A value is NaN if the
    output of a network is not finite.

    Args:
        model: the trained model. Its networks are copied.

    Raises:
        ConfigError: the model has no targets, or a network without a dense form.
    """

    def __init__(self, model: PropertyModel) -> None:
        super().__init__()
        model.require_targets()
        self.networks = nn.ModuleList(DenseGraphormer(network) for network in model.networks)
        self.weights = model.weights
        self.forests = nn.ModuleList(DenseForest(forest) for forest in model.forests)
        self.forest_share = model.forest_share
        self.extra, self.pairs = model.inputs.width, model.inputs.pairs
        self.task = model.task

    def forward(
        self,
        atoms: Tensor,
        degrees: Tensor,
        mask: Tensor,
        distances: Tensor,
        paths: Tensor,
        neighbours: Tensor | None = None,
        features: Tensor | None = None,
    ) -> Tensor:  # float32 (B, O)
        """Return the predictions of every molecule; for the inputs see `DenseGraphormer`."""
        encoded = atoms, degrees, mask, distances, paths, neighbours, features
        shares = [
            weight * self.task.predictions(network(*encoded))
            for network, weight in zip(self.networks, self.weights, strict=True)
        ]
        mean = torch.stack(shares).sum(dim=0)  # (B, O)
        if len(self.forests):
            assert features is not None
            last = features.shape[1]
            inputs = features[:, last - self.extra : last - self.pairs]
            of_forests = torch.stack([forest(inputs) for forest in self.forests]).mean(dim=0)
            mean = (1 - self.forest_share) * mean + self.forest_share * of_forests
        columns = []
        for target, its in zip(self.task.targets, self.task.columns(), strict=True):
            part, transform = mean[:, its], target.transformation
            if transform is not None:
                part = torch.pow(10.0, transform.sign * (part - transform.offset))
            columns.append(part)
        return torch.cat(columns, dim=1)


def output_columns(model: PropertyModel) -> list[dict[str, str]]:
    """Return a description of every column of the predictions; the names are those of `predict`."""
    columns: list[dict[str, str]] = []
    for target in model.task.targets:
        own = {"target": target.name, "kind": target.kind}
        if target.kind == "multiclass":
            columns += [
                {"name": name, **own, "meaning": f"probability of {each}"}
                for name, each in zip(target.probability_columns, target.classes, strict=True)
            ]
            continue
        meaning = "value in the unit of the training table"
        if target.kind == "binary":
            meaning = f"probability of {target.positive_class}"
        columns.append({"name": target.prediction_column, **own, "meaning": meaning})
    return columns

"""The parts of a final model and their weights, in words."""

from __future__ import annotations

from collections import Counter, defaultdict

from molsepnorm.model import PropertyModel

__all__ = ["composition"]

_KERNEL = "kernel regression"


def composition(model: PropertyModel, epochs: int) -> str:
    """Return what a model with targets consists of, such as "35 % kernel regression, 65 % random
    forest".

    Args:
        model: the model of a run.
        epochs: number of epochs of the run. After one or more, a kernel regression without a
            network means that the fine-tuned network was left out.
    """
    shares: defaultdict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    for network, weight in zip(model.networks, model.weights, strict=True):
        name = _KERNEL if network.config.head == "kernel" else "network"
        shares[name] += weight * (1 - model.forest_share)
        counts[name] += 1
    if model.forests:
        shares["random forest"], counts["random forest"] = model.forest_share, len(model.forests)
    used = {
        name: f"{name} (mean of {counts[name]})" if counts[name] > 1 else name
        for name in shares
        if shares[name]
    }
    text = ", ".join(f"{100 * shares[name]:.0f} % {part}" for name, part in used.items())
    if len(used) == 1:
        (part,) = used.values()
        text = f"the {part} alone"
    if epochs and _KERNEL in used and "network" not in used:
        text += "; the fine-tuned network did not improve the validation score and is not used"
    return text

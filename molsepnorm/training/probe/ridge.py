"""Ridge regression of arrays, with leave-one-out predictions in closed form.

Rows have weights, and rows of the same group are left out together. The offset is not penalised.
`ridge` is given features and chooses the penalty; `kernel_ridge` is given a kernel, inverted with
a penalty by `invert`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

_PENALTIES = np.logspace(-4, 5, 28)
_TINY = 1e-12
"""The smallest difference of a leverage from 1. With more features than rows, the smallest penalty
has differences of about the penalty divided by the number of features."""
SMALL = 1e-9
"""Eigenvalues below this fraction of the largest are zero up to rounding."""


class LinearModel(NamedTuple):
    """A linear model of p features for the outputs of one target."""

    slopes: np.ndarray
    """(outputs, p)."""
    offsets: np.ndarray
    """(outputs,)."""
    error: float = 1.0
    """Leave-one-out error, relative to the variance of the labels."""
    penalty: float = 1.0


class Axes(NamedTuple):
    """Weighted and centred features of n rows in their r principal axes."""

    means: np.ndarray
    """(p,): weighted means of the features."""
    values: np.ndarray
    """(r,): eigenvalues of XᵀX for the weighted and centred features X (n, p)."""
    vectors: np.ndarray
    """(p, r): its eigenvectors."""
    rotated: np.ndarray
    """(n, r): X in these axes."""
    squares: np.ndarray
    """(n, r): the squares of `rotated`."""


class Inverse(NamedTuple):
    """The kernel of n rows, weighted, centred, and inverted with a penalty."""

    means: np.ndarray
    """(n,): weighted means of the kernel over these rows."""
    weights: np.ndarray
    """(n,); they sum to 1."""
    inverted: np.ndarray
    """(n, n): (R K R + penalty)⁻¹ for the centred kernel K and the roots R of the weights."""


def principal_axes(features: np.ndarray, weights: np.ndarray) -> Axes:
    """Return the principal axes of features (n, p) of rows with weights (n,)."""
    weights = weights / weights.sum()
    means = weights @ features
    centred = (features - means) * np.sqrt(weights * len(weights))[:, None]
    values, vectors = _decompose(centred)
    rotated = centred @ vectors
    return Axes(means, values, vectors, rotated, rotated**2)


def ridge(
    axes: Axes, labels: np.ndarray, weights: np.ndarray, groups: np.ndarray
) -> tuple[LinearModel, np.ndarray]:
    """Return a linear model of labels (n, k), and leave-one-out predictions (n, k).

    The penalty is the one with the smallest leave-one-out error. The error is that of fits in which
    the offset, too, leaves the group out; otherwise the penalty would vanish where there are as
    many features as rows. The predictions use the mean label of all rows, since a mean without the
    group reveals its labels.

    Args:
        axes: the features, by `principal_axes` with the same weights.
        labels: (n, k).
        weights: (n,).
        groups: (n,); rows with the same number are left out together.
    """
    means, values, vectors, rotated, squares = axes
    weights = weights / weights.sum()
    mean, root = weights @ labels, np.sqrt(weights * len(weights))[:, None]
    response = (labels - mean) * root
    projected, together = rotated.T @ response, _rows_of_groups(groups)
    offset, none = np.sqrt(weights), np.zeros(len(weights))

    def residuals(penalty: float, offset: np.ndarray) -> np.ndarray:
        shrinkage = 1 / (values + penalty)
        residual = response - rotated @ (projected * shrinkage[:, None])
        leverage = squares @ shrinkage + offset**2
        return _left_out(residual, rotated, shrinkage, offset, leverage, together)

    errors = [float((residuals(penalty, offset) ** 2).sum()) for penalty in _PENALTIES]
    penalty = _PENALTIES[int(np.argmin(errors))]
    slopes = (vectors @ (projected / (values + penalty)[:, None])).T
    left_out = labels - residuals(penalty, none) / root
    variance = max(float((response**2).sum()), SMALL)
    offsets = mean - slopes @ means
    return LinearModel(slopes, offsets, min(errors) / variance, penalty), left_out


def invert(kernel: np.ndarray, weights: np.ndarray, penalty: float) -> Inverse:
    """Return the inverse that `kernel_ridge` needs, from the kernel (n, n) between rows with these
    weights (n,). The kernel is overwritten, since that of thousands of molecules fills the memory.
    """
    weights = weights / weights.sum()
    means = weights @ kernel
    root = np.sqrt(weights * len(weights))
    kernel -= means
    kernel += (weights @ means - means)[:, None]
    kernel *= root
    kernel *= root[:, None]
    kernel.flat[:: len(kernel) + 1] += penalty
    inverted = torch.from_numpy(kernel)
    torch.linalg.cholesky(inverted, out=inverted)
    torch.cholesky_inverse(inverted, out=inverted)
    return Inverse(means, weights, kernel)


def kernel_ridge(
    inverse: Inverse, labels: np.ndarray, groups: np.ndarray
) -> tuple[LinearModel, np.ndarray]:
    """Return the model of `ridge` with a given penalty, for the features that a kernel implies.

    Args:
        inverse: the inverted kernel of the n rows, to whose columns the slopes belong.
        labels, groups: as in `ridge`.
    """
    means, weights, inverted = inverse
    mean, root = weights @ labels, np.sqrt(weights * len(weights))[:, None]
    dual = inverted @ ((labels - mean) * root)  # (n, k)
    residual = dual / inverted.diagonal()[:, None]
    for same in _rows_of_groups(groups):
        residual[same] = np.linalg.solve(inverted[same[:, :, None], same[:, None]], dual[same])
    coefficients = (root * dual).T  # (k, n); they sum to 0, since the labels are centred
    model = LinearModel(coefficients, mean - coefficients @ means)
    return model, labels - residual / root


def _decompose(centred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues (r,) and eigenvectors (p, r) of XᵀX for X (n, p), from the smaller of
    XᵀX and XXᵀ."""
    if len(centred) >= centred.shape[1]:
        return np.linalg.eigh(centred.T @ centred)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    large = values > SMALL * values[-1]
    values = values[large]
    return values, centred.T @ vectors[:, large] / np.sqrt(values)


def _rows_of_groups(groups: np.ndarray) -> list[np.ndarray]:
    """Return the rows (k, m) of the k groups that have m rows, for each m above 1."""
    _, counts = np.unique(groups, return_counts=True)
    order, first = np.argsort(groups, kind="stable"), np.cumsum(counts) - counts
    several = np.unique(counts[counts > 1])
    return [order[first[counts == m, None] + np.arange(m)] for m in several]


def _left_out(
    residual: np.ndarray,
    rotated: np.ndarray,
    shrinkage: np.ndarray,
    offset: np.ndarray,
    leverage: np.ndarray,
    together: list[np.ndarray],
) -> np.ndarray:
    """Return the residuals (n, k) of fits that leave the row or its group out.

    With the hat matrix H = R diag(s) Rᵀ + o oᵀ, whose diagonal is the leverage, they are
    r / (1 - H_ii), or (1 - H_gg)⁻¹ r_g for the rows g of one group.
    """
    result = residual / (1 - leverage.clip(max=1 - _TINY))[:, None]
    for rows in together:
        part, own = rotated[rows], offset[rows]  # (k, m, r), (k, m)
        hat = (part * shrinkage) @ part.swapaxes(1, 2) + own[:, :, None] * own[:, None]
        result[rows] = np.linalg.solve((1 + _TINY) * np.eye(rows.shape[1]) - hat, residual[rows])
    return result

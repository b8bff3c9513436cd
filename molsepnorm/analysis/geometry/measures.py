"""Measures of embeddings (n, d) of n molecules.

Differences within rounding count as zero. Sums are in float64; those of `uniformity` and
`alignment`, which may be losses, are in float32 or more, also under autocast.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.errors import DataError
from molsepnorm.sepnorm.kernels import at_least_float32

_ROUNDING = 16
"""Rounding errors of a network, in units of the type's epsilon and the embeddings' norm; 2 in
networks whose token is constant by construction."""
_PAIRED_AT_ONCE = 1024  # rows of the matrix of pairs in memory
_FOLDS = 5
_MIN_MOLECULES = 20  # with fewer, a fold is too small for a correlation
_STRENGTHS = np.logspace(-4, 4, 9)  # of ridge regression, on standardised channels


def singular_values(points: Tensor) -> Tensor:  # float64 (min(n, d),)
    """Return the singular values of the centred embeddings, in descending order.

    They are √n times the standard deviations along the principal axes; 0 within rounding.

    >>> values = singular_values(torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    >>> [round(value, 4) for value in values.tolist()]
    [4.2426, 1.4142]
    """
    centred, rounding = _centred(points)
    values = torch.linalg.svdvals(centred)
    return torch.where(values > rounding, values, 0)


def effective_rank(points: Tensor) -> float:
    r"""Return the number of directions of the spread: 1 for a line, d for a ball, 0 for a point.

    .. math:: \exp\Bigl(-\sum_k p_k \log p_k\Bigr), \qquad p_k = \sigma_k \Big/ \sum_l \sigma_l

    with σ the singular values of the centred embeddings.

    Source: Roy and Vetterli, "The effective rank", EUSIPCO 2007, definition 1.

    >>> effective_rank(torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0]]))
    2.0...
    """
    values = singular_values(points)
    total = values.sum()
    return float(torch.special.entr(values / total).sum().exp()) if total else 0.0


def uniformity(points: Tensor, t: float = 2.0) -> Tensor:  # ()
    r"""Return how evenly directions cover the sphere: 0 if all are equal, lower if more even.

    .. math:: \log \frac{1}{n (n - 1)} \sum_{i \ne j} e^{-t \, \lVert u_i - u_j \rVert^2},
        \qquad u_i = x_i / \lVert x_i \rVert

    Points spread evenly over a sphere in many dimensions have a uniformity near −2 t.

    Source: Wang and Isola, ICML 2020, arXiv 2005.10242, section 4.1.2.

    >>> uniformity(torch.tensor([[1.0, 0.0], [-2.0, 0.0]]))
    tensor(-8.)
    """
    count = _require_embeddings(points)
    with torch.autocast(points.device.type, enabled=False):
        directions = F.normalize(at_least_float32(points), dim=1)
        squares = directions.square().sum(1)  # 1, but for points at the origin
        sums = []
        for start in range(0, count, _PAIRED_AT_ONCE):
            some = slice(start, start + _PAIRED_AT_ONCE)
            products = directions[some] @ directions.T
            exponents = t * (2 * products - squares[some, None] - squares)
            exponents.diagonal(start).fill_(-torch.inf)  # itself
            sums.append(exponents.logsumexp(1))
        return torch.cat(sums).logsumexp(0) - math.log(count * (count - 1))


def alignment(points: Tensor, others: Tensor) -> Tensor:  # ()
    r"""Return the mean distance of two views of the same molecules: 0 if they agree, at most 4.

    .. math:: \frac1n \sum_i \lVert u_i - v_i \rVert^2,
        \qquad u_i = x_i / \lVert x_i \rVert, \quad v_i = y_i / \lVert y_i \rVert

    Source: Wang and Isola, ICML 2020, arXiv 2005.10242, section 4.1.1, with α = 2.

    >>> alignment(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 5.0]]))
    tensor(2.)

    Raises:
        DataError: the views differ in shape, or are no embeddings.
    """
    _require_embeddings(points, min_points=1)
    _require_embeddings(others, min_points=1)
    if points.shape != others.shape:
        raise DataError(
            f"two views of the same molecules have the same shape; got {tuple(points.shape)} and "
            f"{tuple(others.shape)}"
        )
    with torch.autocast(points.device.type, enabled=False):
        u, v = (F.normalize(at_least_float32(each), dim=1) for each in (points, others))
        return (u - v).square().sum(1).mean()


def mean_cosine(points: Tensor) -> float:
    """Return the mean cosine between two points: near 1 if all have the same direction.

    >>> mean_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]]))
    -0.33...
    """
    count = _require_embeddings(points)
    directions = F.normalize(points.double(), dim=1)
    lengths = directions.square().sum()  # n, but for points at the origin
    return float((directions.sum(0).square().sum() - lengths) / (count * (count - 1)))


def outlier_share(points: Tensor) -> float:
    """Return the share of the variance that the 5 % furthest points have; at least one point.

    It is 0.05 if all points are equally far from the mean, and near 1 if a few are far away.

    >>> round(outlier_share(torch.eye(20)[:, :1]), 3)  # one point at 1, the others at 0
    0.95
    """
    squares = _centred(points)[0].square().sum(1)
    furthest = squares.topk(max(1, round(0.05 * len(points)))).values
    return float(furthest.sum() / squares.sum().clamp(min=torch.finfo(torch.float64).tiny))


def correlate(points: Tensor, values: np.ndarray) -> float | None:
    """Return how well a number, such as a molecule's size or a label, can be read from embeddings.

    It is the mean over 5 folds of Pearson's r with the predictions of a ridge regression for the
    molecules left out of its fit. (A single r for all folds would be biased: the mean of a fold is
    missing from its training data.) It is None if fewer than 20 values are known, or if values or
    points are (almost) all equal.

    Args:
        values: float (n,); molecules with NaN are left out.
    """
    known = np.isfinite(values)
    x, spread, values = points.numpy()[known], _centred(points)[0].numpy()[known], values[known]
    if len(values) < _MIN_MOLECULES or not np.ptp(values) or not np.ptp(spread, axis=0).any():
        return None
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import KFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scores = []
    for fit, left_out in KFold(_FOLDS, shuffle=True, random_state=0).split(x):
        if np.ptp(values[fit]) and np.ptp(values[left_out]):
            ridge = make_pipeline(StandardScaler(), RidgeCV(_STRENGTHS)).fit(x[fit], values[fit])
            predicted = ridge.predict(x[left_out])
            r = float(np.corrcoef(predicted, values[left_out])[0, 1]) if np.ptp(predicted) else 0.0
            scores.append(r)
    return float(np.mean(scores)) if scores else None  # None for a single positive label


def _centred(points: Tensor) -> tuple[Tensor, float]:  # float64 (n, d)
    """Return the centred embeddings, 0 within rounding errors, and the size of these."""
    _require_embeddings(points)
    exact = points.double()
    rounding = _ROUNDING * torch.finfo(points.dtype).eps * float(torch.linalg.matrix_norm(exact))
    centred = exact - exact.mean(0)
    return torch.where(torch.linalg.matrix_norm(centred) > rounding, centred, 0), rounding


def _require_embeddings(points: Tensor, min_points: int = 2) -> int:
    if points.dim() != 2 or len(points) < min_points:
        raise DataError(
            f"embeddings must be (n, d) with n ≥ {min_points}; got {tuple(points.shape)}"
        )
    if not points.isfinite().all():
        raise DataError("embeddings must be finite; some values are NaN or infinite")
    return len(points)

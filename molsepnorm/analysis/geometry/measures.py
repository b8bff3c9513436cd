"""What a cloud of embeddings looks like, in a few numbers.

A cloud is a tensor (n, d): n molecules' embeddings of d channels, of any floating-point type: what
cannot be told from its rounding counts as nothing. Sums are in float64; those of `uniformity` and
`alignment`, which can be losses, in float32 or more, also under autocast.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.errors import DataError
from molsepnorm.sepnorm.kernels import at_least_float32

__all__ = [
    "alignment",
    "effective_rank",
    "mean_cosine",
    "outlier_share",
    "principal_map",
    "singular_values",
    "uniformity",
]

_ROUNDING = 16
"""Steps of the type of the embeddings that a network's rounding amounts to, beside their length: in
networks whose token is one and the same vector by construction it was 2."""

_PAIRED_AT_ONCE = 1024  # rows of the table of pairs that are in memory


def singular_values(points: Tensor) -> Tensor:  # float64 (min(n, d),)
    """Singular values of the centred cloud, from the largest: √n times its standard deviations
    along its principal axes; 0 for those within rounding.

    >>> values = singular_values(torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    >>> [round(value, 4) for value in values.tolist()]
    [4.2426, 1.4142]
    """
    centred, rounding = _centred(points)
    values = torch.linalg.svdvals(centred)
    return torch.where(values > rounding, values, 0)


def effective_rank(points: Tensor) -> float:
    r"""In how many directions a cloud spreads: 1 for a line, d for a ball, 0 for a point.

    .. math:: \exp\Bigl(-\sum_k p_k \log p_k\Bigr), \qquad p_k = \sigma_k \Big/ \sum_l \sigma_l

    with σ the singular values of the centred cloud.

    Source: Roy and Vetterli, "The effective rank: a measure of effective dimensionality", EUSIPCO
    2007, definition 1.

    >>> effective_rank(torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0]]))
    2.0...
    """
    values = singular_values(points)
    total = values.sum()
    if total == 0:
        return 0.0
    return float(torch.special.entr(values / total).sum().exp())


def uniformity(points: Tensor, t: float = 2.0) -> Tensor:  # ()
    r"""How evenly the directions of the points fill the sphere: 0 if all are one, less if better.

    .. math:: \log \frac{1}{n (n - 1)} \sum_{i \ne j} e^{-t \, \lVert u_i - u_j \rVert^2},
        \qquad u_i = x_i / \lVert x_i \rVert

    The least that points spread evenly over a sphere in many dimensions come to is near −2 t.

    Source: Wang and Isola, "Understanding contrastive representation learning through alignment
    and uniformity on the hypersphere", ICML 2020, arXiv 2005.10242, section 4.1.2.

    >>> uniformity(torch.tensor([[1.0, 0.0], [-2.0, 0.0]]))
    tensor(-8.)
    """
    count = _require_cloud(points)
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
    r"""How far two views of the same molecules lie apart: 0 if they agree, 4 at most.

    .. math:: \frac1n \sum_i \lVert u_i - v_i \rVert^2,
        \qquad u_i = x_i / \lVert x_i \rVert, \quad v_i = y_i / \lVert y_i \rVert

    Source: Wang and Isola, ICML 2020, arXiv 2005.10242, section 4.1.1, with α = 2.

    >>> alignment(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 5.0]]))
    tensor(2.)

    Raises:
        DataError: the clouds differ in shape, or are no clouds.
    """
    _require_cloud(points, fewest=1)
    _require_cloud(others, fewest=1)
    if points.shape != others.shape:
        raise DataError(
            f"two views of the same molecules have the same shape; got {tuple(points.shape)} and "
            f"{tuple(others.shape)}"
        )
    with torch.autocast(points.device.type, enabled=False):
        u, v = (F.normalize(at_least_float32(each), dim=1) for each in (points, others))
        return (u - v).square().sum(1).mean()


def mean_cosine(points: Tensor) -> float:
    """The mean cosine of two different points: near 1 where all point the same way.

    >>> mean_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]]))
    -0.33...
    """
    count = _require_cloud(points)
    directions = F.normalize(points.double(), dim=1)
    lengths = directions.square().sum()  # n, but for points at the origin
    return float((directions.sum(0).square().sum() - lengths) / (count * (count - 1)))


def outlier_share(points: Tensor, share: float = 0.05) -> float:
    """Of the cloud's variance, what the furthest of its points have: `share` itself where all are
    equally far from the mean, near 1 where a few lie far away and the others close together.

    >>> round(outlier_share(torch.eye(20)[:, :1]), 3)  # one point at 1, the others at 0
    0.95

    Args:
        points: (n, d).
        share: how many of them are the furthest, 0 to 1; at least one is.

    Raises:
        DataError: it is no share, or the points are no cloud.
    """
    if not 0 <= share <= 1:
        raise DataError(f"a share lies in 0 to 1; got {share}")
    centred, _ = _centred(points)
    squares = centred.square().sum(1)
    furthest = squares.topk(max(1, round(share * len(points)))).values
    return float(furthest.sum() / squares.sum().clamp(min=torch.finfo(torch.float64).tiny))


def principal_map(points: Tensor) -> tuple[Tensor, Tensor]:  # float64 (n, 2), (2,)
    """The cloud seen along its two longest axes, and which share of its variance each has.

    The sign of an axis is chosen so that its largest coordinate is positive. A cloud of a single
    channel has a second coordinate of zero.

    >>> _, shares = principal_map(torch.tensor([[0.0, 1.0], [0.0, -1.0], [3.0, 0.0], [-3.0, 0.0]]))
    >>> shares.tolist()
    [0.9..., 0.1...]
    """
    centred, _ = _centred(points)
    left, values, _ = torch.linalg.svd(centred, full_matrices=False)
    places = F.pad(left * values, (0, 2))[:, :2]
    furthest = places.gather(0, places.abs().argmax(0, keepdim=True))
    shares = F.pad(values.square(), (0, 2))[:2] / values.square().sum().clamp(min=1e-30)
    return places * torch.where(furthest < 0, -1, 1), shares


def _centred(points: Tensor) -> tuple[Tensor, float]:  # float64 (n, d)
    """The cloud about its mean, all zeros if that is rounding; and what rounding comes to."""
    _require_cloud(points)
    exact = points.double()
    rounding = _ROUNDING * torch.finfo(points.dtype).eps * float(torch.linalg.matrix_norm(exact))
    centred = exact - exact.mean(0)
    return torch.where(torch.linalg.matrix_norm(centred) > rounding, centred, 0), rounding


def _require_cloud(points: Tensor, fewest: int = 2) -> int:
    """How many points there are.

    Raises:
        DataError: fewer than `fewest`, not of shape (n, d), or not all are finite.
    """
    if points.dim() != 2 or len(points) < fewest:
        raise DataError(
            f"a cloud of embeddings has {fewest} points or more and the shape (n, d); got "
            f"{tuple(points.shape)}"
        )
    if not points.isfinite().all():
        raise DataError("embeddings must be finite: there are NaN or infinite values among them")
    return len(points)

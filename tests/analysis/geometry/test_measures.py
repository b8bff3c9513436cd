"""The measures equal closed forms and their definitions."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.special import iv
from torch import Tensor

from molsepnorm.analysis.geometry import (
    alignment,
    effective_rank,
    mean_cosine,
    outlier_share,
    singular_values,
    uniformity,
)
from molsepnorm.analysis.geometry.measures import correlate
from molsepnorm.errors import DataError


def gaussian(count: int, width: int, seed: int = 0) -> Tensor:
    """(count, width), isotropic."""
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed)).double()


def on_circle(count: int) -> Tensor:
    """(count, 2): evenly spaced."""
    angles = 2 * math.pi * torch.arange(count).double() / count
    return torch.stack([angles.cos(), angles.sin()], dim=1)


@pytest.mark.claim(
    "Effective rank, uniformity, alignment and cosine equal closed forms: a Gaussian, "
    "embeddings of rank one, points on a circle and on a sphere."
)
def test_an_isotropic_gaussian_fills_all_directions():
    points = 5 * gaussian(20_000, 8) + 3
    torch.testing.assert_close(
        singular_values(points) / 20_000**0.5, torch.full((8,), 5.0).double(), rtol=0.03, atol=0
    )
    assert effective_rank(points) == pytest.approx(8, rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_on_a_line_have_one_direction_at_any_offset(dtype):
    points = (gaussian(50, 1) * torch.arange(1.0, 6.0) + 1000).to(dtype)
    values = singular_values(points)
    spread = gaussian(50, 1) - gaussian(50, 1).mean()
    expected = spread.norm() * torch.arange(1.0, 6.0).double().norm()
    torch.testing.assert_close(values[0].double(), expected, rtol=1e-3, atol=0)
    assert effective_rank(points) == pytest.approx(1, abs=2e-3)


def test_effective_rank_of_a_known_spectrum():
    """Orthogonal directions with standard deviations 4, 2 and 1 (times √2)."""
    axes = torch.diag(torch.tensor([4.0, 2.0, 1.0]))
    points = torch.cat([axes, -axes])
    shares = [4 / 7, 2 / 7, 1 / 7]
    entropy = -sum(p * math.log(p) for p in shares)
    assert effective_rank(points) == pytest.approx(math.exp(entropy), rel=1e-5)


@pytest.mark.parametrize("count", [2, 3, 50])
@pytest.mark.parametrize("t", [0.5, 2.0])
def test_uniformity_of_points_evenly_spaced_on_a_circle(count, t):
    """All points have the same distances to the others, 2 sin(πk/n)."""
    chords = [(2 * math.sin(math.pi * k / count)) ** 2 for k in range(1, count)]
    expected = math.log(sum(math.exp(-t * chord) for chord in chords) / (count - 1))
    points = on_circle(count) * torch.linspace(0.1, 9, count).double()[:, None]
    assert float(uniformity(points, t)) == pytest.approx(expected)


@pytest.mark.parametrize("width", [2, 3, 8])
def test_uniformity_of_isotropic_points_is_that_of_the_sphere(width):
    """E exp(−2‖u − v‖²) = e⁻⁴ E exp(4 u·v), whose integral over the sphere is a Bessel function."""
    order = width / 2 - 1
    expected = -4 + math.log(math.gamma(width / 2) * (2 / 4) ** order * iv(order, 4))
    assert float(uniformity(gaussian(4000, width))) == pytest.approx(expected, abs=0.02)


def test_uniformity_and_cosine_are_means_over_pairs():
    points = gaussian(6, 3) + 1
    units = [point / point.norm() for point in points]
    pairs = list(permutations(units, 2))
    potential = sum(math.exp(-2 * float((u - v).square().sum())) for u, v in pairs) / len(pairs)
    assert float(uniformity(points)) == pytest.approx(math.log(potential))
    assert mean_cosine(points) == pytest.approx(sum(float(u @ v) for u, v in pairs) / len(pairs))


def test_alignment_of_turned_points_is_their_chord():
    """It is 4 sin²(φ/2) for points of any length."""
    turn = 0.3
    matrix = torch.tensor(
        [[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]
    ).double()
    points = on_circle(9)
    found = alignment(3 * points, points @ matrix.T)
    assert float(found) == pytest.approx(4 * math.sin(turn / 2) ** 2)
    assert float(alignment(points, points)) == 0
    assert float(alignment(points, -points)) == pytest.approx(4)


def test_the_outlier_share_of_equally_far_points_is_their_number():
    """Points on a circle are equally far; on a line the ends are the furthest."""
    assert outlier_share(on_circle(100) + 5) == pytest.approx(0.05)
    line = torch.arange(-50.0, 51.0).double()[:, None] - 3
    distances = sorted((place**2 for place in range(-50, 51)), reverse=True)
    assert outlier_share(line) == pytest.approx(sum(distances[:5]) / sum(distances))
    assert outlier_share(torch.ones(5, 3)) == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_rounding_errors_do_not_count_as_spread(dtype):
    """The points are one vector, computed with different sums for each molecule."""
    steps = torch.randint(-2, 3, (200, 16), generator=torch.Generator().manual_seed(0))
    vector = torch.linspace(1, 2, 16).double()
    points = (vector * (1 + steps.double() * torch.finfo(dtype).eps)).to(dtype)
    assert len(points.unique(dim=0)) > 100
    assert effective_rank(points) == 0
    assert outlier_share(points) == 0
    assert not singular_values(points).any()


def test_uniformity_in_pieces_and_of_points_without_direction():
    """There are more points than a block of pairs has; points at the origin coincide."""
    points = gaussian(2100, 3)
    directions = points / points.norm(dim=1, keepdim=True)
    pairs = torch.pdist(directions)
    expected = math.log(float((-2 * pairs.square()).exp().mean()))
    assert float(uniformity(points)) == pytest.approx(expected)
    assert float(uniformity(torch.zeros(3, 2))) == pytest.approx(0, abs=1e-7)
    half = torch.cat([torch.zeros(1, 2), torch.ones(1, 2)])
    assert float(uniformity(half)) == pytest.approx(-2)


def test_losses_under_autocast_are_exact():
    """They are computed in float32."""
    points = gaussian(50, 8).float()
    with torch.autocast("cpu", torch.bfloat16):
        found = uniformity(points), alignment(points, points.flip(0))
    torch.testing.assert_close(found, (uniformity(points), alignment(points, points.flip(0))))
    assert found[0].dtype is torch.float32


def test_measures_can_be_losses():
    """Gradients equal finite differences, at coinciding points too."""
    points = gaussian(5, 3).requires_grad_()
    torch.autograd.gradcheck(uniformity, points)
    torch.autograd.gradcheck(alignment, (points, gaussian(5, 3, seed=1)))
    same = torch.ones(4, 2, requires_grad=True)
    uniformity(same).backward()
    assert same.grad is not None and same.grad.isfinite().all()


def test_embeddings_that_are_not_finite_are_refused():
    with pytest.raises(DataError, match="must be finite"):
        effective_rank(torch.tensor([[1.0, 2.0], [torch.nan, 0.0]]))
    with pytest.raises(DataError, match="same shape"):
        alignment(torch.ones(3, 2), torch.ones(2, 2))
    with pytest.raises(DataError, match="must be finite"):
        alignment(torch.ones(1, 2), torch.tensor([[torch.nan, 0.0]]))
    with pytest.raises(DataError, match="with n ≥ 1"):
        alignment(torch.ones(0, 2), torch.ones(0, 2))


# Correlations with numbers that the embeddings contain, and with numbers that they do not

POINTS = gaussian(400, 5) * torch.tensor([10, 1, 1, 1, 1]) + 3


def test_a_number_is_found_on_the_longest_axis_or_in_a_weak_channel():
    for channel in (0, 3):
        assert correlate(POINTS, (1 - 2 * POINTS[:, channel]).numpy()) > 0.999


@pytest.mark.parametrize(("molecules", "channels"), [(30, 64), (100, 64), (20, 16)])
def test_noise_is_about_zero_on_average(molecules, channels):
    """A single correlation for all folds together would be −0.2 to −0.3, and one without folds
    nearly 1."""
    rng = np.random.default_rng(1)
    found = []
    for seed in range(40):
        points = gaussian(molecules, channels, seed)
        found.append(correlate(points, rng.normal(size=molecules)))
    assert abs(np.mean(found)) < 4 * np.std(found) / 40**0.5
    assert abs(np.mean(found)) < 0.12


def test_molecules_without_a_value_are_left_out():
    axis = POINTS[:, 0].numpy()
    known = np.where(np.arange(400) % 2, axis, np.nan)
    expected = correlate(POINTS[1::2], axis[1::2])
    assert correlate(POINTS, known) == pytest.approx(expected) and expected > 0.99
    for values in (np.ones(400), np.where(np.arange(400) < 19, axis, np.nan), np.eye(400)[7]):
        assert correlate(POINTS, values) is None  # equal, few, or a single positive label
    assert correlate(torch.ones(400, 5), axis) is None

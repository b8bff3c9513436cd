"""The kernel regression against a loop in float64."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor

from molsepnorm.model.parts.kernel import KernelRegression, TanimotoTo, matern, tanimoto
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, FeatureColumn

NONE = tuple(torch.empty(1, 0) for _ in range(4))
"""No counts, descriptors, pairs and columns."""


def filled(width: int, centers: int, outputs: int) -> KernelRegression:
    torch.manual_seed(0)
    head = KernelRegression(width, centers, outputs, NO_INPUTS)
    for name, buffer in head.named_buffers():
        if name not in ("counts", "pairs"):
            buffer.normal_()
    head.scale.uniform_(0.5, 2)
    return head


@pytest.mark.claim(
    "The kernel head is kernel ridge regression with the Matérn kernel of scikit-learn, or "
    "its Nyström approximation."
)
@pytest.mark.parametrize(("rows", "centers"), [(1, 1), (3, 4), (40, 60)])
def test_outputs_equal_a_loop_over_molecules_and_centres(rows: int, centers: int) -> None:
    head = filled(5, centers, 2)
    read = torch.randn(rows, 5)
    read[0] = head.centers[0] * head.scale + head.mean  # at the distance 0
    mean, scale, known, weight, bias = (
        each.double().tolist()
        for each in (head.mean, head.scale, head.centers, head.weight, head.bias)
    )
    expected = []
    for row in read.double().tolist():
        z = [(x - m) / s for x, m, s in zip(row, mean, scale, strict=True)]
        values = list(bias)
        for number, center in enumerate(known):
            squares = sum((a - b) ** 2 for a, b in zip(z, center, strict=True))
            distance = math.sqrt(3 * 0.1 / 5 * squares)
            for output in range(2):
                kernel = (1 + distance) * math.exp(-distance)
                values[output] += weight[output][number] * kernel
        expected.append(values)
    torch.testing.assert_close(head(read, *NONE), torch.tensor(expected), rtol=1e-5, atol=1e-5)


COLUMNS = (FeatureColumn("t"), FeatureColumn("solvent", ("water", "wine")))


@pytest.mark.parametrize("columns", [(), COLUMNS])
@pytest.mark.parametrize("counts", [0, 6])
@pytest.mark.parametrize("descriptors", [(), ("a", "b", "c")])
@pytest.mark.parametrize("pairs", [0, 5])
def test_the_distance_is_0_at_a_training_molecule_and_1_far_away(
    columns, counts, descriptors, pairs
) -> None:
    reads = ExtraInputs(columns, counts, descriptors, pairs)
    head = KernelRegression(4, 5, 1, reads)
    for name, value in (("centers", 1), ("counts", 3), ("descriptors", -10), ("pairs", 5)):
        getattr(head, name).fill_(value)
    for name in ("scale", "descriptor_scale", "column_scale", "column_weights"):
        getattr(head, name).fill_(1)
    sizes = 4, counts, len(descriptors), pairs, sum(reads.column_widths)
    values = 1.0, 3.0, -10.0, 5.0, 0.0
    near = [torch.full((1, size), each) for size, each in zip(sizes, values, strict=True)]
    far = [near[0] + 1000, 0 * near[1], near[2] + 1000, 0 * near[3], near[4] + 1000]
    distances = [head.distance(head.compare(*each)) for each in (near, far)]
    torch.testing.assert_close(torch.cat(distances), torch.tensor([0.0, 1.0]), atol=1e-3, rtol=0)


def test_a_column_of_weight_one_compares_molecules_under_similar_conditions_alone() -> None:
    torch.manual_seed(0)
    head = KernelRegression(5, 20, 1, ExtraInputs(COLUMNS))
    for name in ("centers", "columns", "weight"):
        getattr(head, name).normal_()
    head.scale.fill_(1)
    head.column_scale.fill_(1)
    words = torch.tensor([[2.0, -2.0], [-2.0, 2.0]])
    head.columns[:, 1:] = words[torch.arange(20) % 2]
    read, cells = torch.randn(6, 5), torch.randn(6, 3)
    cells[:, 1:] = words[0]
    kernel = matern(read, head.centers)
    gap = math.sqrt(3) * (cells[:, :1] - head.columns[:, 0]).abs()
    number = (1 + gap) * torch.exp(-gap)  # of the first column, a number
    same = torch.arange(20) % 2 == 0  # of the second one, a word
    for of_number, of_word in [(0, 0), (0.25, 0), (0, 1), (0.5, 0.75), (1, 1)]:
        head.column_weights.copy_(torch.tensor([of_number, of_word]))
        factor = (1 - of_number + of_number * number) * torch.where(same, 1.0, 1 - of_word)
        expected = (kernel * factor) @ head.weight.T
        found = head(read, *NONE[:3], cells)
        torch.testing.assert_close(found, expected, atol=2e-3, rtol=1e-3)


def test_half_precision_does_not_round_the_head() -> None:
    """The numbers of a head in bfloat16 would shift its outputs by 0.4 on ESOL."""
    head = filled(5, 40, 2)
    expected, read = head(torch.ones(3, 5), *NONE), torch.ones(3, 5, dtype=torch.bfloat16)
    network = torch.nn.Sequential(head, torch.nn.Linear(2, 2))
    for half in (network.bfloat16(), network.half()):
        assert half[1].weight.element_size() == 2
        assert torch.equal(head(read, *NONE), expected)
    assert network.double()[0].weight.dtype == torch.float64


def some_counts(molecules: int, columns: int = 30) -> Tensor:
    """Counts from 0 to 8, most of them 0."""
    return torch.randint(9, (molecules, columns)) * (torch.rand(molecules, columns) < 0.2)


def test_similarities_equal_a_loop_over_counts() -> None:
    """Counts above 4 are compared as 4."""
    torch.manual_seed(0)
    queries, known = some_counts(7), some_counts(11)
    found = TanimotoTo(known.byte())(queries.float())
    for row, one in zip(found.tolist(), queries.clamp(max=4).tolist(), strict=True):
        for value, other in zip(row, known.clamp(max=4).tolist(), strict=True):
            pairs = list(zip(one, other, strict=True))
            larger = sum(max(pair) for pair in pairs)
            assert abs(value - sum(min(pair) for pair in pairs) / max(larger, 1)) < 1e-6


def test_similarities_equal_the_plain_function_bit_by_bit() -> None:
    """Also for molecules without counts, first, last and in between, and for no molecules."""
    torch.manual_seed(1)
    known = some_counts(60, 500).byte()
    queries = some_counts(40, 500).float()
    queries[[0, 17, 18, -1]] = 0
    similar = TanimotoTo(known)
    for part in (queries, queries[:1], queries[:0], queries.double()):
        assert torch.equal(similar(part, part.dtype), tanimoto(part, known))


def test_a_regression_reads_the_counts_that_it_has_now() -> None:
    """The table is made again when other counts are loaded, also in a copy of the regression."""
    torch.manual_seed(2)
    queries = torch.zeros(5, 2), some_counts(5), *NONE[:2], NONE[3]
    reads = ExtraInputs(morgan=30)
    head, other = (KernelRegression(2, 9, 1, reads) for _ in range(2))
    for each in (head, other):
        each.scale.fill_(1)
        each.counts.copy_(some_counts(9))
        each.weight.fill_(1)
        each(*queries)  # makes the table
    copied = copy.deepcopy(head)
    for each in (head, copied):
        before = each(*queries)
        each.load_state_dict(other.state_dict())
        torch.testing.assert_close(each(*queries), other(*queries))
        assert not torch.allclose(each(*queries), before)
    head.counts = torch.zeros_like(head.counts)
    torch.testing.assert_close(head(*queries), torch.full((5, 1), 9.0))  # all at the distance 0

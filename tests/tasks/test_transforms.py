"""Transforms: units, both scales, and targets that have one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.transforms import transform_of

VALUES = np.array([1e-3, 0.5, 1.0, 12.3, 1e5, np.nan])
MOLAR = {"pM": 1e-12, "nM": 1e-9, "uM": 1e-6, "mM": 1e-3, "M": 1.0}  # mol/L


@pytest.mark.parametrize("unit", MOLAR)
def test_pic50_is_the_negative_logarithm_of_mol_per_litre(unit):
    transform = transform_of(f"pic50:{unit}", "y")
    expected = [-math.log10(value * MOLAR[unit]) for value in VALUES[:-1]]
    np.testing.assert_allclose(transform.forward(VALUES), [*expected, np.nan], atol=1e-12)
    np.testing.assert_allclose(transform.inverse(transform.forward(VALUES)), VALUES, rtol=1e-12)


def test_a_value_that_is_too_large_for_its_type_is_infinite():
    inverse = transform_of("log10", "y").inverse
    assert inverse(np.array([2.0, 50.0], np.float32)).tolist() == [100.0, math.inf]


@pytest.mark.parametrize(
    ("target", "unit"),
    [
        *[("ic50_nM", "nM"), ("IC50 (nM)", "nM"), ("IC50[uM]", "uM"), ("ic50/µM", "uM")],
        *[("ki μM", "uM"), ("ic50_nm", "nM"), ("ic50-mM", "mM"), ("EC50 M", "M"), ("pM", "pM")],
    ],
)
def test_the_unit_is_the_last_word_of_the_target(target, unit):
    assert transform_of("pic50", target).name == f"pic50:{unit}"
    assert transform_of("pic50:nM", target).name == "pic50:nM"


def test_a_task_predicts_both_scales():
    """In the unit of the table first; a target without a transform has one column."""
    task = Task(
        (
            Target("ic50_nM", "regression", mean=7.0, scale=2.0, transform="pic50:nM"),
            Target("logS", "regression"),
        ),
        "mae",
    )
    predictions = task.predictions(torch.tensor([[0.5, 0.25], [torch.nan, 0.0]])).numpy()
    assert predictions[0].tolist() == [8.0, 0.25]
    first, second = task.tables(predictions)
    assert list(first) == ["ic50_nM_pred", "ic50_nM_pic50_pred"]
    np.testing.assert_allclose(first["ic50_nM_pred"], [10.0, np.nan], rtol=1e-6)
    np.testing.assert_allclose(first["ic50_nM_pic50_pred"], [8.0, np.nan])
    assert list(second) == ["logS_pred"]


def test_the_standardisation_is_that_of_the_transformed_labels():
    labels = np.log10([[1.0], [100.0]])
    task = Task.fit([Target("y", "regression", transform="log10")], labels)
    assert task.targets == (Target("y", "regression", 1.0, 1.0, transform="log10"),)

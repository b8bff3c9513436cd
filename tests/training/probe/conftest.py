"""A random generator, the same for each test."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)

"""The device of a computation."""

from __future__ import annotations

import pytest
import torch

from molsepnorm.devices import pick_device
from molsepnorm.errors import ConfigError


def test_a_device_is_found_by_its_name() -> None:
    """An unknown name is an error that lists the devices."""
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ConfigError, match=r"there is no device 'cuda:99' here. .*cpu"):
        pick_device("cuda:99")

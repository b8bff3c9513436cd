"""The encodings as a transform of PyTorch Geometric."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from molsepnorm.errors import ConfigError
from molsepnorm.interop.transform import AddShortestPathEncoding

ALL = {
    "bond_sizes": (4, 2),
    "bond_offset": 1,
    "max_degree": 7,
    "max_distance": 9,
    "max_path_length": 5,
}


def test_the_repr_makes_the_same_transform_again():
    transform = AddShortestPathEncoding(**ALL)
    again = eval(repr(transform))
    assert (again.spec, again.bond_offset) == (transform.spec, transform.bond_offset)
    assert repr(again) == repr(transform)
    for name, value in ALL.items():
        assert f"{name}={value}" in repr(transform)


@pytest.mark.parametrize("name", ALL)
def test_the_repr_differs_where_an_argument_does(name):
    """PyTorch Geometric would take another transform's processed files otherwise."""
    changed = (4, 3) if name == "bond_sizes" else ALL[name] + 1
    assert repr(AddShortestPathEncoding(**{**ALL, name: changed})) != repr(
        AddShortestPathEncoding(**ALL)
    )


def test_the_offset_must_be_given_and_is_subtracted():
    with pytest.raises(ConfigError, match="bond_offset is missing: pass the attribute of the"):
        AddShortestPathEncoding((3,))
    for offset in (0, 1):
        data = Data(
            x=torch.zeros(2, 1, dtype=torch.long),
            edge_index=torch.tensor([[0, 1], [1, 0]]),
            edge_attr=torch.tensor([2, 2]),
        )
        encoded = AddShortestPathEncoding((3,), bond_offset=offset, max_path_length=1)(data)
        assert encoded.pair_path.view(2, 2).tolist() == [[-1, 2 - offset], [2 - offset, -1]]

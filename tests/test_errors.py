"""One text is not taken for several, whose letters would be molecules."""

from __future__ import annotations

import pytest

from molsepnorm.errors import ConfigError, require_several


@pytest.mark.parametrize("values", ["CCO", {"C", "CC"}])
def test_one_text_and_what_has_no_order_are_refused(values):
    with pytest.raises(ConfigError, match="list"):
        require_several(values, "smiles")

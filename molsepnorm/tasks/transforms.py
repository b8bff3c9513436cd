"""Transforms of regression targets: from the unit of the table to the scale that is learned."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from molsepnorm.errors import ConfigError, did_you_mean

_DIGITS = 9  # which identify every float32
NO_TRANSFORM = "none"
"""Name of the transform that changes nothing."""

_OFFSETS = {"pM": 12, "nM": 9, "uM": 6, "mM": 3, "M": 0}
"""-log10 of each unit of concentration in mol/L."""
_UNITS = {"pm": "pM", "nm": "nM", "um": "uM", "µm": "uM", "μm": "uM", "mm": "mM"}
"""Spellings of the units; the micro sign has two characters."""
_NAMES = (NO_TRANSFORM, "log10", "pic50")


@dataclass(frozen=True)
class Transform:
    """y = offset + sign * log10(x), for a number x > 0 of a table.

    >>> pic50 = transform_of("pic50:nM", "activity")
    >>> pic50.forward(np.array([10.0, 1000.0])).tolist()
    [8.0, 6.0]
    >>> pic50.inverse(np.array([8.0])).round(6).tolist()
    [10.0]
    """

    name: str
    """log10, or pic50:UNIT."""
    sign: int
    """1, or -1 if a larger x has a smaller y."""
    offset: float

    @property
    def scale(self) -> str:
        """log10 or pic50."""
        return self.name.partition(":")[0]

    @property
    def unit(self) -> str:
        """Unit of the numbers in the table; empty for log10."""
        return self.name.partition(":")[2]

    def __str__(self) -> str:
        if self.scale == "log10":
            return "log10"
        return f"pic50 = {self.offset:g} - log10(value in {self.unit})"

    def forward(self, values: np.ndarray) -> np.ndarray:
        return self.offset + self.sign * np.log10(values)

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Return x for each y; infinity if x is too large for the type of y."""
        with np.errstate(over="ignore"):
            numbers = 10.0 ** (self.sign * (values.astype(np.float64) - self.offset))
            return numbers.astype(values.dtype)

    def cells(self, labels: np.ndarray) -> np.ndarray:  # float64 (n,)
        """Return the numbers of the table with as few digits as their float32 labels allow, such as
        0.65 where `inverse` gives 0.649999."""
        exact = self.inverse(labels.astype(np.float64))
        numbers = exact.copy()
        for digits in range(_DIGITS, 0, -1):
            rounded = np.array([float(f"{value:.{digits}g}") for value in exact])
            same = self.forward(rounded.astype(np.float32)) == labels  # as labels are read
            numbers[same] = rounded[same]
        return numbers


def unit_in(target: str) -> str | None:
    """Return the last word of a target's name if it is a unit of concentration.

    >>> unit_in("ic50_nM"), unit_in("IC50 (µM)"), unit_in("activity")
    ('nM', 'uM', None)
    """
    return _known_unit(re.split(r"[^\wµμ]|_", target.rstrip(")] "))[-1])


def _known_unit(written: str) -> str | None:
    if written in _OFFSETS:
        return written
    # MM is no unit, since upper case may have made it of mM or of µM
    return _UNITS.get(written if written[:1] == "M" else written.lower())


def transform_of(name: str, target: str) -> Transform | None:
    """Return the transform of a target; None for `none`.

    The names are none, log10, pic50:UNIT with the unit pM, nM, uM, mM or M, and pic50, whose unit
    is the last word of the target's name, such as ic50_nM. An unknown transform or unit is a
    `ConfigError`.
    """
    kind, colon, text = (part.strip() for part in name.partition(":"))
    if kind.lower() == "pic50":
        unit = _known_unit(text) if colon else unit_in(target)
        if unit is not None:
            return Transform(f"pic50:{unit}", -1, float(_OFFSETS[unit]))
        problem = f"'{text}' is no unit" if colon else f"the unit of '{target}' is not in its name"
        full = "" if colon else "; if the column has a longer name, write that"
        units = ", ".join(_OFFSETS)
        raise ConfigError(
            f"{problem}: write {target}=pic50:nM, or another of the units {units}{full}"
        )
    if name == "log10":
        return Transform(name, 1, 0.0)
    if name != NO_TRANSFORM:
        raise ConfigError(f"unknown transform '{name}' of '{target}'. {did_you_mean(name, _NAMES)}")
    return None

"""Scores as text, for people."""

from __future__ import annotations

__all__ = ["significant"]


def significant(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits, for people.

    >>> [significant(value) for value in (0.693004, 3.42028e-28, 0.5, 123456.7, -0.0)]
    ['0.6930', '3.420e-28', '0.5000', '123457', '0.000']
    """
    text, whole = f"{value + 0.0:#.{digits}g}", f"{value:.0f}"  # + 0.0 removes the sign of -0.0
    return whole if digits <= len(whole.lstrip("-")) < 10 else text.removesuffix(".")

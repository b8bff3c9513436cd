"""Numbers as text, for people."""

from __future__ import annotations

from collections.abc import Sequence


def significant(value: float | None, digits: int = 4, none: str = "undefined") -> str:
    """Return a score with `digits` significant digits, or `none` if it is None.

    >>> [significant(value) for value in (0.693004, 3.42028e-28, 0.5, 123456.7, -0.0, None)]
    ['0.6930', '3.420e-28', '0.5000', '123457', '0.000', 'undefined']
    """
    if value is None:
        return none
    text, whole = f"{value + 0.0:#.{digits}g}", f"{value:.0f}"  # + 0.0 removes the sign of -0.0
    return whole if digits <= len(whole.lstrip("-")) < 10 else text.removesuffix(".")


def signed(value: float, digits: int = 4) -> str:
    """Return a difference with its sign and `digits` significant digits.

    >>> signed(2.5e-6), signed(-0.0123456)
    ('+2.500e-06', '-0.01235')
    """
    return f"{'+' if value > 0 else ''}{significant(value, digits)}"


def between(ends: Sequence[float] | None, digits: int = 4) -> str:
    """Return an interval, such as "0.6930 to 0.7100", or "—" if it is None."""
    return "—" if ends is None else " to ".join(significant(end, digits) for end in ends)


def four_digits(value: float) -> str:
    """Return a label with four significant digits, without the zeros at their end.

    >>> four_digits(0.6930041), four_digits(123456.7), four_digits(3.42028e-28)
    ('0.693', '123,457', '3.42e-28')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"

"""Numbers as text, for people."""

from __future__ import annotations

__all__ = ["four_digits", "significant"]


def significant(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits, for people.

    >>> [significant(value) for value in (0.693004, 3.42028e-28, 0.5, 123456.7, -0.0)]
    ['0.6930', '3.420e-28', '0.5000', '123457', '0.000']
    """
    text, whole = f"{value + 0.0:#.{digits}g}", f"{value:.0f}"  # + 0.0 removes the sign of -0.0
    return whole if digits <= len(whole.lstrip("-")) < 10 else text.removesuffix(".")


def four_digits(number: float) -> str:
    """Return a number with four significant digits, without the zeros at their end.

    >>> four_digits(0.6930041), four_digits(123456.7), four_digits(3.42028e-28)
    ('0.693', '123,457', '3.42e-28')
    """
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e9 else f"{number:.4g}"

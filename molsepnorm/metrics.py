"""Scores of predictions against labels."""

from __future__ import annotations

from typing import Literal

__all__ = ["Kind"]

Kind = Literal["regression", "binary", "multiclass"]
"""What a target is: a number, yes or no, or one of several classes."""

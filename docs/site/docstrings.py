"""An extension of Griffe: examples in docstrings are set as code.

Docstrings of this package show examples as doctests in the text, without a heading.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["FencedExamples", "fenced"]

_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """Return a docstring with a fence around each doctest, up to the next blank line."""

    def fence(found: re.Match[str]) -> str:
        code = re.sub(r"[ \t]*# doctest:.*", "", found[0])
        return f"{found[1]}```pycon\n{code}\n{found[1]}```"

    return _EXAMPLE.sub(fence, text)


class FencedExamples(griffe.Extension):
    """Fences the examples of all docstrings when they are read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

"""The frame of all HTML pages, and tables in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from jinja2 import Environment, PackageLoader, Template, select_autoescape


def template(package: str, name: str, **filters: Any) -> Template:
    """Return a Jinja template in the folder of a package. Texts in HTML are escaped."""
    environment = Environment(
        loader=PackageLoader(package, ""),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= filters
    return environment.get_template(name)


def page(title: str, heading: str, body: str, version: str, style: str = "") -> str:
    """Return a self-contained page without scripts. The title and the heading are plain text, the
    body is HTML, and `style` is further CSS."""
    frame = template(__package__, "page.html")
    return frame.render(title=title, heading=heading, body=body, version=version, style=style)


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return a table of plain texts, which scrolls where it is wider than the page.

    >>> table([("a<b", "1")])
    '<div class="wide"><table><tbody><tr><td>a&lt;b</td><td>1</td></tr></tbody></table></div>'
    """

    def line(cells: Sequence[str], kind: str) -> str:
        return f"<tr>{''.join(f'<{kind}>{escape(text)}</{kind}>' for text in cells)}</tr>"

    first = f"<thead>{line(head, 'th')}</thead>" if head else ""
    body = "".join(line(cells, "td") for cells in rows)
    return f'<div class="wide"><table>{first}<tbody>{body}</tbody></table></div>'

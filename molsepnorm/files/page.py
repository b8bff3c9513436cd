"""The frame and the style that all HTML pages share: self-contained, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from jinja2 import Environment, PackageLoader, Template, select_autoescape

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"

_STYLE = """
:root { color-scheme: light dark; --line: #dcdfe3; --soft: #59616b; --text: #1c2024; --back: #fff;
        --accent: #0b6fa4; --quiet: #8d98a5; --panel: #f6f8fa }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a4048; --soft: #a9b2bd; --text: #e8eaed; --back: #15181c; --accent: #66bdec;
          --quiet: #7d8894; --panel: #1d2126 } }
* { box-sizing: border-box }
body { font: 15px/1.55 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto;
       padding: 0 1rem; color: var(--text); background: var(--back); overflow-wrap: break-word }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .6rem; overflow-wrap: anywhere }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; padding-top: .9rem;
     border-top: 1px solid var(--line); overflow-wrap: anywhere }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; overflow-wrap: anywhere }
p, ul, dl { max-width: 75ch }
a { color: var(--accent) }
code { overflow-wrap: anywhere; font-size: .92em }
pre { overflow-x: auto; background: var(--panel); border: 1px solid var(--line);
      border-radius: .4rem; padding: .7rem .9rem; font-size: .85rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .28rem 1.1rem .28rem 0; text-align: right; border-bottom: 1px solid var(--line);
         vertical-align: top; white-space: nowrap }
th { font-weight: 600; color: var(--soft); white-space: normal }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere;
                                min-width: 9rem; white-space: normal }
.wide { overflow-x: auto; margin: .6rem 0 }
.bar { height: 1rem; border: 1px solid var(--line) }
.ends { display: flex; justify-content: space-between }
.bars { max-width: 30rem; margin: .8rem 0 }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr));
         gap: 1rem }
.card { border: 1px solid var(--line); border-radius: .4rem; padding: .7rem; min-width: 0 }
.card svg { width: 100%; height: auto; background: #fff; border-radius: .3rem }
.soft { color: var(--soft) }
dt { font-weight: 600 } dd { margin: 0 0 .4rem }
summary { cursor: pointer }
@media print {
  :root { --line: #ccc; --soft: #444; --text: #000; --back: #fff; --accent: #0b6fa4; --quiet: #777;
          --panel: #fff; font-size: 12px }
  body { font-size: 1rem; margin: 0; max-width: none }
  h2, h3 { break-after: avoid } figure, .card, tr { break-inside: avoid } }
"""
# the rules for print are last, because a later rule replaces an earlier one


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
    """Return a page that loads nothing from elsewhere and runs no script. The title and the heading
    are plain text, the body is HTML with escaped texts, and `style` is further CSS."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title><style>{_STYLE}{style}</style></head>
<body><main>
<h1>{escape(heading)}</h1>
{body}
</main><footer><p class="soft">molsepnorm {escape(version)}</p></footer>
</body></html>
"""


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return a table of plain texts, which scrolls by itself where it is wider than the page.

    >>> table([("a<b", "1")])
    '<div class="wide"><table><tbody><tr><td>a&lt;b</td><td>1</td></tr></tbody></table></div>'
    """

    def line(cells: Sequence[str], kind: str) -> str:
        return f"<tr>{''.join(f'<{kind}>{escape(text)}</{kind}>' for text in cells)}</tr>"

    first = f"<thead>{line(head, 'th')}</thead>" if head else ""
    body = "".join(line(cells, "td") for cells in rows)
    return f'<div class="wide"><table>{first}<tbody>{body}</tbody></table></div>'

"""Hooks of MkDocs that build the site from the pages of this repository.

- Pages and pictures outside docs/ are part of the site: those that nav names or that a page links.
- Tutorials are run, and the outputs stand below their examples (`examples.py`).
- The reference of the command line is written from the commands (`command_line.py`).
- Formulas become MathML, so that no script and no font is needed.
- Scripts of other projects, for diagrams and for search without a server, are files of the site.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from shutil import copytree
from typing import Any

from command_line import commands_page
from examples import BLOCK
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority, get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

TOP = Path(__file__).parents[2]
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md")
EXECUTED = ("quick-start.md", "tutorial-assay.md", "tutorials/")
SCRIPTS = ("mermaid.min.js", "iframe-worker.js")
_HIDDEN = {"index.md": ["navigation", "toc"], "settings.md": ["toc"]}  # columns beside wide pages
_LINK = re.compile(r"(\[[\w-]+\.md)?\]\(([^)\s#:]+)(#[^)\s]*)?\)")  # the text only if it is a file
_FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.DOTALL | re.MULTILINE)
_PICTURE = re.compile(r'<img alt="([^"]*)" src="([^"]*figures/[\w-]+\.svg)"\s*/?>')
_ITEM = re.compile(r" *(?:[-*+]|\d+[.)]) |    ")  # a line of a list
_PRIME = re.compile(r"<msup>(<mi>\w</mi>)<mi>(&#x0203[23];)</mi></msup>")
_DIAGRAM = re.compile(r'(<pre class="mermaid">.*?</pre>)', re.DOTALL)
_STYLES = re.compile(r"<style scoped>.*?</style>", re.DOTALL)

log = get_plugin_logger("molsepnorm")
_outputs: dict[str, list[dict[str, str]]] = {}  # page -> outputs of its examples


@event_priority(100)  # before the plugin `offline` names a script on another host
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Register MathML, and the script that makes search work without a server."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {})
    fences.setdefault("custom_fences", []).append(
        {"name": "math", "class": "math", "format": _mathml}
    )
    config.extra["polyfills"] = ["assets/javascripts/iframe-worker.js"]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/, the written reference and the scripts; run the tutorials."""
    pages = [file for file in files if file.src_uri.endswith(".md")]
    for path in _linked([TOP / "docs" / file.src_uri for file in pages]):
        source = str(path.relative_to(TOP))
        files.append(File.generated(config, source, abs_src_path=str(path)))
    files.append(File.generated(config, "reference/commands.md", content=commands_page()))
    scripts = Path(config.extra["scripts"])
    for name in SCRIPTS:
        if not (path := TOP / scripts / name).is_file():
            raise PluginError(f"{path} is missing; `make docs` fetches it")
        target = f"assets/javascripts/{name}"
        files.append(File.generated(config, target, abs_src_path=str(path)))
    executed = [file.src_uri for file in pages if file.src_uri.startswith(EXECUTED)]
    if config.extra["examples"] != "skip":
        _run(executed, reuse=config.extra["examples"] == "reuse")
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links between files of the repository links of the site, and mark places of outputs."""
    page.meta["hide"] = _HIDDEN.get(page.file.src_uri, [])
    here = _source(page.file.src_uri)
    code = [found.span() for found in _FENCE.finditer(markdown)]

    def moved(link: re.Match[str]) -> str:
        if any(start <= link.start() < end for start, end in code):
            return link[0]
        target = Path(os.path.normpath(here.parent / link[2]))
        if not target.is_file():
            return link[0]  # of a generated page; MkDocs reports it if it does not exist
        start = posixpath.dirname(page.file.src_uri) or "."
        text = f"[{_title(target)}" if link[1] else ""
        return f"{text}]({posixpath.relpath(_address(target), start)}{link[3] or ''})"

    text = lists_of_four(_LINK.sub(moved, markdown))
    if page.file.src_uri in _outputs:
        numbers = iter(range(len(_outputs[page.file.src_uri])))
        text = BLOCK.sub(
            lambda block: f'{block[0]}\n\n<div id="output-{next(numbers)}"></div>\n', text
        )
    return text


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put outputs in their places, drawings into the page, and the script beside its diagrams."""
    for number, output in enumerate(_outputs.get(page.file.src_uri, ())):
        html = html.replace(f'<div id="output-{number}"></div>', _shown(output))
    html = _PICTURE.sub(_drawing, html)
    if page.file.src_uri == "index.md":
        html = f'<div class="front">{html}</div>'
    if 'class="mermaid"' in html:
        script = get_relative_url("assets/javascripts/mermaid.min.js", page.url)
        html = _DIAGRAM.sub(r'<div class="diagram">\1</div>', html)  # scrolls where it is too wide
        html += f'<script src="{script}"></script>'
    return html


def lists_of_four(markdown: str) -> str:
    """Return Markdown whose lists are read by Python-Markdown as CommonMark reads them.

    The content of an item is indented by four spaces for each level, in place of the width of the
    item's mark, and a mark after a paragraph has a blank line before it.
    """
    lines: list[str] = []
    levels: list[int] = []  # column at which the content of each open item starts
    fence = ""
    loose = False  # the last item has several paragraphs
    for line in markdown.split("\n"):
        text = line.lstrip(" ")
        indent = len(line) - len(text)
        while text and levels and indent < levels[-1] and not fence:
            levels.pop()
        start = levels[-1] if levels else 0
        shift = 4 * len(levels) + max(indent - start, 0)
        mark = re.match(r"(?:[-*+]|\d+[.)]) +(?=\S)", text)
        if not fence and mark and indent - start < 4:
            if lines and lines[-1] and (loose or not (levels or _ITEM.match(lines[-1]))):
                lines.append("")
            loose = False
            shift = 4 * len(levels)
            levels.append(indent + mark.end())
        if found := re.match(r"```+|~~~+", text):
            fence = "" if fence and text.startswith(fence) else fence or found[0]
        loose = loose or (not text and bool(levels) and not fence)
        lines.append(" " * shift + text if text else "")
    return "\n".join(lines)


def _source(src_uri: str) -> Path:
    """Return the file of the repository that a page of the site is made from."""
    inside = TOP / "docs" / src_uri
    return inside if inside.is_file() else TOP / src_uri


def _address(path: Path) -> str:
    """Return the place of a file of the repository in the site's sources."""
    if path == TOP / "README.md":
        return "index.md"
    docs = TOP / "docs"
    return (
        path.relative_to(docs) if path.is_relative_to(docs) else path.relative_to(TOP)
    ).as_posix()


def _title(path: Path) -> str:
    """Return the heading of a page, or the name of another file."""
    found = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else path.name


def _linked(pages: list[Path]) -> list[Path]:
    """Return the files outside docs/ that these pages link, directly or through one another."""
    found = {TOP / name: None for name in OUTSIDE}
    queue = [*pages, *found]
    while queue:
        page = queue.pop()
        if page.suffix != ".md" or not page.is_file():
            continue
        for link in _LINK.finditer(page.read_text(encoding="utf-8")):
            path = Path(os.path.normpath(page.parent / link[2]))
            outside = path.is_relative_to(TOP) and not path.is_relative_to(TOP / "docs")
            if path.is_file() and outside and path not in found and path != TOP / "README.md":
                found[path] = None
                queue.append(path)
    return list(found)


def _run(pages: list[str], reuse: bool) -> None:
    """Run the examples of some pages, two pages at once."""
    with ThreadPoolExecutor(2) as pool:
        _outputs.update(
            zip(pages, pool.map(lambda page: _run_page(page, reuse), pages), strict=True)
        )


def _run_page(page: str, reuse: bool) -> list[dict[str, str]]:
    """Return the outputs of a page's examples, run in a new process and an empty folder.

    With `reuse`, outputs of an earlier build are returned if the page has not changed since.
    """
    source = TOP / "docs" / page
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    store = TOP / ".cache" / "docs" / f"{page.replace('/', '-')}.{digest}.json"
    if not (reuse and store.is_file()):
        store.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            copytree(TOP / "data", Path(folder, "data"))
            # as wide as a page; a fixed number of threads, so that training repeats
            settings = {"COLUMNS": "96", "OMP_NUM_THREADS": "1", "TMPDIR": folder}
            settings["MOLSEPNORM_CACHE"] = f"{folder}/cache"
            settings["PYTHONPATH"] = os.pathsep.join([str(TOP), os.environ.get("PYTHONPATH", "")])
            command = [sys.executable, str(TOP / "docs/site/examples.py"), str(source), str(store)]
            done = subprocess.run(
                command, cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True
            )
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            reason = [line for line in lines if "ExampleError: " in line]
            raise PluginError("\n".join(["an example failed:", *(reason or lines[-20:])]))
        log.info(f"{page}: examples run")
    return json.loads(store.read_text(encoding="utf-8"))


def _shown(output: dict[str, str]) -> str:
    """Return the HTML of an output; nothing if the example printed nothing."""
    text = output["text"].rstrip()
    parts = [f"<pre><code>{escape(text)}</code></pre>"] if text else []
    if output["html"]:
        html = _STYLES.sub("", output["html"])  # pandas' own, which would hold for the whole page
        parts.append(f'<div class="drawn">{html}</div>')
    if not parts:
        return ""
    return f'<div class="output" role="group" aria-label="Output">{"".join(parts)}</div>'


def _drawing(picture: re.Match[str]) -> str:
    """Return a figure of docs/figures as part of the page, where it follows the page's colours."""
    svg = (TOP / "docs" / "figures" / posixpath.basename(picture[2])).read_text(encoding="utf-8")
    return f'<span class="drawing" role="img" aria-label="{picture[1]}">{svg}</span>'


def _mathml(source: str, *_: Any, **__: Any) -> str:
    """Return a formula as MathML, which browsers set without a script.

    Raises:
        PluginError: the formula has a command that `latex2mathml` does not know.
    """
    tex = " ".join(source.split())
    for known, here in (("{aligned}", "{align*}"), (r"\Big\Vert", r"\Vert")):
        tex = tex.replace(known, here)
    html = convert(tex, display="block")
    if "\\" in html.partition(">")[2] or "<mi>&</mi>" in html:
        raise PluginError(f"latex2mathml cannot read the whole formula {tex}")
    html = _PRIME.sub(r'<mrow>\1<mo lspace="0" rspace="0">\2</mo></mrow>', html)
    return f'<div class="formula">{html}</div>'

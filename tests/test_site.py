"""The site: its tutorials run, it is complete, and it loads nothing from another host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import numpy as np
import pytest
from examples import Example, ExampleError, Output, examples, run

from molsepnorm.cli import main

TOP = Path(__file__).parents[1]
DOCS = TOP / "docs"
INTEROP = sorted(path.stem for path in (TOP / "molsepnorm" / "interop").glob("[a-z]*.py"))
MODULES = ("", ".sepnorm", ".analysis", *(f".interop.{name}" for name in INTEROP))


def outputs(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, rows: int = 3000
) -> list[Output]:
    """Run the examples of a page in a folder with a copy of data/, whose table has so many rows."""
    shutil.copytree(TOP / "data", folder / "data")
    lines = (TOP / "data" / "demo.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "data" / "demo.csv").write_text("".join(lines[: rows + 1]), encoding="utf-8")
    monkeypatch.chdir(folder)
    return list(run(examples(DOCS / page)))


def test_quick_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check, train, predict, frame, drawn, explain = outputs(
        "quick-start.md", tmp_path, monkeypatch, 100
    )
    assert "100 different molecules" in check.text
    assert "Conclusion:" in train.text
    assert "3 rows; 1 could not be predicted, see the column error" in predict.text
    assert "radius_of_gyration_low" in frame.html and "in_domain" in frame.html
    assert "<svg" in drawn.html and "<svg" in explain.html
    assert (tmp_path / "runs/shape/report.html").is_file()


def test_pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, frame, best, scores, twins, data, losses, lightning, trainer, encoded = outputs(
        "tutorials/pipelines.md", tmp_path, monkeypatch
    )
    assert "c1ccccc<" in frame.html and "unclosed ring" in frame.html
    assert "<svg" in best.html and "test_r2" in scores.html
    one, other = map(float, re.findall(r"-?\d+\.\d+", twins.text))
    assert one == pytest.approx(other, abs=1e-4)
    errors = [float(each) for each in re.findall(r"error (\d\.\d+)", losses.text)]
    assert len(errors) == 4 and errors[-1] < errors[0]
    means = [float(each.text.strip().splitlines()[-1]) for each in (lightning, trainer)]
    assert means[0] < errors[0] and means[1] == pytest.approx(np.mean(errors), rel=0.5)
    assert data.text.startswith("Data(x=") and "pair_path=[16, 5]" in encoded.text


def test_sepnorm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = [each.text for each in outputs("tutorials/sepnorm.md", tmp_path, monkeypatch)]
    first, second, third = map(float, re.findall(r"mean (\d\.\d+)", printed[1]))
    assert first < 1e-3 and second < 1e-3 < third
    accuracies = [float(each) for each in re.findall(r": (0\.\d+) of 256", printed[3])]
    assert len(accuracies) == 2 and min(accuracies) > 0.7
    assert "layers.0.norm1  64     1        batch first  LayerNorm *" in printed[4]
    assert float(printed[5].split()[-1]) < 1e-5


def test_embeddings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, rows, stacked, near, drawn, scores, maps, rank = outputs(
        "tutorials/embeddings.md", tmp_path, monkeypatch
    )
    assert shape.text.startswith("((600, 192)") and "3 rows" in rows.text
    assert stacked.text == "(3, 192)\n"
    assert near.html.count("<tr") == 4 and drawn.html.count("<svg") == 1
    embeddings, fingerprints = map(float, re.findall(r"R² (-?\d\.\d+)", scores.text))
    assert embeddings > fingerprints
    assert maps.text == "" and maps.html.startswith("<svg")
    assert "of 192" in rank.text


def test_pretraining(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, history, _, fine_tuned, _, scores = outputs(
        "tutorials/pretraining.md", tmp_path, monkeypatch, 480
    )
    assert history.html.count("<tr") == 5
    assert "Training starts from runs/pretrained: 50,490 of" in fine_tuned.text
    assert "Training starts from molsepnorm-small: 479,086 of" in fine_tuned.text
    assert scores.html.count("<tr") == 5


def test_a_command_that_fails_stops_the_page() -> None:
    wrong = Example("page.md:1", "bash", "molsepnorm predict --model nowhere \\\n  --smiles CCO\n")
    with pytest.raises(ExampleError, match="(?s)ends with status .*nowhere"):
        list(run([wrong]))


def test_the_reference_has_every_public_name() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    listed = {line.rpartition(".")[2] for line in re.findall(r"^::: (\S+)$", pages, re.MULTILINE)}
    public: set[str] = set()
    for module in MODULES:
        public.update(import_module(f"molsepnorm{module}").__all__)
    modules = {"encodings", "featurize"}  # their names are listed one by one
    assert public - modules - {"__version__"} <= listed
    assert {"encode", "get", "register"} <= listed


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without running its tutorials; skipped where MkDocs is missing."""
    for name in ("mkdocs", "material", "mkdocstrings_handlers.python", "latex2mathml"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("site")
    for name in ("mermaid.min.js", "iframe-worker.js"):
        (folder / name).touch()  # `make docs` fetches them
    settings = {"DOCS_EXAMPLES": "skip", "DOCS_SCRIPTS": str(folder), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir"]
    done = subprocess.run(
        [*command, str(folder / "html")],
        cwd=TOP,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_lists_are_those_of_commonmark(site: Path) -> None:
    """Python-Markdown and an independent parser find the same items, paragraphs and code."""
    hooks = import_module("hooks")
    markdown = import_module("markdown")
    commonmark = pytest.importorskip("markdown_it").MarkdownIt().enable("table")
    extensions = ["tables", "sane_lists", "pymdownx.superfences"]
    pages = [*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md"), *TOP.glob("C*.md")]
    pages += [TOP / "benchmarks" / "NOTES.md", *(TOP / "benchmarks").glob("*/README.md")]
    assert len(pages) > 25
    for path in pages:
        text = path.read_text(encoding="utf-8").replace("<!--", "")
        ours = markdown.markdown(hooks.lists_of_four(text), extensions=extensions)
        theirs = commonmark.render(text)
        for tag in ("<li>", "<ol", "<ul>", "<table>", "<tr>", "<h2", "<blockquote>"):
            assert ours.count(tag) == theirs.count(tag), (path.name, tag)


class Links(HTMLParser):
    """The links, the loaded files and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        for name in ("src", "href", "srcset", "data", "poster"):
            if tag != "a" and name in values and values.get("rel") not in ("prev", "next"):
                self.loaded.append(values[name])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {path: Links(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_no_link_is_broken(site: Path, pages: dict[Path, Links]) -> None:
    assert len(pages) > 30
    broken = []
    for path, page in pages.items():
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[target].anchors if target in pages else None
            if not target.is_file() or (
                parts.fragment and known is not None and unquote(parts.fragment) not in known
            ):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_links_have_the_titles_of_pages(pages: dict[Path, Links]) -> None:
    """In the repository some have the names of files, which the site does not show."""
    for path in pages:
        html = path.read_text(encoding="utf-8")
        assert not re.findall(r'<a href="[^"]*">[\w-]+\.md</a>', html), path.name


def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[Path, Links]) -> None:
    outside = re.compile(r"^(?:https?:)?//")
    loaded = {link for page in pages.values() for link in page.loaded if outside.match(link)}
    assert not loaded
    for path in site.rglob("*.css"):
        style = path.read_text(encoding="utf-8")
        assert not re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", style), path


def test_diagrams_and_formulas_need_no_other_host(site: Path, pages: dict[Path, Links]) -> None:
    """The theme loads mermaid from another host unless the page has loaded it."""
    diagrams = [path for path in pages if 'class="mermaid"' in path.read_text(encoding="utf-8")]
    assert [path.name for path in diagrams] == ["architecture.html"]
    for path in diagrams:
        assert any(
            link.endswith("assets/javascripts/mermaid.min.js") for link in pages[path].loaded
        )
    for name in ("model.html", "sepnorm.html"):
        assert '<div class="formula"><math' in (site / name).read_text(encoding="utf-8")


def test_the_commands_have_all_their_options(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    context = click.Context(main, info_name="molsepnorm")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        section = page[page.index(f'<h2 id="{name}"') :].split("<h2")[1]
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert all(each in section for each in option.opts), (name, option.opts)


def test_doctests_of_docstrings_are_code(site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.html")]
    assert sum(page.count("language-pycon") for page in pages) > 20
    for page in pages:
        assert "<blockquote>" not in page and "doctest:" not in page

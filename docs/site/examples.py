"""Run the examples of a Markdown page one after another, as a reader would paste them.

The site shows the outputs beside the examples, and tests compare them with what the page says.
`python docs/site/examples.py PAGE OUTPUTS` runs a page in the current folder and writes its outputs
as JSON.
"""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["BLOCK", "Example", "ExampleError", "Output", "examples", "run"]

BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
"""A block of code that is run; blocks without a language, or with another one, are not."""

_INK = "#010203"  # the colour of text and axes in figures, which becomes the page's own


class ExampleError(Exception):
    """An example that failed, with its place and what it printed."""


@dataclass(frozen=True)
class Example:
    """A block of code of a page."""

    place: str
    """File and line of its first line of code, for errors."""
    language: str
    """python or bash."""
    code: str


@dataclass(frozen=True)
class Output:
    """The printed text of an example, and the HTML that a notebook would show below it."""

    text: str = ""
    html: str = ""
    """Tables, molecules and figures, as HTML and SVG."""


def examples(page: Path) -> list[Example]:
    """Return the examples of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    return [
        Example(f"{page}:{text.count(chr(10), 0, found.start(2)) + 1}", found[1], found[2])
        for found in BLOCK.finditer(text)
    ]


def run(given: list[Example], namespace: dict[str, Any] | None = None) -> Iterator[Output]:
    """Run examples in the current folder, and yield the output of each.

    All Python examples share a namespace. The value of the last line is shown as in a notebook, and
    so are SVG files that a command writes. `molsepnorm` runs in this process, other commands run in
    a shell.

    Args:
        given: the examples.
        namespace: names that the examples may use; they add theirs.

    Raises:
        ExampleError: an example raised an error, or a command failed.
    """
    names = {} if namespace is None else namespace
    for example in given:
        try:
            if example.language == "python":
                yield _python(example, names)
            else:
                lines = _lines(example.code)
                yield Output("".join(map(_command, lines)), "".join(map(_written, lines)))
        except Exception as error:
            raise ExampleError(f"{example.place}: {type(error).__name__}: {error}") from error


def _python(example: Example, names: dict[str, Any]) -> Output:
    tree = ast.parse(example.code, example.place)
    last = tree.body[-1]
    value = None
    printed = io.StringIO()
    with redirect_stdout(printed):
        if isinstance(last, ast.Expr):
            tree.body.pop()
            exec(compile(tree, example.place, "exec"), names)
            value = eval(compile(ast.Expression(last.value), example.place, "eval"), names)
        else:
            exec(compile(tree, example.place, "exec"), names)
    text, html = _shown(value)
    if figures := _figures():
        text = ""  # the value of the last call of matplotlib
    return Output(printed.getvalue() + text, html + figures)


def _shown(value: Any) -> tuple[str, str]:
    """Return the text and the HTML that a notebook shows for a value."""
    if value is None:
        return "", ""
    if isinstance(value, str) and "<svg" in value:
        return "", _svg(value)
    html = getattr(value, "_repr_html_", lambda: None)()
    return (f"{value!r}\n", "") if html is None else ("", html)


def _figures() -> str:
    """Return matplotlib's open figures as SVG with the page's text colour, and close them."""
    if "matplotlib.pyplot" not in sys.modules:
        return ""
    from matplotlib import pyplot

    drawn = ""
    for number in pyplot.get_fignums():
        file = io.StringIO()
        pyplot.figure(number).savefig(file, format="svg", transparent=True, bbox_inches="tight")
        drawn += _svg(file.getvalue()).replace(_INK, "currentColor")
    pyplot.close("all")
    return drawn


def _svg(text: str) -> str:
    """Return a drawing without the lines that only a file of its own needs."""
    return text[text.index("<svg") :].strip()


def _lines(code: str) -> list[str]:
    """Return the commands of a block; a backslash at the end of a line continues it."""
    return [line for line in code.replace("\\\n", " ").splitlines() if line.strip()]


def _command(line: str) -> str:
    """Run a command and return what it prints, errors included."""
    program, *words = shlex.split(line)
    if program == "molsepnorm":
        from click.testing import CliRunner

        from molsepnorm.cli import main

        result = CliRunner().invoke(main, words)
        code, output = result.exit_code, result.output
    else:
        if program == "python":
            line = line.replace(program, shlex.quote(sys.executable), 1)
        done = subprocess.run(
            line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        code, output = done.returncode, done.stdout
    if code != 0:
        raise RuntimeError(f"{line} ends with status {code}:\n{output}")
    return output


def _written(line: str) -> str:
    """Return the drawing that a command has written with `--output FILE.svg`."""
    words = shlex.split(line)
    paths = [Path(words[k + 1]) for k, word in enumerate(words) if word == "--output"]
    drawings = [path.read_text(encoding="utf-8") for path in paths if path.suffix == ".svg"]
    return "".join(map(_svg, drawings))


def _style() -> None:
    """Set matplotlib's style: no window, plain axes, text that a browser sets in its own font."""
    import matplotlib

    matplotlib.use("Agg")
    inks = ["text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"]
    matplotlib.rcParams.update(dict.fromkeys(inks, _INK))
    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "molsepnorm",
            "font.family": "sans-serif",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
        }
    )


if __name__ == "__main__":
    _style()
    outputs = [asdict(each) for each in run(examples(Path(sys.argv[1])))]
    Path(sys.argv[2]).write_text(json.dumps(outputs), encoding="utf-8")

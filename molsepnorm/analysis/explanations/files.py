"""Write explanations as a self-contained page without scripts, a picture or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molsepnorm._version import __version__
from molsepnorm.analysis.explanations.explanation import (
    Contributions,
    Explanation,
    FragmentSummary,
    top_fragments,
)
from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.files.page import page as frame
from molsepnorm.files.page import table, template
from molsepnorm.files.writing import replacing, write_json
from molsepnorm.molecules.drawing import (
    DIVERGING,
    SEQUENTIAL,
    Panel,
    atom_names,
    draw,
    draw_grid,
    hexadecimal,
)
from molsepnorm.molecules.fragments import SCHEMES

PICTURES = (".png", ".svg")
FORMATS = (".html", ".json", *PICTURES)
MAX_PICTURE = 48  # molecules in a picture
MAX_DRAWN = 100  # molecules that a page draws
_SIZE = 300, 220  # pixels of a drawing on a page
_TOP = 10  # fragments at either end of a table
_SCHEME_TITLES = {
    "brics": "cut by the BRICS rules",
    "murcko": "ring systems, linkers and side chains",
}


def require_format(path: Path | str, targets: Sequence[str]) -> None:
    extension = Path(path).suffix.lower()
    if extension not in FORMATS:
        raise ConfigError(
            f"{path}: explanations are written as {', '.join(FORMATS)}; the extension selects one"
        )
    if extension in PICTURES and len(targets) > 1:
        raise ConfigError(
            f"{path}: a picture shows one target, and these are {', '.join(targets)}: name one "
            "with --targets, or write a page (.html)"
        )


def chosen_targets(names: Sequence[str], chosen: Sequence[str] | None) -> list[str]:
    for name in chosen or ():
        if name not in names:
            raise ConfigError(f"the model has no target '{name}'. {did_you_mean(name, names)}")
    return [*(chosen or names)]


def write_explanations(
    explanations: Sequence[Explanation],
    path: Path | str,
    model: str,
    targets: Sequence[str],
) -> None:
    """Write a page (.html), a picture (.png, .svg) or all numbers (.json) of these targets."""
    require_format(path, targets)
    extension = Path(path).suffix.lower()
    if extension == ".json":
        write_json(path, _numbers(explanations, model, targets))
        return
    if extension == ".html":
        content = page(explanations, targets, model).encode()
    else:
        content = _picture(explanations, path, targets[0])
    with replacing(path) as scratch:
        scratch.write_bytes(content)


def page(explanations: Sequence[Explanation], names: Sequence[str], model: str) -> str:
    done = [each for each in explanations if each.error is None]
    drawn = done[:MAX_DRAWN]
    further: dict[str, list[Explanation]] = {}
    for each in done:
        for column, parts in each.further.items():
            further.setdefault(column, []).extend(parts)
    targets = []
    for name in names:
        unit = ", ".join(sorted({each.targets[name].unit for each in done}) or [name])
        fragments = {scheme: top_fragments(done, scheme, name) for scheme in SCHEMES}
        tables = [(_SCHEME_TITLES[scheme], *_ends(found)) for scheme, found in fragments.items()]
        limits = {column: _limit(parts, name) for column, parts in further.items()}
        targets.append((name, _limit(done, name), limits, unit, tables))
    body = template("molsepnorm.analysis.explanations", "page.html").render(
        every=len(explanations),
        done=len(done),
        drawn=drawn,
        targets=targets,
        colours=[hexadecimal(DIVERGING.negative), hexadecimal(DIVERGING.positive)],
        strongest=max((float(each.attention.max()) for each in drawn), default=0.0),  # type: ignore[union-attr]
        failed=[(each.smiles, each.error) for each in explanations if each.error is not None],
        table=table,
        picture=_contributions,
        attention=_attention,
        atoms_of=_atoms_of,
        fragments_of=_fragments_of,
    )
    heading = f"Why {model} predicts these values"
    return frame(f"Explanations by {model}", heading, body, __version__)


def _limit(explanations: Sequence[Explanation], target: str) -> float:
    """Return the largest absolute contribution of an atom; 1 if all are 0."""
    largest = (float(np.abs(each.targets[target].atoms).max()) for each in explanations)
    return max(largest, default=0.0) or 1.0


def _atoms_of(each: Explanation, of: Contributions) -> list[tuple[str, str]]:
    numbers = zip(atom_names(each.structure), of.atoms, of.errors, strict=True)
    return [(atom, f"{value:+.3g} ± {error:.2g}") for atom, value, error in numbers]


def _fragments_of(each: Explanation, name: str) -> list[tuple[str, str]]:
    of = each.targets[name]
    parts = [(part.smiles, part.contributions[name]) for part in each.fragments["brics"]]
    return [
        (f"without atoms{' and inputs' if of.inputs else ''}", f"{of.base:.4g}"),
        *((text, f"{value:+.3g}") for text, value in [*of.inputs.items(), *parts]),
    ]


def _contributions(
    each: Explanation, values: np.ndarray, limit: float, atoms: Sequence[tuple[str, str]]
) -> str:
    caption = f"contributions of the atoms of {each.structure}"
    labels = [f"{atom}: {number}" for atom, number in atoms]
    return draw(Panel(each.structure, values, caption), DIVERGING, limit, labels, _SIZE)


def _attention(each: Explanation, limit: float) -> str:
    assert each.attention is not None
    shares = zip(atom_names(each.structure), each.attention, strict=True)
    labels = [f"{atom}: {share:.3f}" for atom, share in shares]
    panel = Panel(each.structure, each.attention, f"attention to {each.structure}")
    return draw(panel, SEQUENTIAL, limit, labels, _SIZE)


def _ends(
    summaries: Sequence[FragmentSummary],
) -> tuple[list[tuple[str, ...]], tuple[str, ...], str]:
    """Return the rows and the head of a table of the fragments at both ends, and a note. Fragments
    of a single molecule are left out if there are others."""
    shared = [each for each in summaries if each.molecules > 1] or [*summaries]
    chosen = shared if len(shared) <= 2 * _TOP else [*shared[:_TOP], *shared[-_TOP:]]
    units = len({each.unit for each in summaries}) > 1
    head = ("fragment", *["contribution to"] * units, "mean", "spread", "count", "molecules")
    rows = []
    for each in chosen:
        numbers = f"{each.mean:+.3g}", f"{each.spread:.2g}", str(each.count), str(each.molecules)
        rows.append((each.smiles, *[each.unit] * units, *numbers))
    note = f"{len(chosen):,} of {len(summaries):,} fragments."
    if len(shared) < len(summaries):
        note += " Fragments of a single molecule are left out."
    return rows, head, note


def _picture(explanations: Sequence[Explanation], path: Path | str, target: str) -> bytes:
    done = [each for each in explanations if each.error is None]
    if not done:
        raise ConfigError(
            f"{path}: no molecule could be explained. The first error: {explanations[0].error}"
            if explanations
            else f"{path}: there are no molecules to draw"
        )
    panels = [
        Panel(each.structure, of.atoms, f"{of.value:.4g} {of.unit}\n{of.parts}".rstrip())
        for each in done
        for of in [each.targets[target]]
    ]
    units = {each.targets[target].unit for each in done}
    unit = f"contribution to {units.pop() if len(units) == 1 else target}"
    as_png = Path(path).suffix.lower() == ".png"
    return draw_grid(panels, _limit(done, target), unit, as_png)


def _numbers(
    explanations: Sequence[Explanation], model: str, targets: Sequence[str]
) -> dict[str, Any]:
    return {
        "molsepnorm": __version__,
        "model": model,
        "method": "Shapley values of atoms, estimated from random orders in pairs",
        "molecules": [explanation_json(each, targets) for each in explanations],
        "fragments": {
            name: {
                scheme: [vars(each) for each in top_fragments(explanations, scheme, name)]
                for scheme in SCHEMES
            }
            for name in targets
        },
    }


def explanation_json(each: Explanation, names: Sequence[str]) -> dict[str, Any]:
    """Return all numbers about these targets of a molecule, or the reason for having none."""
    if each.error is not None:
        return {"smiles": each.smiles, "error": each.error}
    targets = {}
    for name in names:
        numbers = dict(vars(each.targets[name]))
        inputs, errors = numbers.pop("inputs"), numbers.pop("errors")
        numbers["atoms"] = numbers["atoms"].tolist()
        targets[name] = {**numbers, "standard_errors": errors.tolist(), "inputs": inputs}
    fragments = {
        scheme: [
            {**vars(part), "contributions": {name: part.contributions[name] for name in names}}
            for part in parts
        ]
        for scheme, parts in each.fragments.items()
    }
    about = {"smiles": each.smiles, "structure": each.structure, "targets": targets}
    content = {**about, "fragments": fragments}
    if each.attention is not None:  # further molecules have none
        content["attention_of_graph_token"] = each.attention.tolist()
    if each.further:
        parts = each.further.items()
        content["further"] = {n: [explanation_json(one, names) for one in its] for n, its in parts}
    return content

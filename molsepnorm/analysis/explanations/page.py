"""Explanations as a self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from molsepnorm._version import __version__
from molsepnorm.analysis.explanations.explanation import Explanation, FragmentSummary, top_fragments
from molsepnorm.files.page import code, table
from molsepnorm.files.page import page as frame
from molsepnorm.molecules.drawing import DIVERGING, SEQUENTIAL, Panel, atom_names, draw, hexadecimal
from molsepnorm.molecules.fragments import SCHEMES

MAX_DRAWN = 100
"""Maximum number of molecules that a page draws."""

_SIZE = 300, 220  # pixels of a drawing
_TOP = 10  # fragments at either end of a table


def limits(explanations: Iterable[Explanation], names: Sequence[str]) -> dict[str, float]:
    """Return the largest absolute contribution of an atom to each target, whose colour is
    strongest; 1 if all are 0."""
    found = dict.fromkeys(names, 0.0)
    for each in explanations:
        for name in names if each.targets else ():
            found[name] = max(found[name], float(np.abs(each.targets[name].atoms).max()))
    return {name: limit or 1.0 for name, limit in found.items()}


def page(explanations: Sequence[Explanation], names: Sequence[str], model: str) -> str:
    done = [each for each in explanations if each.error is None]
    scale = limits(done, names)
    drawn = done[:MAX_DRAWN]
    sections = "".join(_target(done, drawn, name, scale[name]) for name in names)
    body = f"""<p>The contribution of an atom is its Shapley value: the change of the prediction
when the atom is added, averaged over random orders of all atoms. For each molecule, the
contributions of all atoms, and of further inputs if the model has any, add up to the prediction
minus the prediction without them. A fragment has the sum of its atoms' contributions. ± is the
standard error due to the random orders. A contribution describes the model; it does not prove an
effect in the experiment. Move the pointer to an atom to see its number; atoms are counted from 0 in
the order of the SMILES.</p>
{_counts(explanations, done, drawn)}
{sections}
{_attention(drawn)}
{_failed(explanations)}"""
    heading = f"Why {model} predicts these values"
    return frame(f"Explanations by {model}", heading, body, __version__)


def _counts(
    every: Sequence[Explanation], done: Sequence[Explanation], drawn: Sequence[Explanation]
) -> str:
    parts = [f"{len(done):,} of {len(every):,} molecules are explained"]
    if len(drawn) < len(done):
        parts.append(f"the first {len(drawn):,} are drawn, and the tables of fragments include all")
    return f"<p>{'; '.join(parts)}.</p>"


def _target(
    done: Sequence[Explanation], drawn: Sequence[Explanation], name: str, limit: float
) -> str:
    cards = "".join(_card(each, name, limit) for each in drawn)
    tables = "".join(
        f"<details open><summary>Fragments: {_SCHEME_TITLES[scheme]}</summary>"
        f"{_top(top_fragments(done, scheme, name))}</details>"
        for scheme in SCHEMES
    )
    units = sorted({each.targets[name].unit for each in done}) or [name]
    low, high = hexadecimal(DIVERGING.negative), hexadecimal(DIVERGING.positive)
    return f"""<h2>{escape(name)}</h2>
<div class="bars">
<div class="bar" style="background: linear-gradient(to right, {low}, #fff, {high})"></div>
<div class="ends"><span>{-limit:.3g}</span><span>0</span><span>+{limit:.3g}</span></div>
<div>contribution to {escape(", ".join(units))}</div></div>
{tables}
<h3>Molecules</h3>
<div class="cards">{cards}</div>"""


_SCHEME_TITLES = {
    "brics": "cut by the BRICS rules",
    "murcko": "ring systems, linkers and side chains",
}


def _card(each: Explanation, name: str, limit: float) -> str:
    of = each.targets[name]
    numbers = [*zip(atom_names(each.structure), map(_signed, of.atoms, of.errors), strict=True)]
    labels = [f"{atom}: {number}" for atom, number in numbers]
    picture = draw(
        Panel(each.structure, of.atoms, f"contributions of the atoms of {each.structure}"),
        *(DIVERGING, limit, labels, _SIZE),
    )
    by_place = ((f"without atoms{' and inputs' if of.inputs else ''}", f"{of.base:.4g}"),)
    inputs = ((key, f"{value:+.3g}") for key, value in of.inputs.items())
    found = (
        (fragment.smiles, f"{fragment.contributions[name]:+.3g}")
        for fragment in each.fragments["brics"]
    )
    standard = "" if each.structure == each.smiles else f"<br>as {code(each.structure)}"
    chance = "" if of.probability is None else f" (probability {of.probability:.3g})"
    return f"""<div class="card">{picture}
<div>{code(each.smiles)}{standard}</div>
<div><b>{of.value:.4g}</b> <span class="soft">{escape(of.unit)}{chance}</span></div>
<div class="soft">{of.parts}</div>
<details><summary>Fragments</summary>{table((*by_place, *inputs, *found))}</details>
<details><summary>Atoms</summary>{table(numbers)}</details></div>"""


def _attention(drawn: Sequence[Explanation]) -> str:
    if not drawn:
        return ""
    limit = max(float(each.attention.max()) for each in drawn if each.attention is not None)
    cards = []
    for each in drawn:
        assert each.attention is not None
        names = atom_names(each.structure)
        labels = [f"{a}: {share:.3f}" for a, share in zip(names, each.attention, strict=True)]
        panel = Panel(each.structure, each.attention, f"attention to {each.structure}")
        picture = draw(panel, SEQUENTIAL, limit, labels, _SIZE)
        cards.append(f'<div class="card">{picture}<div>{code(each.smiles)}</div></div>')
    return f"""<details><summary>Attention of the graph token (not an explanation)</summary>
<p>Mean attention weight of the graph token over all heads and layers of the first network; the
strongest green is {limit:.3g}. Attention shows which atoms the network reads. It has no sign and no
unit, and it does not say how an atom changes the prediction.</p>
<div class="cards">{"".join(cards)}</div></details>"""


def _top(summaries: Sequence[FragmentSummary]) -> str:
    """Return a table of the fragments at both ends; those in several molecules, if there are."""
    shared = [each for each in summaries if each.molecules > 1] or [*summaries]
    chosen = shared if len(shared) <= 2 * _TOP else [*shared[:_TOP], *shared[-_TOP:]]
    units = len({each.unit for each in summaries}) > 1
    head = ("fragment", *["contribution to"] * units, "mean", "spread", "count", "molecules")
    rows = (
        (
            each.smiles,
            *[each.unit] * units,
            f"{each.mean:+.3g}",
            f"{each.spread:.2g}",
            str(each.count),
            str(each.molecules),
        )
        for each in chosen
    )
    note = f"{len(chosen):,} of {len(summaries):,} fragments."
    if len(shared) < len(summaries):
        note += " Fragments of a single molecule are left out."
    return f'{table(rows, head)}<p class="soft">{note} --output FILE.json has all of them.</p>'


def _failed(explanations: Sequence[Explanation]) -> str:
    rows = [(each.smiles, each.error) for each in explanations if each.error is not None]
    return f"<h2>Not explained</h2>{table(rows)}" if rows else ""


def _signed(value: float, error: float) -> str:
    return f"{value:+.3g} ± {error:.2g}"

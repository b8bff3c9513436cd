"""Write explanations as a page, a picture or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from molsepnorm._version import __version__
from molsepnorm.analysis.explanations.explanation import Explanation, top_fragments
from molsepnorm.analysis.explanations.page import limits, page
from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.files.writing import replacing, write_json
from molsepnorm.molecules.drawing import DIVERGING, Panel, draw_grid
from molsepnorm.molecules.fragments import SCHEMES

FORMATS = (".html", ".json", ".png", ".svg")
"""Extensions of the files that `write_explanations` writes."""

PICTURES = (".png", ".svg")
"""Those of pictures."""

MAX_PICTURE = 48
"""Maximum number of molecules of a picture."""


def require_format(path: Path | str, targets: Sequence[str]) -> None:
    """Raise a `ConfigError` for an unknown format, or a picture of several targets."""
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
    """Return the chosen targets of a model, or all; a `ConfigError` if it does not have one."""
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
    """Write a page (.html), a picture (.png, .svg) or all numbers (.json) of these targets.

    Raises:
        ConfigError: as `require_format`; or a picture would have no molecule.
        StorageError: the file cannot be written.
    """
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
    limit = limits(done, [target])[target]
    units = {each.targets[target].unit for each in done}
    unit = f"contribution to {units.pop() if len(units) == 1 else target}"
    return draw_grid(panels, DIVERGING, limit, unit, Path(path).suffix.lower() == ".png")


def _numbers(
    explanations: Sequence[Explanation], model: str, targets: Sequence[str]
) -> dict[str, Any]:
    return {
        "molsepnorm": __version__,
        "model": model,
        "method": "Shapley values of atoms, estimated from random orders in pairs",
        "molecules": [_molecule(each, targets) for each in explanations],
        "fragments": {
            name: {
                scheme: [vars(each) for each in top_fragments(explanations, scheme, name)]
                for scheme in SCHEMES
            }
            for name in targets
        },
    }


def _molecule(each: Explanation, names: Sequence[str]) -> dict[str, Any]:
    if each.attention is None:
        return {"smiles": each.smiles, "error": each.error}
    targets = {name: dict(vars(each.targets[name])) for name in names}
    for own in targets.values():
        own |= {"atoms": own["atoms"].tolist(), "standard_errors": own.pop("errors").tolist()}
        own["inputs"] = own.pop("inputs")  # the last
    fragments = {
        scheme: [
            {
                "smiles": part.smiles,
                "atoms": list(part.atoms),
                "contributions": {name: part.contributions[name] for name in names},
            }
            for part in found
        ]
        for scheme, found in each.fragments.items()
    }
    return {
        "smiles": each.smiles,
        "structure": each.structure,
        "targets": targets,
        "fragments": fragments,
        "attention_of_graph_token": each.attention.tolist(),
    }

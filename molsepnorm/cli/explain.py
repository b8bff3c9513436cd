"""`molsepnorm explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from molsepnorm.cli.console import say
from molsepnorm.cli.options import (
    GroupedCommand,
    model_option,
    option,
    output_option,
    split_names,
)
from molsepnorm.cli.signals import stop_on_signal
from molsepnorm.cli.sources import check_sources, load_predictor, molecules_of, source_options
from molsepnorm.errors import StorageError, counted

if TYPE_CHECKING:
    from molsepnorm.data.tables import ReadOptions
    from molsepnorm.devices import Precision


@click.command(cls=GroupedCommand)
@model_option
@source_options
@option(
    "--targets",
    heading="Explanation",
    callback=split_names,
    help="Targets to explain, separated by commas. [default: all]",
)
@option(
    "--pairs",
    type=click.IntRange(min=2, max=10_000),
    default=8,
    help="Number of pairs of random orders of the atoms. Twice as many take twice the time, and "
    "divide the squared error of a contribution by two.",
)
@output_option("Page, picture or numbers, by extension: .html, .png, .svg or .json.", required=True)
def explain(
    model_folder: Path,
    smiles: tuple[str, ...],
    source: Path | None,
    options: ReadOptions,
    targets: list[str] | None,
    pairs: int,
    output: Path,
    on_invalid: Literal["keep", "fail"],
    device: str,
    precision: Precision,
    processes: int | None,
) -> None:
    """Explain predictions by the contributions of atoms and fragments.

    The contributions of a molecule's atoms, its descriptors and the feature columns add up to its
    prediction minus the prediction without them. The page also has the fragments with the largest
    contributions over all molecules. docs/explain.md describes the method.

    \b
    molsepnorm explain --model runs/logS --smiles "CC(=O)Oc1ccccc1C(=O)O" --output aspirin.html
    molsepnorm explain --model runs/logS --input my.csv --output my.html
    """
    check_sources(smiles, source, output)
    if output.is_dir():
        raise StorageError(f"cannot write {output}: there is a folder of that name")
    with stop_on_signal(lambda: False):
        predictor = load_predictor([model_folder], device, processes, precision)
        predictor.model.require_targets()
        from molsepnorm.analysis.explanations import explain_rows
        from molsepnorm.analysis.explanations.files import (
            MAX_PICTURE,
            PICTURES,
            chosen_targets,
            require_format,
            write_explanations,
        )

        chosen = chosen_targets(predictor.targets, targets)
        require_format(output, chosen)
        features = predictor.model.inputs.names
        name, chunks = molecules_of(smiles, source, options, features)
        found = explain_rows(
            predictor,
            chunks,
            smiles_column=options.smiles_column,
            source=name,
            on_invalid=on_invalid,
            pairs=pairs,
            most=MAX_PICTURE if output.suffix.lower() in PICTURES else None,
        )
        write_explanations(found, output, model_folder.name or str(model_folder), chosen)
    failed = sum(each.error is not None for each in found)
    failures = f"; {failed:,} could not be explained, see the reasons there" if failed else ""
    say(f"{counted(len(found), 'molecule')} written to {output}{failures}", err=True)

"""`molsepnorm predict`, `embed` and `explain`: a trained model, applied to molecules."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, cast

import click

from molsepnorm.cli.console import escaped, say
from molsepnorm.cli.options import (
    GroupedCommand,
    model_option,
    models_option,
    option,
    output_option,
    split_names,
)
from molsepnorm.cli.signals import stop_on_signal
from molsepnorm.cli.sources import Molecules, report, source_options, uncertainty_options
from molsepnorm.errors import StorageError, counted
from molsepnorm.files.tables import check_embeddings_output, check_output


@click.command(cls=GroupedCommand)
@models_option
@source_options
@output_option(
    "File: .csv, .tsv, .sdf (all also with .gz), .parquet or .xlsx. [default: CSV to standard "
    "output]"
)
@uncertainty_options
@option(
    "--digits",
    type=click.IntRange(min=1, max=17),
    help="Significant digits of predicted numbers. [default: 6 or more, and all in Parquet]",
)
@option(
    "--overwrite-columns",
    is_flag=True,
    help="Replace columns of the file that have the name of a new column, such as y_pred or error.",
)
def predict(
    model_folders: tuple[Path, ...],
    molecules: Molecules,
    output: Path | None,
    level: float | None,
    domain: bool,
    digits: int | None,
    overwrite_columns: bool,
) -> None:
    """Predict the properties of molecules, from a file, --smiles or standard input.

    Standard input has one SMILES per line, or is a CSV. The output keeps all rows, their order and
    all columns, and adds <target>_pred. Failed rows have the reason in the column error. Several
    models are averaged; <target>_spread is the standard deviation over all of their networks.
    --uncertainty adds <target>_std, <target>_low and <target>_high, or <target>_calibrated and
    <target>_set. --domain adds similarity, in_domain (yes or no), nearest_smiles,
    <target>_expected_error and <target>_nearest.

    \b
    molsepnorm predict --model runs/zinc-1 --smiles CCO --smiles c1ccccc1
    molsepnorm predict --model runs/zinc-1 --input my.csv --output predicted.csv
    molsepnorm predict --model runs/logS-1 --model runs/logS-2 --input my.csv
    molsepnorm predict --model runs/logS-1 --input my.csv --uncertainty --level 0.8
    molsepnorm predict --model runs/logS-1 --input my.csv --domain
    cut -d, -f1 my.csv | molsepnorm predict --model runs/zinc-1
    """
    molecules.check(output)
    with stop_on_signal():
        if output is not None:
            check_output(output)
        predictor = molecules.predictor(model_folders, level, domain)
        from molsepnorm.predict import predict_rows

        with _opened(output) as out:
            rows, failed = predict_rows(
                predictor,
                out=out,
                digits=digits,
                overwrite=overwrite_columns,
                **molecules.rows(predictor),
            )
    if output or failed:
        report(rows, failed, output, "predicted")


class _Terminal(io.TextIOBase):
    """Standard output on a terminal, with control characters escaped."""

    def write(self, text: str) -> int:
        return sys.stdout.write(escaped(text))


@contextmanager
def _opened(output: Path | None) -> Iterator[Path | TextIO]:
    """Yield the file to write to, or standard output."""
    if output is not None:
        yield output
        return
    yield cast(TextIO, _Terminal()) if sys.stdout.isatty() else sys.stdout
    sys.stdout.flush()  # so that a full disk raises here, not when the interpreter exits


@click.command(cls=GroupedCommand)
@model_option
@source_options
@output_option("File: .parquet, .csv or .tsv; the last two also with .gz.", required=True)
@option("--atoms", is_flag=True, help="Also write the embeddings of the atoms; Parquet only.")
@option(
    "--layer",
    type=int,
    metavar="N",
    help="Layer of the embeddings; default: the input of the head.",
)
def embed(
    model_folder: Path,
    molecules: Molecules,
    output: Path,
    atoms: bool,
    layer: int | None,
) -> None:
    """Write embeddings of molecules, from a file, --smiles or standard input.

    The embedding of a molecule is the input of the network's head, or with --layer the read-out of
    one layer. Standard input has one SMILES per line, or is a CSV. The output keeps all rows, their
    order and all columns, and adds the column embedding (in a CSV or TSV embedding_0,
    embedding_1, …). Failed rows have the reason in the column error.

    \b
    molsepnorm embed --model runs/zinc-1 --input my.csv --output embeddings.parquet
    molsepnorm embed --model runs/zinc-1 --smiles CCO --atoms --output ethanol.parquet
    """
    molecules.check(output)
    with stop_on_signal():
        check_embeddings_output(output, atoms)
        predictor = molecules.predictor([model_folder])
        from molsepnorm.predict import embed_rows

        rows, failed = embed_rows(
            predictor, output=output, atoms=atoms, layer=layer, **molecules.rows(predictor)
        )
    report(rows, failed, output, "embedded")


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
    molecules: Molecules,
    targets: list[str] | None,
    pairs: int,
    output: Path,
) -> None:
    """Explain predictions by the contributions of atoms and fragments.

    The contributions of a molecule's atoms, its descriptors and the feature columns add up to its
    prediction minus the prediction without them. The page also has the fragments with the largest
    contributions over all molecules. docs/explain.md describes the method.

    \b
    molsepnorm explain --model runs/logS --smiles "CC(=O)Oc1ccccc1C(=O)O" --output aspirin.html
    molsepnorm explain --model runs/logS --input my.csv --output my.html
    """
    molecules.check(output)
    if output.is_dir():
        raise StorageError(f"cannot write {output}: there is a folder of that name")
    with stop_on_signal():
        predictor = molecules.predictor([model_folder])
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
        found = explain_rows(
            predictor,
            pairs=pairs,
            most=MAX_PICTURE if output.suffix.lower() in PICTURES else None,
            **molecules.rows(predictor),
        )
        write_explanations(found, output, model_folder.name or str(model_folder), chosen)
    failed = sum(each.error is not None for each in found)
    failures = f"; {failed:,} could not be explained, see the reasons there" if failed else ""
    say(f"{counted(len(found), 'molecule')} written to {output}{failures}", err=True)

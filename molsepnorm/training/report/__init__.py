"""The report of a run: one HTML page that needs no other file.

The page is made from the files of the run's folder alone. No model is applied, so the test split is
not scored again.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from molsepnorm.errors import MolsepnormError, StorageError
from molsepnorm.files.writing import replacing
from molsepnorm.training.callback import Callback
from molsepnorm.training.report.contents import Contents
from molsepnorm.training.report.page import report_page
from molsepnorm.training.run_folder.folder import RunFolder

__all__ = ["try_report", "write_report"]


def write_report(folder: Path | str, output: Path | str | None = None) -> Path:
    """Write the report of a finished run, and return its path.

    Args:
        output: the file to write; by default report.html in the folder.

    Raises:
        ModelError: the run is not finished, or a file is damaged.
        StorageError: a file cannot be read or written.
    """
    path = RunFolder(folder).report if output is None else Path(output)
    if path.is_dir():
        raise StorageError(f"cannot write {path}: there is a folder of that name")
    text = report_page(Contents.read(folder), path)
    with replacing(path) as scratch:
        scratch.write_text(text, encoding="utf-8")
    return path


def try_report(folder: Path | str, callback: Callback) -> None:
    """Write the report of a run that has just finished; `callback.on_warning` is called with the
    reason if that fails, so that no training is lost."""
    try:
        write_report(folder)
    except Exception as error:  # any failure of a page is less than that of a training
        reason = str(error) if isinstance(error, MolsepnormError) else repr(error)
        callback.on_warning(
            f"The report of the run could not be written: {reason}. The model and its scores are "
            f"complete; `molsepnorm report {shlex.quote(str(folder))}` writes the report again."
        )

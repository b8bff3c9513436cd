"""`RunLog`: what training prints, in the file `log.txt` of the run folder."""

from __future__ import annotations

import io
from datetime import datetime
from pathlib import Path

from molsepnorm._version import __version__
from molsepnorm.cli.console import make_console
from molsepnorm.cli.display import TrainingDisplay
from molsepnorm.data.datasets import Dataset
from molsepnorm.files.writing import clear_errors
from molsepnorm.model import PropertyModel
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.run_folder.folder import LOG, RunFolder


class RunLog(TrainingDisplay):
    """A callback that appends what `TrainingDisplay` prints to the file `log.txt` of a run folder.

    The file has neither colours nor a bar, and is complete with `--quiet`, too. A resumed run
    continues it. In Python:

    >>> import molsepnorm
    >>> config = molsepnorm.load_config("data/demo.csv")
    >>> molsepnorm.train(config, "runs/a", callback=RunLog("runs/a"))  # doctest: +SKIP

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: Path | str) -> None:
        super().__init__()
        run = RunFolder(folder)
        self._file = _Log(run.path / LOG, new=not run.has_begun)
        self.console = make_console(file=self._file, force_terminal=False, color_system=None)
        now = datetime.now().astimezone().isoformat(" ", "seconds")
        self.write(f"{now}, molsepnorm {__version__}{', resumed' if run.has_begun else ''}")

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        self._file.begin()
        super().on_start(config, dataset, model, folder)

    def write(self, line: str) -> None:
        """Append a line, such as an error."""
        self.console.print(line)


class _Log(io.TextIOBase):
    """A file that is opened for each text, so that it is complete if the process is killed.

    Args:
        path: the file. Its folder need not exist before `begin` is called.
        new: whether the file replaces an existing one.
    """

    def __init__(self, path: Path, new: bool) -> None:
        self._path, self._mode = path, "w" if new else "a"
        self._waiting: str | None = ""  # what was printed before `begin`

    def begin(self) -> None:
        """Write what was printed so far; from now on all texts are written."""
        waiting, self._waiting = self._waiting, None
        self.write(waiting or "")

    def write(self, text: str) -> int:
        if self._waiting is not None:
            self._waiting += text
            return len(text)
        with clear_errors(self._path, "write"), open(self._path, self._mode, encoding="utf-8") as f:
            f.write(text)
        self._mode = "a"
        return len(text)

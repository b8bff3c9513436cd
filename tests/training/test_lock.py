"""Only one process trains into a folder."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from molsepnorm.errors import ConfigError
from molsepnorm.files.lock import LOCK, locked
from molsepnorm.training import train

HOLD = """
import sys, time
from pathlib import Path
from molsepnorm.files.lock import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds the lock of `tmp_path / "run"`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        yield process
        process.kill()


def test_a_second_training_is_refused_until_the_first_ends(holder, configure, tmp_path):
    """The message names folder and process; after a SIGKILL the folder is free."""
    with pytest.raises(
        ConfigError, match=rf"another process \({holder.pid} on .*\) is training into .*run: wait"
    ):
        train(configure({"run.epochs": 1}), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == [LOCK]
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    result = train(configure({"run.epochs": 1}), tmp_path / "run")
    assert result.finished
    assert not (tmp_path / "run" / LOCK).exists()


@pytest.mark.parametrize(
    "error", [NotImplementedError(), OSError(errno.ENOLCK, "no"), OSError(errno.EOPNOTSUPP, "no")]
)
def test_training_works_on_a_disk_without_locks(tmp_path, monkeypatch, error):
    def fail(self):
        raise error

    monkeypatch.setattr(FileLock, "acquire", fail)
    with locked(tmp_path / "run"):
        (tmp_path / "run" / "file").write_text("x")
    assert (tmp_path / "run" / "file").exists()

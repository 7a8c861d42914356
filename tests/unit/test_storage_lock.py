"""One writer in a folder, whatever lies where the lock goes."""

import errno
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from regard.errors import ModelFolderError
from regard.storage import lock as lock_module
from regard.storage.lock import lock_name, only_writer

LOCK = lock_name("training")


def only_training_in(out: Path) -> AbstractContextManager[None]:
    return only_writer(out, "training", "--out")


def test_a_second_training_is_refused_through_any_name_of_the_folder(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    with (
        only_training_in(real),
        pytest.raises(ModelFolderError, match="another training is writing"),
        only_training_in(link),
    ):
        pass
    with only_training_in(link):
        pass
    assert not list(real.iterdir())


def test_a_killed_training_lets_go(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, pathlib\n"
        "from regard.storage.lock import only_writer\n"
        "with only_writer(pathlib.Path(sys.argv[1]), 'training', '--out'): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)]).returncode == -9
    assert (tmp_path / LOCK).exists()
    with only_training_in(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    out = tmp_path / "out"
    out.mkdir()
    (out / LOCK).symlink_to(precious)
    with pytest.raises(ModelFolderError, match="is not a regular file: remove it"), only_training_in(out):
        pass
    assert precious.read_text() == "kept"
    (out / LOCK).unlink()
    os.mkfifo(out / LOCK)
    with pytest.raises(ModelFolderError, match="is not a regular file: remove it"), only_training_in(out):
        pass


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> int:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(lock_module, "_open", refuse)
    with (
        pytest.raises(ModelFolderError, match=r"cannot be written \(Read-only file system\)"),
        only_training_in(tmp_path / "new"),
    ):
        pass
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFolderError, match="is a file: choose another"), only_training_in(tmp_path / "file"):
        pass

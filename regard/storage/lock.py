"""One writer for each folder: a lock in the folder itself, which the system releases when the process dies."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import ModelFolderError


@contextmanager
def only_writer(out: Path, work: str, option: str) -> Iterator[None]:
    """Refuse a second `work` (such as "training") in `out`, the folder of a command's `option`.

    Folders created for the lock are removed if they stay empty.
    """
    try:
        import fcntl
    except ImportError:  # Windows has no flock
        yield
        return
    new = [folder for folder in (out, *out.parents) if not folder.exists()]
    path = out / lock_name(work)
    descriptor = -1
    try:
        try:
            out.mkdir(parents=True, exist_ok=True)
            descriptor = _open(path)
        except OSError as error:
            raise ModelFolderError(_why_no_lock(out, path, option, error)) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(out, work, option) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):  # some network drives have no locks
                raise ModelFolderError(_why_no_lock(out, path, option, error)) from None
        if os.fstat(descriptor).st_nlink == 0:  # removed since it was opened: another process may hold a new one
            raise _taken(out, work, option)
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)  # while it is still held
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        for folder in new:
            with suppress(OSError):  # it is used
                folder.rmdir()


def lock_name(work: str) -> str:
    """The lock file of a kind of work."""
    return f".{work}.lock"


def _open(path: Path) -> int:
    """Open the lock file without following links or blocking on a FIFO."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def _taken(out: Path, work: str, option: str) -> ModelFolderError:
    return ModelFolderError(f"{out}: another {work} is writing there now: wait for it, or choose another {option}.")


def _why_no_lock(out: Path, path: Path, option: str, error: OSError) -> str:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return f"{path}: is not a regular file: remove it."
    if out.exists() and not out.is_dir():
        return f"{out}: is a file: choose another {option} folder."
    return f"{out}: cannot be written ({error.strerror}): fix that, or choose another {option}."

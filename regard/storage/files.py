"""Atomic, durable writes, and checksums that detect damage."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from regard.errors import ModelFolderError

if TYPE_CHECKING:
    from torch import Tensor

CHECKSUMS = "checksums.json"
BLOCK = 1 << 20  # bytes hashed at once


@contextmanager
def writing(path: Path, tag: str = "") -> Iterator[BinaryIO]:
    """Open a file for an atomic write: a temporary file, fsync, rename.

    A symbolic link is kept and its target replaced. A device or a pipe is written directly. A file that another
    process is writing is refused. `tag` makes the temporary name unique where several may write the same file.
    """
    if path.exists() and not path.is_file():  # a folder is an error
        with naming(path), open(path, "wb") as out:
            yield out
        return
    asked, path = path, Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}{tag}.part")
    with naming(asked):
        _refuse_second_writer(temporary, asked)
        try:
            temporary.unlink(missing_ok=True)
            with open(temporary, "xb") as out:  # never follows a symbolic link
                _lock(out.fileno())
                if path.exists() and hasattr(os, "fchmod"):  # a private file stays private
                    os.fchmod(out.fileno(), stat.S_IMODE(path.stat().st_mode))
                yield out
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    sync_folder(path.parent)


def _refuse_second_writer(temporary: Path, asked: Path) -> None:
    """Raise if another process holds the temporary file; what a killed one has left is free.

    Otherwise the first to end would rename the half-written file of the other.
    """
    try:
        left = os.open(temporary, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:  # none, a link, or unreadable
        return
    try:
        if not _lock(left):
            raise BlockingIOError(errno.EAGAIN, "another process is writing it now", str(asked))
    finally:
        os.close(left)


def _lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if another process has."""
    try:
        import fcntl
    except ImportError:  # Windows has no flock
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network drives have no locks
        return True
    return True


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let a system error name the file that was asked for, or the folder that refuses it, not the temporary file."""
    try:
        yield
    except OSError as error:
        own = error.filename is None or str(error.filename).endswith(".part")
        if not own or error.errno is None:
            raise
        refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        name = path.parent if refused and not path.exists() else path
        raise type(error)(error.errno, error.strerror, str(name)) from error


def reason(error: OSError, path: Path | None) -> str:
    """Why a file cannot be written; of a full disk also how much room is left, where the file is known."""
    said = (error.strerror or str(error) or type(error).__name__).lower()
    if path is None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return said
    place = next((each for each in (path, *path.absolute().parents) if each.exists()), None)
    free = 0 if place is None else shutil.disk_usage(place).free
    return f"{said}, {_bytes(free)} free"


def _bytes(count: int) -> str:
    if count >= 1 << 30:
        return f"{count / (1 << 30):.1f} GB"
    return f"{count / (1 << 20):.1f} MB" if count >= 1 << 20 else f"{count >> 10} kB"


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically and durably."""
    with writing(path) as file:
        file.write(content)


def write_json(path: Path, value: Any) -> None:
    """Write indented UTF-8 JSON; non-finite numbers raise ValueError."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(path, (text + "\n").encode())


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file with its metadata."""
    import safetensors.torch

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, safetensors.torch.save(plain, {"format": "pt", **(about or {})}))


def write_arrays(path: Path, arrays: Mapping[str, Any], about: Mapping[str, str] | None = None) -> None:
    """Write numpy arrays as a safetensors file with its metadata."""
    import safetensors.numpy

    write_bytes(path, safetensors.numpy.save(dict(arrays), dict(about or {})))


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Create a folder atomically: it is renamed when complete, and removed on failure."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ModelFolderError(f"{path}: already exists: choose another --out.")
    with writing_folder(path) as temporary:
        yield temporary


@contextmanager
def writing_folder(path: Path) -> Iterator[Path]:
    """An atomic folder: fill the one that is yielded; it replaces `path` when it is complete."""
    temporary = path.with_name(f".{path.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        shutil.rmtree(path, ignore_errors=True)
        os.replace(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)  # a full disk gets its space back
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush renames and removals inside the folder to disk (not on Windows)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- checksums ----------------------------------------------------------------------------------------------------


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def write_checksums(folder: Path, names: Iterable[str], also: Mapping[str, str] | None = None) -> None:
    """Write the SHA-256 of these files into the folder's checksums.json; `also` gives alternative checksums.

    A file that is about to be replaced has two valid checksums: a crash leaves the old file or the new one.
    """
    sums = {name: [sha256(folder / name)] for name in sorted(names)}
    for name, other in (also or {}).items():
        sums[name].append(other)
    write_json(folder / CHECKSUMS, {"sha256": sums})


def checked_files(folder: Path) -> dict[str, list[str]]:
    """The files in checksums.json with their valid checksums."""
    path = folder / CHECKSUMS
    _refuse_special(path)
    try:
        record = json.loads(path.read_bytes())
        sums = {str(name): [str(value) for value in values] for name, values in record["sha256"].items()}
    except FileNotFoundError:
        raise ModelFolderError(f"{path}: is missing.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelFolderError(f"{path}: is damaged.") from None
    if odd := next((name for name in sums if not _stays_inside(name)), None):
        raise ModelFolderError(f"{path}: is damaged ({odd!r} is not a file of this folder).")
    return sums


def check_files(folder: Path) -> set[str]:
    """Verify every file in checksums.json; raises at the first that is missing or differs."""
    sums = checked_files(folder)
    for name, values in sums.items():
        path = folder / name
        _refuse_special(path)
        try:
            found = sha256(path)
        except FileNotFoundError:
            raise ModelFolderError(f"{path}: is missing.") from None
        except OSError as error:
            raise ModelFolderError(f"{path}: cannot be read ({error.strerror}).") from None
        if found not in values:
            raise ModelFolderError(f"{path}: is damaged (its checksum differs).")
    return set(sums)


def _refuse_special(path: Path) -> None:
    """Raise for a FIFO or a device, which could block for ever."""
    if path.exists() and not path.is_file():
        raise ModelFolderError(f"{path}: is not a regular file.")


def _stays_inside(name: str) -> bool:
    path = Path(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\0" not in name

"""Compiled copies of a model: the converted files of an engine, ready to be opened without torch.

    MODEL/compiled/ctranslate2-int8/    the files of the engine
        compiled.json                   their sizes; the files of the model, by size, times, inode and SHA-256

A copy is made at its first use. It is kept in the model folder; in the user's cache folder, if the model folder cannot
be written; and nowhere, if neither can. A copy is rebuilt when weights, settings, vocabulary or the version of Regard
change. Deleting copies is harmless.

One process makes a copy while the others wait (flock on the folder that holds the copies). A model folder is untrusted:
the engine checks each copy against the model before its library parses it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from regard import __version__
from regard.errors import ModelFolderError
from regard.machine.processor import cache_folder
from regard.storage.arrays import read_shapes
from regard.storage.files import sha256, write_json, writing_folder
from regard.storage.folder import COMPILED, CONFIG, JOINT, SHORTLIST, SOURCE, TARGET, WEIGHTS
from regard.storage.reading import CONFIG_BYTES, read_json

MANIFEST = "compiled.json"

Stamp = tuple[int, int, int, int]
"""Size, modification time, change time and inode: equal stamps mean the same content."""


class Listed(NamedTuple):
    """A copy, for `regard info`."""

    name: str
    path: Path
    bytes: int
    fresh: bool  # made from the model as it is now


class Compiled:
    """The compiled copies of the model in a folder; without a folder, temporary ones.

    It belongs to the files that were there when it was made: once they change, copies are temporary.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._stamps = {} if folder is None else _stamps(folder)

    @property
    def has_folder(self) -> bool:
        """Whether the model was loaded from a folder and nobody has changed it in memory."""
        return self._folder is not None

    @property
    def is_of_another_model(self) -> bool:
        """Whether the folder holds another model now; new permissions, links or shortlists do not matter."""
        return self._folder is not None and _contents(_stamps(self._folder)) != _contents(self._stamps)

    def forget(self) -> None:
        """Use temporary copies from now on: the model may differ from the folder's."""
        self._folder = None

    @property
    def kept(self) -> bool:
        """Whether copies are kept: the model is that of its folder."""
        return self._folder is not None and not self._has_changed(self._folder)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the model's weights by name, from the header of their file."""
        return {} if self._folder is None else read_shapes(self._folder / WEIGHTS)

    @contextmanager
    def opened(
        self, name: str, write: Callable[[Path], None], check: Callable[[Path], bool], *, shortlist: bool = False
    ) -> Iterator[Path]:
        """The copy of this name, as a folder to read inside the context; `write` fills a new one.

        `check` tells whether a copy is of this model, by its untrusted files. `shortlist`: the copy depends on it.
        """
        with ExitStack() as stack:
            found, folder = None, self._folder
            if folder is not None and not self._has_changed(folder):
                made_from = _Sources(folder, self._sources(shortlist))
                found = _find(name, made_from, check, stack) or self._make(name, made_from, write, check, stack)
            if found is None:
                found = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="regard-")))
                write(found)
            yield found

    def listed(self) -> list[Listed]:
        """All copies that are kept."""
        copies, folder = [], self._folder
        for root in [] if folder is None else _roots(folder):
            for path in sorted(root.iterdir()) if _is_folder(root) else ():
                if _is_folder(path) and not path.name.startswith("."):
                    assert folder is not None
                    made_from = _Sources(folder, self._sources(shortlist=path.name.endswith("-shortlist")))
                    size = sum(count for count in _sizes(path).values() if count > 0)
                    copies.append(Listed(path.name, path, size, _is_fresh(path, made_from)))
        return copies

    def _make(
        self,
        name: str,
        made_from: _Sources,
        write: Callable[[Path], None],
        check: Callable[[Path], bool],
        stack: ExitStack,
    ) -> Path | None:
        """Make the copy in the first place that can be written; None without one, or if the model changes meanwhile."""
        for root in _roots(made_from.folder):
            if self._has_changed(made_from.folder):
                break
            with suppress(OSError), ExitStack() as lock:
                root.mkdir(parents=True, exist_ok=True)
                if not _is_folder(root):
                    continue
                lock.enter_context(_locked(root, exclusive=True))
                if not _can_open(root / name, made_from, check):  # else another process has made it
                    with writing_folder(root / name) as new:
                        write(new)
                        _write_manifest(new, made_from)
                        if self._has_changed(made_from.folder):
                            raise OSError(errno.ESTALE, "the model has changed")
                stack.enter_context(lock.pop_all())
                return root / name
        return None

    def _sources(self, shortlist: bool) -> dict[str, Stamp]:
        return {name: stamp for name, stamp in self._stamps.items() if shortlist or name != SHORTLIST}

    def _has_changed(self, folder: Path) -> bool:
        return _stamps(folder) != self._stamps


def _contents(stamps: Mapping[str, Stamp]) -> dict[str, tuple[int, int, int]]:
    """Size, modification time and inode of the files that every engine reads."""
    return {name: (size, modified, inode) for name, (size, modified, _, inode) in stamps.items() if name != SHORTLIST}


class _Sources(NamedTuple):
    """The files from which a copy is made."""

    folder: Path
    stamps: Mapping[str, Stamp]


def _roots(folder: Path) -> list[Path]:
    """The folders that hold copies of a model."""
    cache = cache_folder()
    path = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    return [folder / COMPILED, *([] if cache is None else [cache / COMPILED / path])]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _find(name: str, made_from: _Sources, check: Callable[[Path], bool], stack: ExitStack) -> Path | None:
    """An existing copy that is fresh, locked until the stack ends."""
    for root in _roots(made_from.folder):
        with ExitStack() as lock:
            if not _is_folder(root):
                continue
            lock.enter_context(_locked(root, exclusive=False))
            if _can_open(root / name, made_from, check):
                stack.enter_context(lock.pop_all())
                return root / name
    return None


def _stamps(folder: Path) -> dict[str, Stamp]:
    """The stamps of the files from which copies are made."""
    stamps = {}
    for name in (CONFIG, WEIGHTS, JOINT, SOURCE, TARGET, SHORTLIST):
        with suppress(OSError):
            about = os.stat(f"{folder}/{name}")  # asked by each request: several times as fast as `folder / name`
            stamps[name] = (about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)
    return stamps


def _write_manifest(copy: Path, made_from: _Sources) -> None:
    sources = {
        name: {"stamp": list(stamp), "sha256": sha256(made_from.folder / name)}
        for name, stamp in made_from.stamps.items()
    }
    write_json(copy / MANIFEST, {"version": __version__, "sources": sources, "files": _sizes(copy)})


def _sizes(copy: Path) -> dict[str, int]:
    """The size of each file of a copy; of anything else, -1."""
    files = [path for path in copy.iterdir() if path.name != MANIFEST]
    return {path.name: path.stat().st_size if path.is_file() and not path.is_symlink() else -1 for path in files}


def _can_open(copy: Path, made_from: _Sources, check: Callable[[Path], bool]) -> bool:
    """Whether a copy is fresh and its untrusted files are those of the model."""
    try:
        return _is_fresh(copy, made_from) and check(copy)
    except (ModelFolderError, OSError):
        return False


def _is_fresh(copy: Path, made_from: _Sources) -> bool:
    """Whether a copy is whole and was made from these files.

    A file with another stamp but the same size, such as one that was copied, is hashed; its stamp is then remembered.
    """
    try:
        if not _is_folder(copy) or not (copy / MANIFEST).exists():
            return False
        record = read_json(copy / MANIFEST, CONFIG_BYTES)
        sources, moved = record["sources"], False
        same = record["version"] == __version__ and record["files"] == _sizes(copy)
        if not same or sources.keys() != made_from.stamps.keys():
            return False
        for name, stamp in made_from.stamps.items():
            found = sources[name]["stamp"]
            if found != list(stamp):
                if found[0] != stamp[0] or sources[name]["sha256"] != sha256(made_from.folder / name):
                    return False
                sources[name]["stamp"], moved = list(stamp), True
    except (ModelFolderError, OSError, KeyError, TypeError, AttributeError, IndexError):
        return False
    if moved:
        with suppress(OSError):
            write_json(copy / MANIFEST, record)
    return True


@contextmanager
def _locked(root: Path, *, exclusive: bool) -> Iterator[None]:
    """Hold a lock on the folder of the copies, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some network drives have none
            fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)

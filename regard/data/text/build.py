"""Encode a text into the folder of an `EncodedCorpus`, in bounded memory.

The ids of each block are appended to files in a folder beside the final one, and a journal says how far they are sound:
a run that was killed loses the pairs since its last line, and the same text goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.config.settings import TextSettings
from regard.data.text.corpus import FORMAT, EncodedCorpus
from regard.data.text.encoding import Encoded, Skipped, check_not_empty, id_type
from regard.data.text.parallel import Chosen, Place
from regard.data.text.texts import Piece, Text
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.workers import Workers
from regard.errors import DataError
from regard.storage.files import reason, sync_folder

JOURNAL = "journal.jsonl"
JOURNAL_PAIRS = 1 << 16  # pairs between two lines of the journal
HASHED = 1 << 20  # tokens hashed at once
NAMES = ("source", "target")

OnProgress = Callable[[int], None]


@dataclass
class _Progress:
    """How far the text is encoded."""

    corpus: int = 0
    place: Place | None = None  # in that corpus
    read: int = 0  # pairs of the text
    tokens: tuple[int, int] = (0, 0)
    parts: list[int] = field(default_factory=list)  # pairs kept of each corpus
    skipped: Skipped = field(default_factory=Skipped)

    def add(self, piece: Piece, encoded: Encoded) -> None:
        self.corpus, self.place = piece.corpus, piece.block.end
        self.read += piece.size
        self.tokens = tuple(  # type: ignore[assignment]  # two
            tokens + int(lengths.sum(dtype=np.int64))
            for tokens, lengths in zip(self.tokens, encoded.lengths, strict=True)
        )
        self.parts[piece.corpus] += encoded.skipped.kept
        self.skipped += encoded.skipped

    @property
    def pairs_bytes(self) -> int:
        """The size of a file of offsets."""
        return (self.skipped.kept + 1) * 8

    @classmethod
    def of(cls, line: dict[str, Any]) -> _Progress:
        place = Place(line["place"]["pairs"], tuple(line["place"]["offsets"]))
        return cls(**{**line, "place": place, "tokens": tuple(line["tokens"]), "skipped": Skipped(**line["skipped"])})


def build_corpus(
    text: Text,
    source: Tokenizer,
    target: Tokenizer,
    folder: Path,
    settings: TextSettings,
    *,
    workers: Workers | None = None,
    duplicate: Chosen | None = None,
    keep: bool = False,
    on_progress: OnProgress = lambda read: None,
) -> EncodedCorpus:
    """Encode a text; `on_progress` receives the number of pairs read.

    Pairs with a blank side, or with more than `settings.max_length` tokens on one side (EOS included), are dropped, and
    those that the filters exclude; `duplicate` (pairs,) marks pairs that occurred before. With `keep`, what an
    interrupted call has written is used: it must be of the same text and settings.
    """
    if keep and (folder / "corpus.json").exists():
        return EncodedCorpus.open(folder)
    if folder.exists() and not (folder / "corpus.json").exists():
        raise DataError(f"{folder}: exists and is not an encoded corpus. Remove it or choose another folder.")
    try:
        with _part(folder, keep) as part:
            writer = _Writer(part, source, target, len(text.corpora))
            hired = workers or Workers(0)
            hired.start_encoding(source, target, settings)
            _encode(text, hired, writer, duplicate, on_progress)
            check_not_empty(writer.progress.skipped, settings.max_length)
            for corpus, kept in zip(text.corpora, writer.progress.parts, strict=True):
                if not kept and text.weights is not None:
                    raise DataError(f"{corpus.description}: no pair of it is left to use: leave it out of the mix.")
            writer.finish(text.weights)
    except OSError as error:
        raise DataError(
            f"{folder}: the encoded corpus cannot be written ({reason(error, folder)}). Make room or choose "
            "another place."
        ) from error
    return EncodedCorpus.open(folder)


def _encode(text: Text, workers: Workers, writer: _Writer, duplicate: Chosen | None, on_progress: OnProgress) -> None:
    progress = writer.progress
    sent = progress.read

    def jobs() -> Iterator[tuple[Piece, bool, Chosen | None]]:
        nonlocal sent
        for piece in text.pieces(progress.corpus, progress.place):
            begin, sent = sent, sent + piece.size
            marked = None if duplicate is None else duplicate[begin:sent]
            yield piece, text.corpora[piece.corpus].back_translated, marked

    try:
        for (piece, _, _), encoded in workers.encode(jobs()):
            writer.append(piece, encoded)
            on_progress(progress.read)
    finally:
        writer.close()


@contextmanager
def _part(folder: Path, keep: bool) -> Iterator[Path]:
    """The folder beside the final one; `keep` leaves it after Ctrl-C and takes what a killed process left."""
    part = folder.with_name(f".{folder.name}.part")
    if not keep:
        shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True, exist_ok=True)
    try:
        yield part
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(part, folder)
    except BaseException as error:
        if not keep or isinstance(error, Exception):
            shutil.rmtree(part, ignore_errors=True)  # a full disk gets its space back
        raise
    sync_folder(folder.parent)


class _Writer:
    """Appends encoded blocks to the files of a corpus."""

    def __init__(self, folder: Path, source: Tokenizer, target: Tokenizer, corpora: int) -> None:
        self.folder = folder
        self.types = id_type(source), id_type(target)
        self.progress = self._before() or _Progress(parts=[0] * corpora)
        self._noted = self.progress.read
        tokens, offsets = self.progress.tokens, self.progress.pairs_bytes if self._noted else 0
        self._ids = [self._open(f"{name}.ids", tokens[side] * self.types[side].itemsize) for side, name in _SIDES]
        self._offsets = [self._open(f"{name}.offsets", offsets) for name in NAMES]
        if not self._noted:
            for stream in self._offsets:
                stream.write(np.zeros(1, np.int64).tobytes())
            (folder / JOURNAL).unlink(missing_ok=True)

    def _before(self) -> _Progress | None:
        """The progress in the journal, if the files have it."""
        try:
            lines = (self.folder / JOURNAL).read_bytes().split(b"\n")
            progress = _Progress.of(json.loads(lines[-2]))  # behind the last line end: nothing, or half a line
            for side, name in _SIDES:
                ids, offsets = ((self.folder / f"{name}.{suffix}").stat().st_size for suffix in ("ids", "offsets"))
                if ids < progress.tokens[side] * self.types[side].itemsize or offsets < progress.pairs_bytes:
                    return None
            return progress
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return None

    def _open(self, name: str, size: int) -> Any:
        path = self.folder / name
        path.touch()
        os.truncate(path, size)
        return path.open("ab")

    def append(self, piece: Piece, encoded: Encoded) -> None:
        """Write a block."""
        for side in (0, 1):
            ends = self.progress.tokens[side] + np.cumsum(encoded.lengths[side], dtype=np.int64)
            self._ids[side].write(encoded.ids[side])
            self._offsets[side].write(ends.tobytes())
        self.progress.add(piece, encoded)
        if self.progress.read - self._noted >= JOURNAL_PAIRS:
            self._note()

    def _note(self) -> None:
        self._sync()
        with (self.folder / JOURNAL).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(self.progress)) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        self._noted = self.progress.read

    def _sync(self) -> None:
        for stream in (*self._ids, *self._offsets):
            stream.flush()
            os.fsync(stream.fileno())

    def close(self) -> None:
        """Close the files."""
        self._sync()
        for stream in (*self._ids, *self._offsets):
            stream.close()

    def finish(self, weights: tuple[float, ...] | None) -> None:
        """Write corpus.json."""
        progress = self.progress
        about = {
            "format": FORMAT,
            "skipped": asdict(progress.skipped),
            "fingerprint": "".join(
                _fingerprint(self.folder / f"{name}.ids", self.types[side]) for side, name in _SIDES
            ),
            "parts": progress.parts,
            "weights": weights,
            **{name: {"type": self.types[side].name, "tokens": progress.tokens[side]} for side, name in _SIDES},
        }
        (self.folder / JOURNAL).unlink(missing_ok=True)
        with (self.folder / "corpus.json").open("w", encoding="utf-8") as stream:
            json.dump(about, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        sync_folder(self.folder)


_SIDES = tuple(enumerate(NAMES))


def _fingerprint(path: Path, kind: np.dtype[np.integer[Any]]) -> str:
    """The hash of a side's ids; EOS marks sentence boundaries, so it covers them."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(HASHED * kind.itemsize):
            ids: npt.NDArray[Any] = np.frombuffer(block, kind)
            digest.update(ids.astype(np.int32).tobytes())
    return digest.hexdigest()

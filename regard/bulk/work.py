"""The work on one shard, the same in every executor: read, translate, write beside, rename."""

from __future__ import annotations

import itertools
import os
import uuid
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import __version__
from regard.bulk.formats import Rows, Wanted, open_writer, read_rows
from regard.bulk.manifest import Record
from regard.bulk.shards import Shard
from regard.config.settings import SearchSettings
from regard.errors import DataError, ModelFolderError
from regard.inference.long_lines import LongLineWarning
from regard.inference.translation import Translation
from regard.inference.translator import Translator
from regard.storage.files import sha256, writing
from regard.storage.folder import CONFIG, JOINT, SHORTLIST, SOURCE, TARGET, WEIGHTS

# the files of a model folder that determine its translations
_TRANSLATING = (CONFIG, WEIGHTS, JOINT, SOURCE, TARGET, SHORTLIST)


@dataclass(frozen=True)
class Job:
    """What a worker needs to translate shards; plain values only."""

    models: tuple[str, ...]  # absolute folders; several are an ensemble
    checksums: tuple[Mapping[str, str], ...]  # of their files
    search: Mapping[str, Any]
    wanted: Wanted
    window: int
    device: str = "cpu"
    version: str = __version__

    @property
    def about(self) -> dict[str, Any]:
        """The description in the manifest: all that determines the output."""
        names = [Path(folder).name for folder in self.models]
        models = [{"name": name, "sha256": dict(sums)} for name, sums in zip(names, self.checksums, strict=True)]
        wanted = self.wanted
        output = {"form": wanted.form, "column": wanted.column, "columns": list(wanted.columns)}
        return {
            "regard": self.version,
            "models": models,
            "search": dict(self.search),
            "window": self.window,
            "device": self.device,
            "output": output,
        }


@dataclass(frozen=True)
class Progress:
    """How far a shard is: sentences translated, and bytes of its file read."""

    sentences: int
    position: int


@dataclass(frozen=True)
class Failure:
    """A shard that cannot be translated; the others can."""

    error: DataError


Event = Progress | Record | Failure
Events = Generator[tuple[Shard, Event], None, None]
"""What executors yield; `close` stops them."""


def checksums(folder: str | Path) -> dict[str, str]:
    """The SHA-256 of the files of a model folder that determine its translations."""
    return {name: sha256(Path(folder) / name) for name in _TRANSLATING if (Path(folder) / name).is_file()}


def load_translator(job: Job) -> Translator:
    """The model of a job, if this machine sees the same files and runs the same version."""
    if job.version != __version__:
        raise ModelFolderError(f"Regard {__version__} is installed here, and {job.version} asks: install the same one.")
    loaded = [Translator.load(folder, job.device) for folder in job.models]
    for folder, sums in zip(job.models, job.checksums, strict=True):
        if checksums(folder) != sums:
            raise ModelFolderError(f"{folder}: has other files here, or changed: all nodes must see the same folder.")
    return loaded[0] if len(loaded) == 1 else Translator.ensemble(loaded)


def attempt(translator: Translator, job: Job, shard: Shard) -> Iterator[Event]:
    """Translate a shard; bad input is an event, any other error is raised."""
    try:
        yield from translate_shard(translator, job, shard)
    except DataError as error:
        yield Failure(error)


def translate_shard(translator: Translator, job: Job, shard: Shard) -> Iterator[Progress | Record]:
    """Translate a shard with bounded memory; its record comes last, when the output is safe on disk."""
    yield Progress(0, 0)  # the clock starts when a model is loaded
    before = _state(shard.input)
    digest = sha256(shard.input)
    sentences = cut = 0
    shard.output.parent.mkdir(parents=True, exist_ok=True)
    with writing(shard.output, tag=f".{uuid.uuid4().hex}") as out:
        writer = open_writer(out, shard.output, shard.input, shard.kind, job.wanted)
        for rows, translations, long_lines in _translated(translator, job, shard):
            writer.write(rows, translations)
            sentences, cut = sentences + len(translations), cut + long_lines
            yield Progress(sentences, rows.position)
        writer.close()
        if _state(shard.input) != before:
            raise DataError(f"{shard.input}: changed while it was read: run the command again when it is complete.")
    yield Record(
        input=shard.name,
        input_bytes=before[0],
        input_sha256=digest,
        output=shard.output_name,
        output_bytes=shard.output.stat().st_size,
        output_sha256=sha256(shard.output),
        sentences=sentences,
        cut=cut,
    )


def _state(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}): all nodes must see the input.") from None
    return found.st_size, found.st_mtime_ns


def _translated(translator: Translator, job: Job, shard: Shard) -> Iterator[tuple[Rows, list[Translation], int]]:
    """Rows with their translations, and how many lines were cut since the rows before."""
    waiting: deque[Rows] = deque()

    def texts(rows_of_shard: Iterable[Rows]) -> Iterator[str]:
        for rows in rows_of_shard:
            waiting.append(rows)
            yield from (text or "" for text in rows.texts)

    lines = texts(read_rows(shard.input, shard.kind, job.wanted))
    settings = SearchSettings(**job.search)
    found = translator.translate_lines(lines, search=settings, attention=job.wanted.alignments, window=job.window)
    done: list[Translation] = []
    long_lines = 0
    while True:
        # A record batch of Parquet may end anywhere; the window of the translator never depends on it.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", LongLineWarning)
            done += (more := list(itertools.islice(found, job.window)))
        long_lines += sum(issubclass(each.category, LongLineWarning) for each in caught)
        while waiting and len(done) >= len(waiting[0].texts):
            rows = waiting.popleft()
            count = len(rows.texts)
            yield rows, done[:count], long_lines
            done, long_lines = done[count:], 0
        if not more:
            return

"""A run over shards: find them, skip finished ones, translate the others, write the manifest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from regard.bulk import local
from regard.bulk.formats import Wanted, read_rows
from regard.bulk.manifest import Journal, Manifest, Record, difference, journal, read_manifest
from regard.bulk.shards import Form, Shard, find_shards
from regard.bulk.work import Event, Events, Failure, Job, Progress, checksums
from regard.config.settings import Recipe
from regard.decoding.search_settings import SearchChanges, chosen_settings
from regard.errors import ConfigError, DataError
from regard.inference.box import model_folder
from regard.inference.lines import WINDOW
from regard.process import thread_count
from regard.storage.files import sha256
from regard.storage.folder import read_config
from regard.storage.lock import only_writer

WORK = "translation"
CHECKERS = 8  # threads that compute checksums of finished shards

Executor = Callable[[Job, Sequence[Shard]], Events]
Say = Callable[[str], None]


@dataclass
class Status:
    """How far a run is."""

    shards: int  # all of them
    finished: int  # by this run and earlier ones
    bytes: int  # of the input of this run
    sentences: int = 0  # of the shards that this run has finished
    bytes_done: int = 0
    failed: int = 0
    started: float | None = None  # when the first worker had loaded its model
    underway: dict[Shard, Progress] = field(default_factory=dict)

    @property
    def sentences_now(self) -> int:
        """Sentences translated by this run, those of unfinished shards included."""
        return self.sentences + sum(each.sentences for each in self.underway.values())

    @property
    def bytes_now(self) -> int:
        """Bytes of input translated by this run, those of unfinished shards included."""
        return self.bytes_done + sum(each.position for each in self.underway.values())

    @property
    def elapsed(self) -> float:
        """Seconds of translating."""
        return 0.0 if self.started is None else time.monotonic() - self.started

    @property
    def rate(self) -> float:
        """Sentences per second."""
        return self.sentences_now / self.elapsed if self.elapsed else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By the bytes of input read and unread; None before the first ones."""
        done = self.bytes_now
        return self.elapsed * max(0, self.bytes - done) / done if done else None


def translate_shards(
    models: str | Path | Sequence[str | Path],
    pattern: str | Path,
    output: str | Path,
    *,
    search: SearchChanges = None,
    form: Form = "text",
    column: str = "text",
    scores: bool = False,
    alignments: bool = False,
    window: int | None = None,
    device: str = "cpu",
    ray: str | None = None,
    workers: int | None = None,
    on_status: Callable[[Status], None] = lambda status: None,
    say: Say = lambda line: None,
) -> Manifest:
    """Translate every file of a pattern into a folder, in this process or on Ray, and return the manifest.

    `ray` is "local", "auto" or the address of a cluster, where at most `workers` translate; in this process, as many
    share the batches of a shard. Shards that the output's manifest names with the same model, settings and checksums
    are skipped. Unusable shards raise when the others are finished.
    """
    folders = [model_folder(each) for each in ([models] if isinstance(models, str | Path) else models)]
    shards = find_shards(pattern, output, form)
    out = shards[0].out
    recipes = [read_config(folder, Recipe)[0] for folder in folders]
    settings = chosen_settings(recipes[0].search, search)
    job = Job(
        models=tuple(str(folder.absolute()) for folder in folders),
        checksums=tuple(checksums(folder) for folder in folders),
        search=settings.model_dump(mode="json"),
        wanted=Wanted(form, column, scores, alignments, settings.n_best > 1),
        window=window or WINDOW,
        device=device,
    )
    _check_first(shards, job.wanted)
    executor = _executor(ray, workers, say)
    with only_writer(out, WORK, "--output"):
        out.mkdir(parents=True, exist_ok=True)
        manifest = _begun(out, job)
        left = _unfinished(shards, manifest, say)
        if left:
            _run(job, left, manifest, executor, len(shards), on_status, say)
        manifest.write(out)
    return manifest


def _executor(ray: str | None, workers: int | None, say: Say) -> Executor:
    if ray is None:
        return partial(local.execute, workers=workers or thread_count())
    from regard.bulk.cluster import on_ray

    return on_ray(ray, workers, say)


# --- before the work ----------------------------------------------------------------------------------------------


def _check_first(shards: Sequence[Shard], wanted: Wanted) -> None:
    """Read a few rows of each kind of file: a wrong --column ends the run before it starts."""
    for shard in {each.kind: each for each in reversed(shards)}.values():
        if shard.kind != "text":
            next(read_rows(shard.input, shard.kind, wanted), None)


def _begun(out: Path, job: Job) -> Manifest:
    """The manifest of the folder, which must be of the same model and settings; leftovers are removed."""
    manifest = read_manifest(out)
    if manifest is None:
        if odd := next((each for each in out.iterdir() if not each.name.startswith(".")), None):
            raise ConfigError(f"--output {out}: holds {odd.name} and no manifest: choose an empty or a new folder.")
        manifest = Manifest(job.about, {})
    if what := difference(manifest.about, job.about):
        raise ConfigError(f"--output {out}: its shards were translated differently ({what}): choose another folder.")
    remove_leftovers(out)
    return manifest


def remove_leftovers(out: Path) -> None:
    """Remove the temporary files of workers that were killed."""
    for part in out.rglob(".*.part"):
        part.unlink(missing_ok=True)


def _unfinished(shards: Sequence[Shard], manifest: Manifest, say: Say) -> list[Shard]:
    """The shards to translate; the record of a changed one is dropped."""
    known = [shard for shard in shards if shard.name in manifest.records]
    if not known:
        return list(shards)
    with ThreadPoolExecutor(CHECKERS) as pool:
        checks = pool.map(lambda shard: _is_same(shard, manifest.records[shard.name]), known)
        same = dict(zip(known, checks, strict=True))
    changed = [shard for shard in known if not same[shard]]
    for shard in changed:
        del manifest.records[shard.name]
    say(f"{len(known) - len(changed)} of {len(shards)} shards are finished already")
    if changed:
        say(f"{len(changed)} changed since they were translated, and are translated again")
    return [shard for shard in shards if not same.get(shard, False)]


def _is_same(shard: Shard, record: Record) -> bool:
    """Whether input and output are those of the record; sizes first, which cost nothing."""
    pairs = [
        (shard.input, record.input_bytes, record.input_sha256),
        (shard.output, record.output_bytes, record.output_sha256),
    ]
    try:
        return all(path.stat().st_size == size for path, size, _ in pairs) and all(
            sha256(path) == digest for path, _, digest in pairs
        )
    except OSError:
        return False


# --- the work -----------------------------------------------------------------------------------------------------


def _run(
    job: Job,
    shards: Sequence[Shard],
    manifest: Manifest,
    executor: Executor,
    total: int,
    on_status: Callable[[Status], None],
    say: Say,
) -> None:
    status = Status(total, total - len(shards), sum(shard.size for shard in shards))
    failures: list[Failure] = []
    out = shards[0].out
    on_status(status)
    try:
        with journal(out, manifest) as book, closing(executor(job, shards)) as events:
            for shard, event in events:
                _count(status, shard, event)
                if isinstance(event, Record):
                    _finish(shard, event, manifest, book, say)
                elif isinstance(event, Failure):
                    failures.append(event)
                    say(f"skipped: {event.error}")
                on_status(status)
    finally:
        remove_leftovers(out)
    if failures:
        others = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise DataError(f"{failures[0].error}{others} The other shards are finished: mend and run the command again.")


def _count(status: Status, shard: Shard, event: Event) -> None:
    status.started = status.started or time.monotonic()
    if isinstance(event, Progress):
        status.underway[shard] = event
        return
    status.underway.pop(shard, None)
    status.bytes_done += shard.size
    if isinstance(event, Record):
        status.finished += 1
        status.sentences += event.sentences
    else:
        status.failed += 1


def _finish(shard: Shard, record: Record, manifest: Manifest, book: Journal, say: Say) -> None:
    manifest.records[shard.name] = record
    book.add(record)
    if record.cut:
        say(f"{shard.input}: {record.cut:,} sentences were cut at search.max_source")

"""What all fuzz targets share: how many inputs, how they are made, and what counts as a failure.

`make test` tries a few hundred inputs, the same ones each time; `make fuzz` 100,000 others (REGARD_FUZZ=count). An
input fails its target if anything but an error of `regard.errors` comes out, after more than 5 seconds of the
processor, or if the process grows by more than half a gigabyte.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from regard.errors import RegardError

TOTAL = int(os.environ.get("REGARD_FUZZ", "0"))
QUICK = 400
SECONDS = 5.0  # of the processor
WAITING = 120.0  # for something that never comes
GROWTH = 512 << 20  # bytes that the process may grow by in one target
ROOM = 3 << 30  # address space beyond what the process has, in `make fuzz`

COUNTS: Counter[tuple[str, str]] = Counter()
SLOWEST: dict[str, float] = {}


def fuzzed(share: float) -> Callable[[Any], Any]:
    """The settings of a target that tries this share of all inputs."""
    count = max(1, int((TOTAL or QUICK) * share))
    return settings(
        max_examples=count,
        derandomize=not TOTAL,
        database=None,
        deadline=None,
        print_blob=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


class Hang(BaseException):
    """It took too long."""


def _hang(number: int, frame: object) -> None:
    raise Hang


@contextmanager
def watched(target: str) -> Iterator[None]:
    """Only errors of ours, in bounded time and memory."""
    before = _peak()
    started = time.process_time()
    earlier = [signal.signal(number, _hang) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of the processor: the machine may have other work
    signal.setitimer(signal.ITIMER_REAL, WAITING)
    try:
        yield
        outcome = "accepted"
    except RegardError as error:
        outcome = "refused"
        text = str(error)
        assert text.isprintable() or not any(c < " " or "\x7f" <= c <= "\x9f" for c in text), repr(text)
        assert len(text) < 5000, text[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGPROF, earlier[0])
        signal.signal(signal.SIGALRM, earlier[1])
    COUNTS[target, outcome] += 1
    took = time.process_time() - started
    SLOWEST[target] = max(SLOWEST.get(target, 0.0), took)
    assert took < SECONDS, f"{took:.1f} s"
    assert _peak() - before < GROWTH, f"{(_peak() - before) >> 20} MB more"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def little_room() -> Iterator[None]:
    """A limit on the address space, so that a large allocation fails at once (`make fuzz` on Linux)."""
    if not TOTAL or not os.path.exists("/proc/self/statm"):
        yield
        return
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


# --- mutations ----------------------------------------------------------------------------------------------------


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 3, 7, 64, 100, 9000, 65536, 2**24, 2**31, 2**32, 2**63, 10**30, -(2**63)),
    *(0.5, -0.5, 1e-300, 1e308, -1e308, float("nan"), float("inf"), 1.0, 16777216.0, 1e30),
    *("", "a", "<pad>", "▁", "9000", "1e30", "none", "../../etc/passwd", "a" * 3000, "\x1b[2J\x07", "\u202e", "\x00"),
    *("\ud800", "\n", "é", "transformer", "bahdanau", "resnet", "captioner", "location", "local-p", "cosine", "hard"),
    *([], [[]], {}, {"a": {}}, [1, 2], [0, 0, 0], [3, 4096, 4096], [""], ["a", "a"], _deep(20), _deep(40), _deep(900)),
    *(list(range(300)), {"type": "Sequence"}, {"String": "a"}, {"Regex": "(a+)+$"}, {"Regex": "("}),
]


def mutate_json(document: Any, chance: random.Random, more: list[Any] | None = None) -> bytes:
    """The document with one to three places replaced, removed, renamed, doubled or added, and now and then cut."""
    value = json.loads(json.dumps(document))
    pool = VALUES if more is None else VALUES + more * 3
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        value = _mutated(value, chance, pool)
    raw = json.dumps(value, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    return mutate_bytes(raw, chance) if chance.random() < 0.1 else raw


def _mutated(value: Any, chance: random.Random, pool: list[Any]) -> Any:
    """Walk to a place and change it there."""
    holder, key, here = None, None, value
    while isinstance(here, dict | list) and here and chance.random() < 0.85:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        holder, key = here, chance.choice(keys)
        here = here[key]
    new = _changed(here, chance) if chance.random() < 0.2 else json.loads(json.dumps(chance.choice(pool)))
    if holder is None:
        return new if chance.random() < 0.1 else value
    action = chance.random()
    if action < 0.7:
        holder[key] = new
    elif action < 0.8:
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(chance.randrange(len(holder) + 1), new)
    elif action < 0.9:
        holder[str(chance.choice((f"{key}_", "type", "kind", "size", "\x1b", "")))] = holder.pop(key)
    else:
        holder[str(chance.choice(("layers", "type", "dropout", "padding", "x", "\x9b")))] = new
    return value


def _changed(here: Any, chance: random.Random) -> Any:
    if isinstance(here, bool) or here is None:
        return not here
    if isinstance(here, int | float):
        return chance.choice((here + 1, -here, here * 2, here * 1000, str(here), float(here)))
    if isinstance(here, str):
        return chance.choice((here + "a", here[:-1], here * 3, [here], here.upper()))
    return chance.choice((list(here), len(here), str(here)[:50]))


def mutate_bytes(raw: bytes, chance: random.Random) -> bytes:
    """The bytes cut, flipped, doubled, filled or moved in a few places."""
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        place = chance.randrange(len(data) + 1)
        if chance.random() < 0.5:  # headers decide more than what follows
            place = min(place, chance.randrange(200))
        size = chance.choice((1, 1, 2, 4, 8, 64))
        action = chance.randrange(6)
        if action == 0:
            del data[place:]
        elif action == 1 and place < len(data):
            data[place] ^= 1 << chance.randrange(8)
        elif action == 2:
            data[place : place + size] = chance.choice((b"\xff", b"\x00", b"\x80", b"9", b"[", b'"', b"\n")) * size
        elif action == 3:
            data[place:place] = data[place : place + size]
        elif action == 4:
            del data[place : place + size]
        else:
            data[place : place + size] = chance.randbytes(size)
    return bytes(data)

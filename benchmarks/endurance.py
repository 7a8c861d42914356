"""The endurance test of `regard serve`: a million small requests, good and bad; no fault, no growth of memory.

    python benchmarks/endurance.py --model FOLDER [--requests 1000000] [--growth 32]

Clients send requests of every kind, most of them wrong in some way, and count how each is answered. The resident
memory of the server is printed at the start (after some requests to warm it), at each quarter and at the end. The exit
status is 1 if a request was answered with 500 or not at all, or otherwise than its kind should be, or if memory has
grown by more than `--growth` megabytes from the start to the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
if not __package__:
    sys.path[0] = str(ROOT)  # started as a script: `benchmarks` is a package all the same

from benchmarks.benchmark import say  # noqa: E402
from benchmarks.load import Target, answer_of  # noqa: E402
from benchmarks.process import environment  # noqa: E402
from benchmarks.serve import megabytes, served  # noqa: E402

WARMING = 2000  # requests before memory is measured, at most as many as follow: caches fill, threads get their arenas
QUARTERS = 4
BUSY = {429, 503}  # may be said to anyone


@dataclass(frozen=True)
class Kind:
    """Requests of one kind: what they hold and how they should be answered."""

    name: str
    share: int
    status: int
    path: str = "/translate"
    body: bytes | None = None  # None: it is got
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None  # what is claimed, where it is not the truth

    def request(self, text: str) -> bytes:
        """Its bytes; `WORD` in its path and body becomes the text."""
        body = (self.body or b"").replace(b"WORD", text.encode())
        head = {"Host": "localhost", "Content-Type": "application/json", **self.headers}
        if self.body is not None:
            head["Content-Length"] = str(len(body) if self.length is None else self.length)
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        path = self.path.replace("WORD", text)
        return f"{'GET' if self.body is None else 'POST'} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def asking(**table: object) -> bytes:
    """The body of a translation, with changes; None takes a field away."""
    whole = {"q": "WORD", "source": "xx", "target": "yy", **table}
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


KINDS = (
    Kind("good", 4, 200, body=asking()),
    Kind("good list", 1, 200, body=asking(q=["WORD", "", "WORD"])),
    Kind("good html", 1, 200, body=asking(q="<p>WORD &amp; <b>WORD</b></p>", format="html")),
    Kind("looks inside", 1, 200, "/api/look", b'{"model": "xx-yy", "text": "WORD"}'),
    Kind("languages", 2, 200, "/languages"),
    Kind("metrics", 1, 200, "/metrics"),
    Kind("no JSON", 3, 400, body=b'{"q": "WORD", '),
    Kind("deep JSON", 1, 400, body=b"[" * 5000),
    Kind("not UTF-8", 1, 400, body=b'{"q": "\xff\xfe"}'),
    Kind("lone surrogate", 2, 400, body=b'{"q": "\\ud800", "source": "xx", "target": "yy"}'),
    Kind("wrong type", 3, 400, body=asking(q={"a": 5})),
    Kind("missing field", 2, 400, body=asking(target=None)),
    Kind("unknown language", 3, 400, body=asking(source="qq")),
    Kind("too long", 2, 413, body=asking(q="x" * 6000)),
    Kind("too large", 1, 413, body=b"", length=50_000_000),
    Kind("look at nothing", 2, 404, "/api/look", b'{"model": "WORD?", "text": "a"}'),
    Kind("look too far", 1, 422, "/api/look", b'{"model": "xx-yy", "text": "a", "prefix": [999999]}'),
    Kind("unknown path", 2, 404, "/WORD/admin"),
    Kind("unknown host", 1, 421, "/health", headers={"Host": "elsewhere.example"}),
)


@dataclass
class Tally:
    """What was asked and answered so far."""

    left: int
    done: int = 0
    statuses: Counter[int] = field(default_factory=Counter)  # 0: no answer
    wrong: Counter[str] = field(default_factory=Counter)  # by kind and status

    def take(self) -> bool:
        """Whether there is another request to send."""
        self.left -= 1
        return self.left >= 0

    def count(self, kind: Kind, status: int) -> None:
        """Note an answer."""
        self.done += 1
        self.statuses[status] += 1
        if status != kind.status and status not in BUSY:
            self.wrong[f"{kind.name}: {status}, not {kind.status}"] += 1


def main() -> int:
    """Send everything, and tell; 1 if the server did not hold."""
    options = parse(sys.argv[1:])
    variables = environment(options.threads, "default") | {"PYTHONPATH": str(ROOT)}
    with served(options.model, variables) as (process, target):
        asyncio.run(send(target, Tally(min(WARMING, options.requests)), options.clients))
        memory = [megabytes(process.pid)]
        say(f"start: {memory[0]:,.1f} MB")
        tally, started = Tally(0), time.perf_counter()
        for part in parts(options.requests):
            tally.left = part
            asyncio.run(send(target, tally, options.clients))
            memory.append(megabytes(process.pid))
            pace = tally.done / (time.perf_counter() - started)
            say(f"{tally.done:,} requests: {memory[-1]:,.1f} MB, {pace:,.0f} requests/s")
    return verdict(tally, memory, options.growth)


def parts(requests: int) -> Iterator[int]:
    """The requests of each quarter."""
    for number in range(QUARTERS):
        yield requests * (number + 1) // QUARTERS - requests * number // QUARTERS


async def send(target: Target, tally: Tally, clients: int) -> None:
    """Let so many clients send what is left to send."""
    await asyncio.gather(*(_client(target, tally, random.Random(number)) for number in range(clients)))


async def _client(target: Target, tally: Tally, chosen: random.Random) -> None:
    address = urlsplit(target.url)
    shares = [kind.share for kind in KINDS]
    writer: asyncio.StreamWriter | None = None
    while tally.take():
        (kind,) = chosen.choices(KINDS, shares)
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(kind.request(f"word{chosen.randrange(10**6)}"))
            status, headers = await answer_of(reader)
        except (OSError, asyncio.IncompleteReadError):
            status, headers = 0, {"connection": "close"}
        tally.count(kind, status)
        if headers.get("connection") == "close" and writer is not None:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()


def verdict(tally: Tally, memory: Sequence[float], most: float) -> int:
    """Say how it went; 0 if the server held."""
    say("answers: " + ", ".join(f"{count:,} x {status}" for status, count in sorted(tally.statuses.items())))
    for what, count in tally.wrong.most_common():
        say(f"wrong: {count:,} x {what} (0: not at all)")
    growth = memory[-1] - memory[0]
    grown = growth > most
    say(f"memory grew by {growth:,.1f} MB; {'too much: ' if grown else ''}up to {most:g} MB may be")
    return 1 if tally.wrong or grown else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a model folder; a small one, for the requests count")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--growth", type=float, default=32.0, help="megabytes by which memory may grow")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the model")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""Clients that ask a server for translations as fast as it answers, over raw sockets: the load test's other side."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

WARM = 0.25  # share of the time until answers are counted: the first ones come late, and many at once
LONGEST_PAUSE = 1.0  # seconds that a refused client waits at most, whatever it is told


@dataclass
class Load:
    """What some clients saw in some seconds."""

    clients: int
    together: int = 1  # sentences of a request
    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)  # 0: no answer
    waits: list[float] = field(default_factory=list)  # seconds until each answer
    steady: int = 0  # answers while all clients were at work: after the first quarter, and before the end

    @property
    def per_second(self) -> float:
        """Translations in a second."""
        return self.together * self.steady / ((1 - WARM) * self.seconds)

    def percentile(self, share: float) -> float:
        """The seconds within which this share of the answers came."""
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@dataclass(frozen=True)
class Target:
    """Where to send requests."""

    url: str
    source: str
    target: str

    def request(self, lines: Sequence[str]) -> bytes:
        """The bytes of a request for some translations."""
        body = json.dumps({"q": lines, "source": self.source, "target": self.target}).encode()
        head = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def measure(target: Target, lines: Sequence[str], clients: int, seconds: float, together: int = 1) -> Load:
    """Let so many clients ask, each for so many translations at a time and again and again, for so long."""
    load = Load(clients, together, seconds)
    ends = time.perf_counter() + seconds
    await asyncio.gather(*(_client(target, lines, number, ends, load) for number in range(clients)))
    return load


async def _client(target: Target, lines: Sequence[str], number: int, ends: float, load: Load) -> None:
    chosen = random.Random(number)
    address = urlsplit(target.url)
    writer: asyncio.StreamWriter | None = None
    while time.perf_counter() < ends:
        request = target.request(chosen.choices(lines, k=load.together))
        started = time.perf_counter()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(request)
            status, headers = await answer_of(reader)
        except (OSError, asyncio.IncompleteReadError):
            load.statuses[0] += 1
            writer = None
            continue
        load.statuses[status] += 1
        if status == 200:
            now = time.perf_counter()
            load.waits.append(now - started)
            load.steady += ends - (1 - WARM) * load.seconds < now <= ends
        else:
            await asyncio.sleep(min(LONGEST_PAUSE, float(headers.get("retry-after", 0))))
        if headers.get("connection") == "close":
            writer.close()
            writer = None
    if writer is not None:
        writer.close()


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer; its body is read, and dropped."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    await reader.readexactly(int(headers["content-length"]))
    return int(head[0].split()[1]), headers

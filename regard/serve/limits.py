"""Client addresses, authentication with API keys, and rate limits."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from starlette.types import Scope

from regard.serve.errors import ApiError
from regard.serve.settings import ServeSettings

_MOST_CLIENTS = 10_000  # with a rate limit state; the least recent is forgotten
_SECONDS = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}


class Clients:
    """Client addresses; behind a trusted proxy, taken from its X-Forwarded-For header."""

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        self._proxies = [ipaddress.ip_network(proxy, strict=False) for proxy in proxies]

    def is_proxy(self, host: str) -> bool:
        """Whether this is the address of a trusted proxy."""
        address = _parse(host)
        return address is not None and any(address in network for network in self._proxies)

    def address(self, scope: Scope) -> str:
        """The client address of a request: the last one in the chain that is not a trusted proxy."""
        client = scope.get("client")
        found = str(client[0]) if client else ""
        if not self.is_proxy(found):
            return shared(found)
        given = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
        for hop in reversed(given.decode("latin-1").split(",")):
            address = _parse(hop.strip())
            if address is None:  # malformed: not written by a trusted proxy
                break
            found = str(address)
            if not self.is_proxy(found):
                break
        return shared(found)


def shared(host: str) -> str:
    """The address that limits count; for IPv6 the /64 network, since one client owns a whole /64."""
    address = _parse(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host if address is None else str(address)


def _parse(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address of "1.2.3.4", "1.2.3.4:567", "::1" or "[::1]:567"."""
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


class Keys:
    """Authentication with API keys; without keys every request is allowed."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    @property
    def required(self) -> bool:
        """Whether requests need a key."""
        return bool(self._digests)

    def check(self, key: str | None) -> None:
        """Refuse a request without a valid key; the comparison takes constant time."""
        if not self.required:
            return
        if not key:
            raise ApiError(403, "this server requires an API key: send it as api_key, or as Authorization: Bearer KEY")
        given = _digest(key)
        # compare with every key: stopping at the match would leak its position
        if not sum(hmac.compare_digest(given, digest) for digest in self._digests):
            raise ApiError(403, "Invalid API key")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", errors="replace")).digest()


class RateLimit:
    """Rate limits of each client per minute, hour and day: token buckets, refilled evenly over each window."""

    def __init__(self, *, minute: int | None = None, hour: int | None = None, day: int | None = None) -> None:
        most = {"minute": minute, "hour": hour, "day": day}
        self._windows = [(name, count, count / _SECONDS[name]) for name, count in most.items() if count is not None]
        self._clients: OrderedDict[str, tuple[float, Sequence[float]]] = OrderedDict()  # last update, and calls left

    def check(self, client: str) -> None:
        """Count a call, or refuse it."""
        if not self._windows:
            return
        left = self._left(client)
        for (name, most, regained), calls in zip(self._windows, left, strict=True):
            if calls < 1:
                wait = int((1 - calls) / regained) + 1
                raise ApiError(429, f"Slowdown: the limit is {most} requests per {name}", retry_after=wait)
        self.count(client)

    def wait(self, client: str) -> int:
        """Seconds until the next call is allowed; 0: now."""
        pairs = zip(self._windows, self._left(client), strict=True)
        return max((int((1 - calls) / regained) + 1 for (_, _, regained), calls in pairs if calls < 1), default=0)

    def count(self, client: str) -> None:
        """Count a call."""
        self._clients[client] = time.monotonic(), [calls - 1 for calls in self._left(client)]
        self._clients.move_to_end(client)
        if len(self._clients) > _MOST_CLIENTS:
            self._clients.popitem(last=False)

    def _left(self, client: str) -> list[float]:
        """The calls left in each window."""
        now = time.monotonic()
        before, left = self._clients.get(client, (now, [float(most) for _, most, _ in self._windows]))
        pairs = zip(self._windows, left, strict=True)
        return [min(float(most), calls + (now - before) * regained) for (_, most, regained), calls in pairs]


class Gate:
    """Authentication and rate limits of requests."""

    def __init__(self, settings: ServeSettings, api_keys: Iterable[str] = (), metrics_token: str | None = None) -> None:
        self.keys = Keys(api_keys)
        self.clients = Clients(settings.trusted_proxies)
        self._metrics_keys = Keys([metrics_token] if metrics_token else [])
        self._wrong_keys = RateLimit(minute=settings.max_wrong_keys_per_minute)
        self._rate_limit = RateLimit(
            minute=settings.max_requests_per_minute,
            hour=settings.max_requests_per_hour,
            day=settings.max_requests_per_day,
        )

    def admit(self, scope: Scope, key: str | None) -> None:
        """Refuse a request without a valid key, or beyond its client's rate limit."""
        address = self.clients.address(scope)
        self._check(self.keys, key, address)
        self._rate_limit.check(f"key {key}" if self.keys.required else address)

    def admit_metrics(self, scope: Scope, key: str | None) -> None:
        """Refuse to show the metrics without their token; if no token is set, without an API key."""
        if self._metrics_keys.required:
            self._check(self._metrics_keys, key, self.clients.address(scope))
        else:
            self.admit(scope, key)

    def _check(self, keys: Keys, key: str | None, address: str) -> None:
        if not keys.required:
            return
        if key and (wait := self._wrong_keys.wait(address)):  # valid keys too: else guessing could go on
            raise ApiError(429, "Slowdown: too many wrong keys from this address", retry_after=wait)
        try:
            keys.check(key)
        except ApiError:
            if key:
                self._wrong_keys.count(address)
            raise


def bearer(scope: Scope) -> str | None:
    """The key of `Authorization: Bearer KEY`."""
    given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    scheme, _, key = given.decode("latin-1").partition(" ")
    return (key.strip() or None) if scheme.lower() == "bearer" else None

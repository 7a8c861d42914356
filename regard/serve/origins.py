"""Cross-origin requests of browsers.

A page may send simple requests (forms, text/plain, multipart, images) to any server without a preflight; CORS only
keeps it from reading the response. The translation would still be computed, so such requests are refused by the headers
that browsers set: Sec-Fetch-Site and Origin. Other clients send neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from starlette.types import Scope

from regard.serve.errors import ApiError


def check_origin(scope: Scope, headers: Mapping[bytes, bytes], allowed: Collection[str]) -> None:
    """Refuse a cross-origin request, unless its origin is allowed."""
    origin = headers.get(b"origin", b"").decode("latin-1")
    site = headers.get(b"sec-fetch-site", b"").decode("latin-1").lower()
    if "*" in allowed or origin in allowed:
        return
    if site:
        is_ours = site in ("same-origin", "none") or _is_link_to_the_page(scope, headers)
    else:  # browsers omit it over plain HTTP, except for localhost
        is_ours = not origin or _host(origin) == headers.get(b"host", b"").decode("latin-1").lower()
    if not is_ours:
        raise ApiError(
            403, f"pages of {origin[:100] or 'other origins'} may not call this server: start it with --allow-origin"
        )


def _is_link_to_the_page(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    return (
        scope["method"] in ("GET", "HEAD")
        and scope["path"] == "/"
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _host(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None

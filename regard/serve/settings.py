"""How a server runs: the only home of its bounds and their defaults."""

from __future__ import annotations

import ipaddress

from pydantic import Field, field_validator

from regard.config.base import Settings


class ServeSettings(Settings):
    """Where to listen, whom to answer, and how much to take on."""

    host: str = Field("127.0.0.1", description="address to listen on; 0.0.0.0 is every one of this machine")
    port: int = Field(5000, ge=0, le=65535, description="port to listen on; 0 finds a free one")
    allow_hosts: tuple[str, ...] = Field((), description="further host names by which the server may be called")
    allow_origins: tuple[str, ...] = Field((), description="web origins whose pages may call the server (CORS)")

    trusted_proxies: tuple[str, ...] = Field(
        (), description="addresses or networks of reverse proxies whose X-Forwarded-For is believed"
    )

    max_characters: int = Field(5000, ge=1, description="characters of a request, all its texts together")
    max_file_characters: int = Field(50_000, ge=1, description="characters of a file that is sent")
    max_texts: int = Field(128, ge=1, description="texts of a request")
    max_look_characters: int = Field(400, ge=1, description="characters of a sentence to look inside")
    max_alternatives: int = Field(5, ge=0, le=100, description="further translations of a text")
    max_beam: int = Field(10, ge=1, le=100, description="beam that a request may ask for")
    max_image_bytes: int = Field(5_000_000, ge=1000, description="bytes of an image that is sent")
    max_image_pixels: int = Field(16_000_000, ge=1, description="pixels that such an image may claim to have")
    max_image_side: int = Field(16_384, ge=1, description="pixels of its width or height")
    max_images: int = Field(32, ge=1, description="images held at one time")
    max_queue: int = Field(512, ge=1, description="requests that wait or run at one time")
    max_batch: int = Field(200, ge=1, description="sentences translated together")
    max_connections: int = Field(900, ge=1, description="connections open at one time")
    max_connections_per_address: int = Field(
        128, ge=1, description="connections open at one time from one address, unless it is a trusted proxy"
    )
    max_requests_per_minute: int | None = Field(
        None, ge=1, description="requests of one client (an API key, else an address) in a minute; unset: any number"
    )
    max_requests_per_hour: int | None = Field(None, ge=1, description="the same in an hour")
    max_requests_per_day: int | None = Field(None, ge=1, description="the same in a day")
    max_wrong_keys_per_minute: int = Field(10, ge=1, description="wrong API keys from one address in a minute")
    max_seconds: float = Field(30.0, gt=0, description="seconds until a request is given up")
    max_slow_seconds: float = Field(10.0, gt=0, description="seconds until a client must have sent its whole request")
    workers: int | None = Field(
        None,
        ge=1,
        le=64,
        description="batches translated at one time, which share the threads; unset: one a thread, up to 8",
    )
    batch_wait: float = Field(
        0.004, ge=0, le=1, description="seconds to wait for company when several requests are under way"
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ipaddress.ip_network(proxy, strict=False)
            except ValueError:
                raise ValueError(f"{proxy!r} is no address: write it as 10.0.0.1 or 10.0.0.0/8") from None
        return proxies

    @property
    def max_body(self) -> int:
        """Bytes of a request: every character may be written as two JSON escapes, beside what frames them."""
        return 12 * self.max_characters + 64 * 1024

    @property
    def max_file_body(self) -> int:
        """Bytes of a form with a file in UTF-8."""
        return 4 * self.max_file_characters + 64 * 1024

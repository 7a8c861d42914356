"""Settings of a server: all its limits and their defaults."""

from __future__ import annotations

import ipaddress

from pydantic import Field, field_validator

from regard.config.base import Settings


class ServeSettings(Settings):
    """Address, access, limits and batching of a server."""

    host: str = Field("127.0.0.1", description="address to listen on; 0.0.0.0: all interfaces")
    port: int = Field(5000, ge=0, le=65535, description="port to listen on; 0: any free port")
    allow_hosts: tuple[str, ...] = Field((), description="additional host names allowed in the Host header")
    allow_origins: tuple[str, ...] = Field((), description="web origins whose pages may call the server (CORS)")

    trusted_proxies: tuple[str, ...] = Field(
        (), description="addresses or networks of reverse proxies whose X-Forwarded-For is trusted"
    )

    max_characters: int = Field(5000, ge=1, description="characters in a request, over all texts")
    max_file_characters: int = Field(50_000, ge=1, description="characters in an uploaded file")
    max_texts: int = Field(128, ge=1, description="texts in a request")
    max_look_characters: int = Field(400, ge=1, description="characters in a sentence for attention records")
    max_alternatives: int = Field(5, ge=0, le=100, description="alternative translations of a text")
    max_beam: int = Field(10, ge=1, le=100, description="beam size in a request")
    max_image_bytes: int = Field(5_000_000, ge=1000, description="bytes of an uploaded image")
    max_image_pixels: int = Field(16_000_000, ge=1, description="pixels of an uploaded image, from its header")
    max_image_side: int = Field(16_384, ge=1, description="width or height of an uploaded image in pixels")
    max_images: int = Field(32, ge=1, description="images in memory at one time")
    max_queue: int = Field(512, ge=1, description="requests waiting or running at one time")
    max_batch: int = Field(200, ge=1, description="sentences in a batch")
    max_connections: int = Field(900, ge=1, description="open connections")
    max_connections_per_address: int = Field(
        128, ge=1, description="open connections from one address; trusted proxies are exempt"
    )
    max_requests_per_minute: int | None = Field(
        None, ge=1, description="rate limit: requests per minute of one client (API key, else address); unset: none"
    )
    max_requests_per_hour: int | None = Field(None, ge=1, description="rate limit per hour")
    max_requests_per_day: int | None = Field(None, ge=1, description="rate limit per day")
    max_wrong_keys_per_minute: int = Field(10, ge=1, description="wrong API keys from one address per minute")
    max_seconds: float = Field(30.0, gt=0, description="deadline of a request in seconds")
    max_slow_seconds: float = Field(10.0, gt=0, description="deadline for receiving a request in seconds")
    workers: int | None = Field(
        None,
        ge=1,
        le=64,
        description="worker threads, which share the CPU threads; unset: one per CPU thread, up to 8",
    )
    batch_wait: float = Field(0.004, ge=0, le=1, description="batching delay in seconds, when requests are concurrent")

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ipaddress.ip_network(proxy, strict=False)
            except ValueError:
                raise ValueError(f"{proxy!r} is not an address: write it as 10.0.0.1 or 10.0.0.0/8") from None
        return proxies

    @property
    def max_body(self) -> int:
        """Bytes of a request: up to two JSON escapes per character, plus the other fields."""
        return 12 * self.max_characters + 64 * 1024

    @property
    def max_file_body(self) -> int:
        """Bytes of a form with a UTF-8 file."""
        return 4 * self.max_file_characters + 64 * 1024

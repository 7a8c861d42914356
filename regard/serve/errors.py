"""Errors of the server, with their HTTP status."""

from __future__ import annotations


class ApiError(Exception):
    """An HTTP error with the body {"error": "…"}; `retry_after` in seconds."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """Response headers."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class ClientGone(Exception):  # noqa: N818  (it reads as what it is)
    """The client disconnected before the response."""


class WorkerFault(Exception):  # noqa: N818  (it reads as what it is)
    """Compiled code raised a BaseException, such as a Rust panic in the tokenizer."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")

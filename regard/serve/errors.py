"""What a request is told when it cannot be answered."""

from __future__ import annotations


class ApiError(Exception):
    """An answer of the form {"error": "…"} with its status; `retry_after` in seconds."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class ClientGone(Exception):  # noqa: N818  (it reads as what it is)
    """Nobody waits for the answer any more."""


class WorkerFault(Exception):  # noqa: N818  (it reads as what it is)
    """Compiled code gave up with something that is no Exception, such as a panic of the tokenizer."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")

"""What the tests of the page share: a browser, and small models to look into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import regard


@pytest.fixture(scope="module")  # no longer: while it runs, no other test of its process may start an event loop
def browser() -> Iterator[Any]:
    """Chromium, or a skipped test where there is none."""
    from page_help import browsing

    with browsing() as found:
        yield found


@pytest.fixture(scope="session")
def translators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, regard.Translator]:
    """Small models by name."""
    from page_help import train_small

    return train_small(tmp_path_factory.mktemp("models"))

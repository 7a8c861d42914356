"""`--columns 1,2`: which columns of a file with tabs are source and target."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.data.text.parallel import TabbedFile

File = TypeVar("File", Path, str)
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="S,T",
        help="Source and target columns of a file with tabs, from 1: 1,2 for Tatoeba's and Anki's three columns.",
        show_default=False,
    ),
]


def parse_columns(text: str | None) -> tuple[int, int] | None:
    """The two numbers of `1,2`."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    numbers = [int(part) for part in parts if part.isdecimal()]
    if len(parts) != 2 or len(numbers) != 2 or min(numbers) < 1 or numbers[0] == numbers[1]:
        raise ConfigError(f"--columns {text}: name two columns, counted from 1, such as 1,2.")
    return numbers[0], numbers[1]


def with_columns(file: File, columns: tuple[int, int] | None) -> "File | TabbedFile":
    """A file, with the columns to take from it if some were asked for; an embedded corpus has none."""
    from regard.data.text.parallel import TabbedFile

    return file if columns is None or str(file).startswith("toy:") else TabbedFile(Path(file), columns)


def refuse_columns(text: str | None, reason: str) -> None:
    """Refuse --columns where no file has any."""
    if text is not None:
        raise ConfigError(f"--columns {text}: {reason}: leave it out.")

"""Write docs/commands.md from the commands' own help: python docs/commands.py. A test holds the two together."""

import contextlib
import io
import os
from pathlib import Path

from regard.cli import main
from regard.cli.app import COMMANDS

PAGE = Path(__file__).with_name("commands.md")


def page() -> str:
    """The whole page."""
    parts = [
        "# The commands\n\nWhat `regard COMMAND --help` says, for reading in one place "
        "(written by `python docs/commands.py`).\n"
    ]
    parts += [f"## regard {name}\n\n```\n{help_of(name)}```\n" for name in COMMANDS]
    return "\n".join(parts)


def help_of(name: str) -> str:
    """The help of one command, 80 columns wide."""
    os.environ["COLUMNS"] = "80"
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main([name, "--help"])
    return "\n".join(line.rstrip() for line in said.getvalue().strip().splitlines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

"""Write docs/commands.md from the commands' own help: python docs/commands.py. A test holds the two together."""

import contextlib
import io
import os
from pathlib import Path

import typer

from regard.cli import main
from regard.cli.app import COMMANDS, load_command

PAGE = Path(__file__).with_name("commands.md")


def page() -> str:
    """The whole page."""
    parts = [
        "# The commands\n\nWhat `regard COMMAND --help` says, for reading in one place "
        "(written by `python docs/commands.py`).\n"
    ]
    for name in COMMANDS:
        for words in ([name], *([name, each] for each in commands_of(name))):
            parts.append(f"##{'#' * (len(words) - 1)} regard {' '.join(words)}\n\n```\n{help_of(*words)}```\n")
    return "\n".join(parts)


def commands_of(name: str) -> list[str]:
    """The commands that a command has of its own."""
    loaded = load_command(name)
    if not isinstance(loaded, typer.Typer):
        return []
    return [each.name or each.callback.__name__ for each in loaded.registered_commands if each.callback]


def help_of(*words: str) -> str:
    """The help of one command, 80 columns wide."""
    os.environ["COLUMNS"] = "80"
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main([*words, "--help"])
    return "\n".join(line.rstrip() for line in said.getvalue().strip().splitlines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

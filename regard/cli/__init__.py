"""The command `regard`: one file per command, and `main`, which runs the one that was asked for."""

from regard.cli.app import main

__all__ = ["main"]

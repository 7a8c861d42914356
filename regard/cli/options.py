"""Options that fit some models only."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import typer

from regard.errors import ConfigError

MODEL_HELP = "A model folder, or an installed model such as de-en/bahdanau."


def only_options(context: typer.Context, allowed: Collection[str], reason: str) -> None:
    """Refuse every other option that was given on the command line; `allowed` are parameter names."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name not in allowed and source is not None and source.name == "COMMANDLINE":
            raise ConfigError(f"{parameter.opts[0]}: {reason}: leave it out.")


def reads_images(folder: Path) -> bool:
    """Whether a model folder holds a captioner or a classifier."""
    from regard.config.recipes import recipe_type
    from regard.config.settings import Recipe
    from regard.storage.folder import read_table

    return recipe_type(read_table(folder)[0]) is not Recipe

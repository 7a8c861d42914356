"""The options of `regard train` that are short for a setting: `--lr 1e-3` for `--set training.learning_rate=1e-3`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from regard.config.overrides import Override
from regard.errors import ConfigError

# parameter of the command -> its setting
SETTINGS = {
    "budget": "training.budget",
    "epochs": "training.epochs",
    "updates": "training.updates",
    "lr": "training.learning_rate",
    "batch_tokens": "training.batch_tokens",
    "dropout": "model.dropout",
    "vocabulary": "text.vocabulary_size",
    "languages": "text.languages",
    "seed": "training.seed",
}
# A training ends at the first of these that is reached.
ENDS = ("training.budget", "training.epochs", "training.updates")


def help_of(parameter: str, meaning: str) -> str:
    """The help of an option, with the setting that it stands for."""
    return f"{meaning} Short for --set {SETTINGS[parameter]}."


def shorthand(given: Mapping[str, float | str | list[str] | None], changes: Sequence[str]) -> list[Override]:
    """The options that were given and `--set`, as overrides; one setting given twice is refused.

    An option that says when to end replaces the recipe's own end. `--set` alone changes its one setting and no other.
    """
    made = [Override(change) for change in changes]
    settings = {".".join(change.path): change for change in made}
    own_end = False
    for parameter, value in given.items():
        if value is None:
            continue
        words = " ".join(value) if isinstance(value, list) else value
        setting, said = SETTINGS[parameter], f"--{parameter.replace('_', '-')} {words}"
        if (other := settings.get(setting)) is not None:
            raise ConfigError(f"{said} and {other.said}: both set {setting}: give one of them.")
        toml = json.dumps(value) if isinstance(value, list) else value
        settings[setting] = Override(f"{setting}={toml}", said)
        made.append(settings[setting])
        own_end = own_end or setting in ENDS
    if own_end:
        made += [Override(f"{end}=none", said="") for end in ENDS if end not in settings]
    return made


def what_ends(recipe: str, changes: Sequence[Override]) -> str | None:
    """A line about the end of the recipe that options replace; None if they replace nothing."""
    from regard.config.recipes import load_recipe
    from regard.config.reference import toml_text

    training = load_recipe(recipe).training
    own = {end: getattr(training, end.rpartition(".")[2]) for end in ENDS}
    replaced = [
        f"{end} = {toml_text(value)}" for end, value in own.items() if value is not None and f"{end}=none" in changes
    ]
    if not replaced:
        return None
    given = [change.said for change in changes if ".".join(change.path) in ENDS and not change.endswith("=none")]
    return f"ends by {' and '.join(given)}, not by the recipe's {' and '.join(replaced)}"

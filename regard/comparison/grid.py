"""Grids: several variants in one word, short names for them, and their results as one table.

luong:model.score={dot,general},model.window={global,local-p}     four entrants
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product

from regard.errors import ConfigError

COMMA = re.compile(r",(?![^\[]*\])")  # between settings, not inside a list such as [0.9,0.98]
_BRACES = re.compile(r"\{([^{}]*)\}")


def variants(word: str) -> list[str]:
    """A word with each combination of the alternatives in its braces, in the order of a shell."""
    pieces = _BRACES.split(word)  # text, alternatives, text, …
    if any(sign in piece for piece in pieces[::2] for sign in "{}"):
        raise ConfigError(f"{word}: a brace has no partner: write {{a,b}}, without braces inside.")
    choices = [COMMA.split(piece) if place % 2 else [piece] for place, piece in enumerate(pieces)]
    return ["".join(chosen) for chosen in product(*choices)]


def parts(name: str) -> list[str]:
    """The recipe or model of an entrant and its settings."""
    first, _, settings = name.partition(":")
    return [first, *(setting for setting in COMMA.split(settings) if setting)]


def labels(names: Sequence[str]) -> list[str]:
    """Short names: settings that all variants of a recipe share are left out, and so is their table."""
    short = []
    for name in names:
        first, *settings = parts(name)
        siblings = [set(parts(other)[1:]) for other in names if parts(other)[0] == first]
        shared = set.intersection(*siblings) if len(siblings) > 1 else set()
        told = [_without_table(setting) for setting in settings if setting not in shared]
        short.append(" ".join([first, ", ".join(told)]).strip())
    return short if len(set(short)) == len(short) else list(names)


def shared_settings(names: Sequence[str]) -> list[str]:
    """`RECIPE: settings` for each recipe whose variants share settings, which their labels leave out."""
    told = []
    for first in dict.fromkeys(parts(name)[0] for name in names):
        siblings = [parts(name)[1:] for name in names if parts(name)[0] == first]
        shared = [setting for setting in siblings[0] if all(setting in other for other in siblings)]
        if len(siblings) > 1 and shared:
            told.append(f"{first}: {', '.join(shared)}")
    return told


def grid_tables(cells: Mapping[str, str]) -> list[list[list[str]]]:
    """Tables of the grids among the entrants, from the cell of each: the first factor by row, the others by column.

    A factor is a place in `RECIPE:SETTING,SETTING` with several values. Entrants with the same number of settings are
    one grid, if they have two factors and fill more than half of it.
    """
    tables = []
    for size in sorted({len(parts(name)) for name in cells}):
        rows = {tuple(parts(name)): cell for name, cell in cells.items() if len(parts(name)) == size}
        values = [list(dict.fromkeys(row[place] for row in rows)) for place in range(size)]
        factors = [place for place in range(size) if len(values[place]) > 1]
        combinations = 1
        for place in factors:
            combinations *= len(values[place])
        if len(factors) > 1 and 2 * len(rows) > combinations:
            tables.append(_table(rows, factors, values))
    return tables


def _table(rows: Mapping[tuple[str, ...], str], factors: Sequence[int], values: Sequence[list[str]]) -> list[list[str]]:
    chosen = {tuple(row[place] for place in factors): cell for row, cell in rows.items()}
    across = list(product(*(values[place] for place in factors[1:])))
    shown = {place: _shown(values[place]) for place in factors}
    corner = f"{shown[factors[0]][0]} \\ {', '.join(shown[place][0] for place in factors[1:])}"
    heading = [", ".join(shown[p][1][value] for p, value in zip(factors[1:], column, strict=True)) for column in across]
    body = [
        [shown[factors[0]][1][value], *(chosen.get((value, *column), "") for column in across)]
        for value in values[factors[0]]
    ]
    return [[corner, *heading], *body]


def _shown(settings: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The name of a factor and of each of its values: `score` and `dot` where all settings are of one key."""
    keys = {setting.partition("=")[0] for setting in settings}
    if len(keys) == 1 and all("=" in setting for setting in settings):
        return _without_table(keys.pop()), {setting: setting.partition("=")[2] for setting in settings}
    name = "setting" if all("=" in setting for setting in settings) else "model"
    return name, {setting: _without_table(setting) for setting in settings}


def _without_table(setting: str) -> str:
    key, equals, value = setting.partition("=")
    table, dot, rest = key.partition(".")
    return f"{rest if dot and '/' not in table else key}{equals}{value}"

"""The help of a command: values are called MODEL, PATH or N, never by a type of Python."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

# options whose value has a name of its own, in every command that has the option
NAMES = {"--device": "DEVICE", "--set": "KEY=VALUE", "--pair": "PAIR", "--languages": "PAIR", "--toy": "NAME"}
NAMES |= {"--data": "PATH|NAME", "--split": "SPLIT", "--tokenize": "NAME", "--links": "METHOD", "--kind": "KIND"}
NAMES |= {"--column": "NAME", "--score": "NAME", "--side": "SIDE", "--host": "HOST", "--allow-host": "HOST"}
NAMES |= {"--allow-origin": "ORIGIN", "--trusted-proxy": "ADDRESS", "--out": "DIR", "--lr": "RATE", "--dropout": "RATE"}
NAMES |= {"--max-seconds": "SECONDS", "--max-slow-seconds": "SECONDS", "--batch-wait": "SECONDS"}
NAMES |= dict.fromkeys(("--query", "--keys", "--values", "--weight", "--self", "--mask"), "MATRIX")
NAMES |= dict.fromkeys(("--wq", "--wk", "--wv", "--wo", "--wc", "--wp"), "MATRIX")
# typer's name of a type -> the name of its value, where the option has no metavar of its own
VALUES = {"str": "TEXT", "int": "N", "int range": "N", "float": "NUMBER", "float range": "NUMBER"}
VALUES |= {"path": "PATH", "Path": "PATH", "file": "PATH", "directory": "PATH"}
TYPE = re.compile(r"<(?:list\[)?([^<>\[\]]+)\]?>$")  # at the end of `--seed <int>`, `--set <list[str]>`, `--kind <a|b>`


class Command(TyperCommand):
    """A command whose usage line and lists of arguments and options name every value in capitals."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for parameter in self.params:
            if parameter.metavar is None and parameter.param_type_name == "argument":
                parameter.metavar = str(parameter.name).upper()
            elif parameter.metavar is None:
                parameter.metavar = NAMES.get(parameter.opts[-1])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """[OPTIONS] MODEL [SENTENCE]..."""
        pieces = [self.options_metavar or ""]
        for parameter in self.get_params(ctx):
            if parameter.param_type_name == "argument":
                name = parameter.metavar if parameter.required else f"[{parameter.metavar}]"
                pieces.append(f"{name}..." if parameter.nargs != 1 else str(name))
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The arguments, then the options."""
        rows: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                is_argument = parameter.param_type_name == "argument"
                name = str(parameter.metavar) if is_argument else TYPE.sub(_value, record[0])
                rows[parameter.param_type_name].append((name, record[1]))
        for kind, listed in rows.items():
            if listed:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(listed)


def _value(found: re.Match[str]) -> str:
    """The name of a value; choices as they are."""
    return VALUES.get(found[1], found[1])

"""Looks as one HTML file that needs nothing else: the modules of the live page and the records, in one document.

The file forbids itself the network (its Content-Security-Policy allows its own script and style and nothing more), so
it shows the same wherever and whenever it is opened.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from regard.errors import DataError
from regard.look.record import Look

PAGE = Path(__file__).parent.parent / "page"
"""The page's modules: the server sends them as they are, this file joins them."""

_IMPORT = re.compile(r"^import \{([^}]*)\} from \"(\.{1,2}/[\w/-]+)\.js\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def render_html(looks: Look | Sequence[Look], *, title: str | None = None) -> str:
    """One self-contained document that shows a look, or several side by side."""
    records = [looks] if isinstance(looks, Look) else list(looks)
    if not records:
        raise DataError("there is no sentence to look at: give at least one.")
    # In a script element only "<" could end the text early or begin a comment.
    data = json.dumps([look.to_dict() for look in records], ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    script, style = _joined_modules(), _style()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src blob: data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title or records[0].source.text)}</title>
<style>{style}</style>
</head>
<body>
<div id="page"><noscript>This page needs JavaScript.</noscript></div>
<script type="application/json" id="looks">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


@lru_cache(maxsize=1)
def _joined_modules() -> str:
    """All modules that main.js needs as one script, each in a function of its own, against name clashes."""
    done: dict[str, str] = {}

    def add(name: str, asking: tuple[str, ...]) -> None:  # "main", "data/store": the path without its suffix
        if name in done:
            return
        assert name not in asking, f"the modules {' and '.join(asking)} import each other"
        text = (PAGE / f"{name}.js").read_text("utf-8")
        for _, path in _IMPORT.findall(text):
            add(_resolved(path, name), (*asking, name))
        done[name] = _as_function(name, text)

    add("main", ())
    return "\n".join(done.values())


def _as_function(name: str, text: str) -> str:
    """A module as `const module$data$store = (() => {…; return {its exports}})()`."""

    def imported(match: re.Match[str]) -> str:
        return f"const {{{match[1].replace(' as ', ': ')}}} = {_variable(_resolved(match[2], name))};\n"

    exports = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(imported, text))
    return f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"


def _resolved(path: str, importer: str) -> str:
    """The name of the module that `importer` calls `path`: "../data/store" in "steps/tree" is "data/store"."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))


def _variable(name: str) -> str:
    return f"module${name.replace('/', '$')}"


@lru_cache(maxsize=1)
def _style() -> str:
    return "".join((PAGE / name).read_text("utf-8") for name in ("style.css", "inside.css"))


def _hash(text: str) -> str:
    """The source expression that allows exactly this inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

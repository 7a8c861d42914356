"""The maps of CONTRIBUTING.md and of the page: a folder imports only from those above it, and all parts are on them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "regard"
ORDER = [
    "errors",
    "machine",
    "process",
    "config",
    "storage",
    "nn",
    "models",
    "testing",
    "data",
    "decoding",
    "evaluation",
    "look",
    "inference",
    "bulk",
    "training",
    "comparison",
    "interop",
    "serve",
    "cli",
]
ANYWHERE = {"__version__"}  # the one name of the package itself that its parts may import
PAGE = PACKAGE / "look" / "page"
LOOSE_MODULES = 6
LONGEST = 400


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported from Regard: at the top, inside functions, and for types alone."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            if node.module == "regard":
                yield from ((node.lineno, f"regard.{each.name}") for each in node.names if each.name not in ANYWHERE)
            elif node.module is not None and node.module.startswith("regard."):
                yield node.lineno, node.module
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, each.name) for each in node.names if each.name.startswith("regard."))


def test_a_folder_imports_only_from_those_above_it() -> None:
    upward = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = module_name(path).split(".")
        if len(parts) == 1 or parts[1] == "__main__":
            continue  # the doors of the package
        place = ORDER.index(parts[1])
        upward += [
            f"{path.relative_to(ROOT)}:{line}: {name}"
            for line, name in imports_of(path)
            if ORDER.index(name.split(".")[1]) > place
        ]
    assert upward == []


def test_few_modules_lie_loose_and_the_map_names_every_part() -> None:
    loose = sorted(path.stem for path in PACKAGE.glob("*.py"))
    assert len(loose) <= LOOSE_MODULES, loose
    folders = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
    assert {*folders, *loose} - {"__init__", "__main__"} == set(ORDER)
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for name in folders:
        assert f"`{name}/`" in contributing, f"{name}/ is not on the map of CONTRIBUTING.md"
    for name in loose:
        assert f"`{name}.py`" in contributing, f"{name}.py is not on the map of CONTRIBUTING.md"


def test_no_module_is_too_long_to_read() -> None:
    lines = {module_name(path): len(path.read_text("utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}


def test_a_folder_of_the_page_imports_only_from_those_above_it() -> None:
    order = re.findall(r"^ \* - (\w+)/: ", (PAGE / "main.js").read_text("utf-8"), re.MULTILINE)
    assert sorted(order) == sorted(path.name for path in PAGE.iterdir() if path.is_dir())
    upward = []
    for path in sorted(PAGE.glob("*/*.js")):
        text = path.read_text("utf-8")
        for named in re.findall(r'import\("([^"]+)"\)', text):  # of types: from anywhere
            assert (path.parent / named).is_file(), f"{path.relative_to(PAGE)}: {named}"
        for named in re.findall(r'^import .* from "([^"]+)";$', text, re.MULTILINE):
            folder = (path.parent / named).resolve().parent.name
            if order.index(folder) > order.index(path.parent.name):
                upward.append(f"{path.relative_to(PAGE)}: {named}")
    assert upward == []


def test_the_page_holds_only_what_a_browser_may_ask_for() -> None:
    assert {path.suffix for path in PAGE.rglob("*") if path.is_file()} == {".js", ".css", ".html", ".svg"}
    assert sorted(path.name for path in PAGE.glob("*.js")) == ["main.js"]

"""An environment of its own for a peer, with the small mends that today's torch asks for."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.side import SetUpError

TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Mend:
    """Text to replace in an installed file; `path` counts from site-packages."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Recipe:
    """What to install: the peer itself without its dependencies, what it really needs, and what to mend."""

    package: str
    needs: tuple[str, ...]
    stubs: tuple[str, ...] = ()  # modules that are imported and never used here
    mends: tuple[Mend, ...] = field(default=())

    def to_json(self) -> str:
        """To tell whether an environment was made by this very recipe."""
        mends = [[mend.path, mend.old, mend.new] for mend in self.mends]
        return json.dumps([TORCH, self.package, self.needs, self.stubs, mends])


def set_up(folder: Path, recipe: Recipe, torch_index: str | None) -> Path:
    """The environment's Python; made on the first call, and again when the recipe has changed."""
    python = folder / "bin" / "python"
    stamp = folder / "recipe.json"
    if stamp.exists() and stamp.read_text("utf-8") == recipe.to_json():
        return python
    stamp.unlink(missing_ok=True)
    _run([sys.executable, "-m", "venv", "--clear", str(folder)], recipe)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*install, TORCH, *(["--index-url", torch_index] if torch_index else [])], recipe)
    _run([*install, "--no-deps", recipe.package], recipe)
    _run([*install, *recipe.needs], recipe)
    where = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    packages = Path(_run([str(python), "-c", where], recipe).strip())
    for stub in recipe.stubs:
        (packages / f"{stub}.py").write_text('"""Stands in for a module that nothing here uses."""\n', "utf-8")
    for mend in recipe.mends:
        _apply(mend, packages, recipe)
    stamp.write_text(recipe.to_json(), "utf-8")
    return python


def _apply(mend: Mend, packages: Path, recipe: Recipe) -> None:
    path = packages / mend.path
    content = path.read_text("utf-8")
    if mend.old not in content:
        raise SetUpError(f"{recipe.package}: {mend.path} does not read {mend.old!r}: another version?")
    path.write_text(content.replace(mend.old, mend.new), "utf-8")


def _run(command: list[str], recipe: Recipe) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).splitlines()[-5:])
        raise SetUpError(f"{recipe.package}: {' '.join(command[1:])} failed:\n{last}")
    return done.stdout

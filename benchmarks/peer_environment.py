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
    torch: bool = True

    def to_json(self) -> str:
        """To tell whether an environment was made by this very recipe."""
        mends = [[mend.path, mend.old, mend.new] for mend in self.mends]
        return json.dumps([TORCH if self.torch else None, self.package, self.needs, self.stubs, mends])


class PeerEnvironment:
    """A folder with a Python of its own; `torch_index` is where pip finds torch, if not where it looks by itself."""

    def __init__(self, folder: Path, recipe: Recipe, torch_index: str | None) -> None:
        self.folder = folder
        self.recipe = recipe
        self.torch_index = torch_index
        self.python = folder / "bin" / "python"

    def set_up(self) -> None:
        """Install the peer on the first call, and again when the recipe has changed."""
        stamp = self.folder / "recipe.json"
        if stamp.exists() and stamp.read_text("utf-8") == self.recipe.to_json():
            return
        stamp.unlink(missing_ok=True)
        self._run([sys.executable, "-m", "venv", "--clear", str(self.folder)])
        install = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if self.recipe.torch:
            self._run([*install, TORCH, *(["--index-url", self.torch_index] if self.torch_index else [])])
        self._run([*install, "--no-deps", self.recipe.package])
        self._run([*install, *self.recipe.needs])
        where = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
        packages = Path(self._run([str(self.python), "-c", where]).strip())
        for stub in self.recipe.stubs:
            (packages / f"{stub}.py").write_text('"""Stands in for a module that nothing here uses."""\n', "utf-8")
        for mend in self.recipe.mends:
            self._apply(mend, packages)
        stamp.write_text(self.recipe.to_json(), "utf-8")

    def _apply(self, mend: Mend, packages: Path) -> None:
        path = packages / mend.path
        content = path.read_text("utf-8")
        if mend.old not in content:
            raise SetUpError(f"{self.recipe.package}: {mend.path} does not read {mend.old!r}: another version?")
        path.write_text(content.replace(mend.old, mend.new), "utf-8")

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = "\n".join((done.stderr or done.stdout).splitlines()[-5:])
            raise SetUpError(f"{self.recipe.package}: {' '.join(command[1:])} failed:\n{last}")
        return done.stdout

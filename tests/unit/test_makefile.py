"""What `make` would do, and what the READMEs say about it."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def dry(*words: str) -> subprocess.CompletedProcess[str]:
    """The commands of a target in a checkout where nothing is installed."""
    command = ["make", "--dry-run", "--always-make", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_torch_cpu_is_short_for_its_index() -> None:
    plain, small = dry("quickstart").stdout, dry("quickstart", "TORCH=cpu").stdout
    assert "torch==2.13.0" in plain
    assert "--index-url" not in plain
    assert "torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu" in small


def test_another_build_is_refused() -> None:
    done = dry("quickstart", "TORCH=gpu")
    assert done.returncode == 2
    assert "TORCH=gpu: only TORCH=cpu is known" in done.stderr


def test_every_installation_says_what_it_installs() -> None:
    lines = dry("test").stdout.splitlines()
    installing = [number for number, line in enumerate(lines) if " pip install " in line]
    assert len(installing) == 3
    for number in installing:
        assert lines[number - 1].startswith('echo "Installing ')


@pytest.mark.parametrize("name", ["README.md", "README.ko.md"])
def test_readme_names_the_small_build_and_the_quick_recipe(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "make quickstart TORCH=cpu" in text
    assert "\n| `fast` |" in text

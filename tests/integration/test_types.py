"""What a type checker says of a user's own script."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

SCRIPT = """
import regard

loaded = regard.load("models/de-en")
reveal_type(loaded)
if isinstance(loaded, regard.Translator):
    reveal_type(loaded.translate("ein Haus"))
    reveal_type(loaded.translate(["ein Haus"]))
    reveal_type(loaded.translate("ein Haus").n_best)
    reveal_type(loaded.score("ein Haus", "a house"))
    reveal_type(loaded.score(["ein Haus"], ["a house"]))
    reveal_type(loaded.evaluate("test.de", "test.en"))
    reveal_type(loaded.translate("ein Haus").plot())
loaded.translate("ein Haus")  # a captioner cannot
"""

REVEALED = [
    "Translator | Captioner | Classifier",
    "Translation",
    "list[Translation]",
    "tuple[Translation, ...]",
    "PairScore",
    "list[PairScore]",
    "Report",
    "Figure",
]


def test_results_have_their_types(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", f"--config-file={ROOT / 'pyproject.toml'}", str(script)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    lines = done.stdout.splitlines()
    revealed = [match[1] for line in lines if (match := re.search(r'Revealed type is "(.*)"', line))]
    assert [re.sub(r"[\w.]+\.(?=\w)", "", each).replace("builtins.", "") for each in revealed] == REVEALED, done.stdout
    errors = [line for line in lines if ": error:" in line]
    assert len(errors) == 2, done.stdout
    assert all('has no attribute "translate"' in line for line in errors), done.stdout

"""The page of commands cannot drift from the commands."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_says_what_the_commands_say() -> None:
    made = runpy.run_path(str(DOCS / "commands.py"))["page"]()
    assert (DOCS / "commands.md").read_text("utf-8") == made, "run: python docs/commands.py"


def test_the_diagrams_show_the_recipes() -> None:
    made = runpy.run_path(str(DOCS / "diagrams.py"))["diagrams"]()
    for file, svg in made.items():
        assert (DOCS / "images" / file).read_text("utf-8") == svg, "run: python docs/diagrams.py"
    assert {path.name for path in (DOCS / "images").glob("*.svg")} == set(made)

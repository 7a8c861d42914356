"""`regard quickstart`: what it says at the end."""

from __future__ import annotations

from pathlib import Path

from regard.cli.quickstart import _next
from regard.cli.quickstart_images import SETTINGS
from regard.config.recipes import load_recipe


def test_the_first_thing_to_type_is_the_live_page_with_its_address() -> None:
    lines = _next("en-fr", Path("models/x"), "a cat", 60).splitlines()
    commands = [line.strip() for line in lines if line.startswith("  ")]
    assert commands[0] == "regard serve models/x --open    # the live page, at http://127.0.0.1:5000"
    assert all(command.startswith(("regard ", "echo ")) for command in commands)


def test_the_captioner_of_the_quickstart_is_that_of_the_recipe_for_fewer_updates() -> None:
    short, whole = load_recipe("captioner", SETTINGS), load_recipe("captioner")
    assert short.model == whole.model
    assert (short.training.updates, short.training.budget) == (1100, None)

"""`regard quickstart --images`: the way from images to captions and to what each word looked at."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from regard.inference.captioner import Captioner

# A seventh of the recipe's updates: about three minutes of one core.
SETTINGS = ("training.budget=none", "training.updates=1100", "training.validate_every=550")
LEAST_VALID, LEAST_POINTING = 0.80, 0.65
TEST_SCENES, SHOWN = 200, 4


def quickstart_images(out: Path | None, threads: int) -> None:
    """Train, caption, score and look; exit with 1 if the captioner is worse than it should be."""
    from regard.cli.quickstart import serve_line
    from regard.data.toy.scenes import scenes
    from regard.inference.captioner_evaluation import evaluate_captioner
    from regard.look.views.caption import maps_text

    target, started = out or Path("models/quickstart-images"), time.monotonic()
    typer.echo("1. Train a captioner (Show, Attend and Tell) on embedded scenes of coloured shapes.")
    captioner = _train(target, may_overwrite=out is None, threads=threads)
    typer.echo(f"\n2. Describe {TEST_SCENES} scenes that it has never seen.\n")
    made = [each.scene for each in scenes("test", SHOWN, 0, "en")]
    for caption in captioner.caption_images(scene.image() for scene in made):
        typer.echo(f"   {caption.text}")
    typer.echo("\n3. Score the captions.\n")
    report = evaluate_captioner(captioner, f"toy:scenes:en:{TEST_SCENES}")
    pointing = report["pointing_accuracy"]
    good = report["valid"] >= LEAST_VALID and pointing >= LEAST_POINTING
    typer.echo(f"   valid captions {report['valid']:.1%} (at least {LEAST_VALID:.0%})")
    typer.echo(f"   words that looked at the right shape {pointing:.1%} (at least {LEAST_POINTING:.0%})")
    typer.echo("\n4. Look: where in the image did each word look?\n")
    look = captioner.look(made[0].image())
    typer.echo(f"{look.target.text}\n\n{maps_text(look, shutil.get_terminal_size().columns)}")
    typer.echo(f"""
Done in {(time.monotonic() - started) / 60:.1f} minutes. The model is in {target}. What to type next:

{serve_line(target)}
  python -m regard.data.toy.scenes pictures --split unseen --count 5
  regard look {target} pictures/0.png --output look.gif
  regard evaluate {target} --split unseen
""")
    if not good:
        raise typer.Exit(1)


def _train(out: Path, may_overwrite: bool, threads: int) -> Captioner:
    import regard
    from regard.config.recipes import load_recipe
    from regard.inference.captioner import Captioner

    recipe = load_recipe("captioner", SETTINGS)
    trained = regard.train(recipe, train="toy:scenes", out=out, overwrite=may_overwrite, threads=threads)
    assert isinstance(trained, Captioner)
    return trained

"""Draw the pictures of README, docs/look.md, docs/captioner.md and docs/images.md: python docs/pictures.py [FOLDER].

Most of them show the installed models. For two of docs/look.md, two small models are trained first, each for about a
minute on one core, into FOLDER (default: a temporary one), unless they are there: one whose training is watched, and
one into Korean.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

import regard
from regard.config.recipes import load_recipe
from regard.config.settings import Recipe
from regard.data.toy import toy_corpus
from regard.data.toy.scenes import scenes
from regard.data.toy.two_ears import two_ears
from regard.storage.folder import holds_model

IMAGES, PAGE = Path(__file__).with_name("images"), Path(__file__).with_name("look.md")
TERMINAL = "--entropy\n```\n```\n"  # what the page has before the output of that command
BOUGHT = "Der alte Mann hat gestern ein rotes Auto gekauft."
KNOW = "Ich weiß nicht, ob sie heute kommt."
SCENE, EARS = 1, 1  # the image of the split that is drawn
WATCHED = "The happy child sees the small black cat.", "L'enfant heureux voit le petit chat noir."
KOREAN = "The student reads an old book."
TRAINED = ("en-fr", "en-ko")


def main(folder: Path) -> None:
    """Train what is missing, then draw everything."""
    for name in TRAINED:
        train(folder, name)
    draw(folder)


def train(folder: Path, name: str) -> None:
    """Train one of the models, unless it is there."""
    if holds_model(folder / name):
        return
    print(f"{name}:")
    corpus = toy_corpus("phrases", name)
    pairs = {
        split: [(each.source, each.target) for each in corpus.generate(split, count, max_words=9)]
        for split, count in (("train", 20_000), ("valid", 100))
    }
    watch = [WATCHED] if name == "en-fr" else []
    regard.train(phrases(), train=pairs["train"], valid=pairs["valid"], out=folder / name, threads=1, watch=watch)


def phrases() -> Recipe:
    """The quickstart's recipe, for fewer and shorter sentences."""
    changes = ["epochs=none", "updates=500", "batch_tokens=500", "validate_every=50", "validation_bleu=false"]
    changes += ["select_by=loss", "label_smoothing=0"]
    return load_recipe(Path("quickstart"), [f"training.{change}" for change in changes])


def draw(folder: Path) -> None:
    """Every picture, with the command that stands beside it in the page."""
    look("de-en/bahdanau", BOUGHT, "--output", "attention-de-en.png")
    look("de-en/bahdanau", BOUGHT, KNOW, "--entropy", "--output", "look-sheet.png")
    look("de-en/bahdanau", KNOW, "--steps", "3", "--output", "look-steps.gif")
    look("de-en/transformer", KNOW, "--kind", "cross", "--specials", "--output", "look-heads.png")
    look("de-en/luong-local-p", BOUGHT, "--steps", "2", "--output", "look-local.gif")
    look("de-en/seq2seq", KNOW, "--output", "look-vector.png")
    draw_images(folder)
    look(folder / "en-fr", "--over-time", "--output", "look-over-time.png")
    look(folder / "en-ko", KOREAN, "--output", "look-korean.png")
    command = [sys.executable, "-m", "regard", "look", "de-en/bahdanau", BOUGHT, "--entropy"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(TERMINAL)
    PAGE.write_text(f"{before}{TERMINAL}{shown.stdout}```{rest.partition('```')[2]}", "utf-8")


def draw_images(folder: Path) -> None:
    """The captioner on a scene, and BAM on two ears."""
    scene, ears = folder / "scene.png", folder / "ears.png"
    Image.fromarray(list(scenes("unseen", SCENE + 1))[SCENE].scene.image()).save(scene)
    Image.fromarray(two_ears("test", EARS + 1).images[EARS, 0]).save(ears)
    look("scenes/captioner", str(scene), "--output", "captioner.png")
    look("two-ears/bam", str(ears), "--output", "look-bam.png")


def look(model: str | Path, *arguments: str) -> None:
    """Run `regard look`, with the picture beside the others."""
    *options, name = arguments
    subprocess.run([sys.executable, "-m", "regard", "look", str(model), *options, str(IMAGES / name)], check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))

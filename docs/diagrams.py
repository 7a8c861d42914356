"""Draw the diagrams that README links: python docs/diagrams.py. A test holds them and the recipes together."""

from pathlib import Path

from regard.cli.diagram import diagram_of

IMAGES = Path(__file__).with_name("images")
RECIPES = ("seq2seq", "seq2seq-cho", "attention", "attention-bi", "bahdanau", "luong", "luong-local-p", "luong-bi")
RECIPES += ("gnmt", "gnmt-small", "gnmt-v2", "transformer-small")


def diagrams() -> dict[str, str]:
    """The SVG of every file."""
    return {f"{name}.svg": diagram_of(name, "the cat sat") for name in RECIPES}


if __name__ == "__main__":
    for file, svg in diagrams().items():
        (IMAGES / file).write_text(svg, "utf-8")

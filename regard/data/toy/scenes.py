"""Embedded scenes: generated images of coloured shapes on grey, with captions in English and Korean.

A scene has one to three things, no two with the same colour and shape. Its valid captions are all true sentences of one
form: one thing is named, or two things are named with their spatial relation. The size may be mentioned or not.
Training uses the usual captions, which begin with the most salient thing.

    a small red circle left of a blue square
    작은 빨간 원이 파란 정사각형 왼쪽에 있다

All valid captions are known, with the thing that each word refers to. So both the caption and the attention of a
captioner can be checked.

Splits: "train", "valid" and "test" share no scene. All scenes of "unseen" consist of colour-shape combinations that
occur in no other split.

    python -m regard.data.toy.scenes pictures --split unseen --count 5    writes PNG files and a TSV of their captions
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from math import dist
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from regard.data.toy.phrases.korean_forms import particle
from regard.errors import DataError, RegardError, did_you_mean

Language = Literal["en", "ko"]
Pixels = npt.NDArray[np.uint8]

SIZE = 64  # of the image, in pixels
SPLITS = ("train", "valid", "test", "unseen")
LANGUAGES: dict[str, str] = {"en": "English", "ko": "Korean"}

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (215, 35, 35),
    "orange": (245, 135, 20),
    "yellow": (245, 220, 40),
    "green": (30, 150, 55),
    "blue": (35, 75, 210),
    "purple": (135, 45, 170),
    "black": (20, 20, 20),
    "white": (250, 250, 250),
}
SHAPES = ("circle", "square", "triangle", "star", "cross", "heart")
UNSEEN = frozenset(
    {
        ("red", "star"),
        ("orange", "circle"),
        ("yellow", "heart"),
        ("green", "cross"),
        ("blue", "triangle"),
        ("purple", "square"),
    }
)
SIZES: dict[str, tuple[int, int]] = {"small": (12, 15), "large": (22, 27)}  # pixels, both ends included
THINGS_CHANCES = (0.15, 0.5, 0.35)  # probabilities of one, two and three things in a scene
GAP = 3  # pixels between the boxes of two things
APART = 10  # minimum distance of centres, in pixels, for "left of"; boxes with a gap reach it on one axis
GROUND = (110, 180)  # range of background greys
NOISE = 5.0
JITTER = 14  # maximum change of each RGB component

KOREAN = {
    "red": "빨간",
    "orange": "주황색",
    "yellow": "노란",
    "green": "초록색",
    "blue": "파란",
    "purple": "보라색",
    "black": "검은",
    "white": "하얀",
    "circle": "원",
    "square": "정사각형",
    "triangle": "삼각형",
    "star": "별",
    "cross": "십자가",
    "heart": "하트",
    "small": "작은",
    "large": "큰",
    "left of": "왼쪽에",
    "right of": "오른쪽에",
    "above": "위에",
    "below": "아래에",
}


@dataclass(frozen=True, slots=True)
class Box:
    """Pixels from (left, top) up to, and without, (right, bottom)."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def centre(self) -> tuple[float, float]:
        """(x, y)."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2


@dataclass(frozen=True, slots=True)
class Thing:
    """One coloured shape."""

    colour: str
    shape: str
    size: str  # "small" or "large"
    box: Box


Mentions = tuple[tuple[int, int], ...]
"""(word of the caption, thing of the scene), both from 0, for each word that refers to a thing."""

Named = tuple[tuple[int, bool], ...]
"""(thing, whether its size is mentioned) for each thing of a caption."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Things on a background; `grain` seeds the background grey, its noise and the tints."""

    things: tuple[Thing, ...]
    grain: int

    def image(self) -> Pixels:
        """The picture (SIZE, SIZE, 3)."""
        generator = np.random.default_rng(self.grain)
        canvas = np.full((SIZE, SIZE, 3), generator.uniform(*GROUND))
        for thing in self.things:
            tint = np.array(COLOURS[thing.colour]) + generator.uniform(-JITTER, JITTER, 3)
            box = thing.box
            cover = _stencil(thing.shape, box.right - box.left)[..., None]  # (size, size, 1)
            part = canvas[box.top : box.bottom, box.left : box.right]
            part += cover * (tint - part)
        canvas += generator.normal(0.0, NOISE, canvas.shape)
        return canvas.clip(0, 255).round().astype(np.uint8)

    def captions(self, language: Language = "en") -> Mapping[str, Mentions]:
        """Every valid caption, with the things that its words refer to."""
        phrases: list[tuple[Named, str]]  # with the relation
        if len(self.things) == 1:
            phrases = [(((0, sized),), "") for sized in (False, True)]
        else:
            phrases = [
                (((one, one_sized), (other, other_sized)), relation)
                for one, other in permutations(range(len(self.things)), 2)
                for relation in relations(self.things[one].box, self.things[other].box)
                for one_sized, other_sized in product((False, True), repeat=2)
            ]
        return dict(self._say(named, how, language) for named, how in phrases)

    def usual_captions(self, language: Language = "en") -> list[str]:
        """The valid captions that begin with the most salient thing, as people's do.

        That is the largest thing; of two equally large ones, the left one. It is related to its nearest thing, along
        the axis with the larger distance. The captions differ only in the mention of sizes.
        """
        if len(self.things) == 1:
            return list(self.captions(language))
        first = min(range(len(self.things)), key=lambda one: (self.things[one].size != "large", self._centre(one)))
        second = min(
            (other for other in range(len(self.things)) if other != first),
            key=lambda other: dist(self._centre(first), self._centre(other)),
        )
        (x, y), (other_x, other_y) = self._centre(first), self._centre(second)
        beside = abs(x - other_x) >= abs(y - other_y)
        relation = ("left of" if x < other_x else "right of") if beside else ("above" if y < other_y else "below")
        return [
            self._say(((first, first_sized), (second, second_sized)), relation, language)[0]
            for first_sized, second_sized in product((False, True), repeat=2)
        ]

    def _centre(self, number: int) -> tuple[float, float]:
        return self.things[number].box.centre

    def _say(self, named: Named, relation: str, language: Language) -> tuple[str, Mentions]:
        say = {"en": _english, "ko": _korean}[language]
        return say([(*self._words(thing, sized), thing) for thing, sized in named], relation)

    def _words(self, number: int, sized: bool) -> tuple[list[str], str]:
        """The adjectives and the noun of a thing."""
        thing = self.things[number]
        return ([thing.size] if sized else []) + [thing.colour], thing.shape


def relations(one: Box, other: Box) -> list[str]:
    """The spatial relations of the first box to the second; a diagonal position has two."""
    (x, y), (other_x, other_y) = one.centre, other.centre
    held = {
        "left of": other_x - x >= APART,
        "right of": x - other_x >= APART,
        "above": other_y - y >= APART,
        "below": y - other_y >= APART,
    }
    return [name for name, holds in held.items() if holds]


# --- captions -----------------------------------------------------------------------------------------------------

Phrase = tuple[list[str], str, int]
"""Adjectives, noun, and the number of the thing."""


def _english(phrases: list[Phrase], relation: str) -> tuple[str, Mentions]:
    words: list[str] = []
    mentions: list[tuple[int, int]] = []
    for place, (adjectives, noun, thing) in enumerate(phrases):
        words += relation.split() if place else []
        words.append("an" if adjectives[0][0] in "aeiou" else "a")
        mentions += [(len(words) + number, thing) for number in range(len(adjectives) + 1)]
        words += [*adjectives, noun]
    return " ".join(words), tuple(mentions)


def _korean(phrases: list[Phrase], relation: str) -> tuple[str, Mentions]:
    words: list[str] = []
    mentions: list[tuple[int, int]] = []
    for place, (adjectives, noun, thing) in enumerate(phrases):
        mentions += [(len(words) + number, thing) for number in range(len(adjectives) + 1)]
        name = KOREAN[noun]
        words += [*(KOREAN[word] for word in adjectives), name if place else name + particle(name, "subject")]
    words += ([KOREAN[relation]] if relation else []) + ["있다"]
    return " ".join(words), tuple(mentions)


# --- making scenes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CaptionedScene:
    """A scene with one of its captions."""

    scene: Scene
    caption: str


def scenes(split: str, count: int, seed: int = 0, language: Language = "en") -> Iterator[CaptionedScene]:
    """Yield `count` scenes of a split, each with one of its usual captions; deterministic by seed."""
    if split not in SPLITS:
        raise DataError(f"split {split!r}: the scenes have no such split; {did_you_mean(split, SPLITS)}")
    if language not in LANGUAGES:
        raise DataError(f"language {language!r}: scenes have no captions in it; {did_you_mean(language, LANGUAGES)}")
    return _stream(split, count, seed, language)


def _stream(split: str, count: int, seed: int, language: Language) -> Iterator[CaptionedScene]:
    # The scenes do not depend on the language: the same seed gives the same pictures.
    generator = np.random.default_rng([SPLITS.index(split), seed])
    made = 0
    while made < count:
        scene = _random_scene(generator, split == "unseen")
        draw = generator.random()
        if scene is None or split_of(scene) != split:
            continue
        captions = scene.usual_captions(language)
        yield CaptionedScene(scene, captions[int(draw * len(captions))])
        made += 1


def split_of(scene: Scene) -> str:
    """The split of a scene: by its pairs of colour and shape, then by a stable hash of its things."""
    if any((thing.colour, thing.shape) in UNSEEN for thing in scene.things):
        return "unseen"
    bucket = zlib.crc32(repr(scene.things).encode()) % 10
    return {0: "valid", 1: "test"}.get(bucket, "train")


def _random_scene(generator: np.random.Generator, unseen: bool) -> Scene | None:
    """A random scene, or None if the things do not fit."""
    pairs = sorted(UNSEEN) if unseen else [pair for pair in product(COLOURS, SHAPES) if pair not in UNSEEN]
    count = 1 + int(generator.choice(len(THINGS_CHANCES), p=THINGS_CHANCES))
    things: list[Thing] = []
    for pair in generator.choice(len(pairs), count, replace=False):
        size = ("small", "large")[int(generator.integers(2))]
        width = int(generator.integers(SIZES[size][0], SIZES[size][1] + 1))
        left, top = (int(place) for place in generator.integers(0, SIZE - width + 1, 2))
        colour, shape = pairs[pair]
        things.append(Thing(colour, shape, size, Box(left, top, left + width, top + width)))
    grain = int(generator.integers(2**32))
    crowded = any(_touch(one.box, other.box) for one, other in permutations(things, 2))
    return None if crowded else Scene(tuple(things), grain)


def _touch(one: Box, other: Box) -> bool:
    beside = one.right + GAP <= other.left or other.right + GAP <= one.left
    return not (beside or one.bottom + GAP <= other.top or other.bottom + GAP <= one.top)


# --- drawing ------------------------------------------------------------------------------------------------------

FINE = 8  # supersampling factor of stencils, for smooth edges


@cache
def _stencil(shape: str, size: int) -> npt.NDArray[np.float64]:
    """The coverage of each pixel (size, size) by the shape, from 0 to 1."""
    picture = Image.new("L", (size * FINE, size * FINE))
    draw, edge = ImageDraw.Draw(picture), size * FINE - 1
    if shape == "circle":
        draw.ellipse((0, 0, edge, edge), fill=255)
    else:
        draw.polygon([(x * edge, y * edge) for x, y in _outline(shape)], fill=255)
    return np.asarray(picture.reduce(FINE), dtype=np.float64) / 255


def _outline(shape: str) -> list[tuple[float, float]]:
    """The corners of a shape that fills the unit square; y grows downwards."""
    match shape:
        case "square":
            return [(0, 0), (1, 0), (1, 1), (0, 1)]
        case "triangle":
            return [(0.5, 0), (1, 1), (0, 1)]
        case "cross":
            near, far = 1 / 3, 2 / 3
            upper = [(near, 0.0), (far, 0.0), (far, near), (1.0, near), (1.0, far), (far, far)]
            return [*upper, *((1 - x, 1 - y) for x, y in upper)]
        case "star":
            angles = np.arange(10) * np.pi / 5
            radius = np.where(np.arange(10) % 2, 0.42, 1.0)
            return _fitted(radius * np.sin(angles), -radius * np.cos(angles))
        case _:  # the heart curve
            turn = np.linspace(0, 2 * np.pi, 60)
            y = 13 * np.cos(turn) - 5 * np.cos(2 * turn) - 2 * np.cos(3 * turn) - np.cos(4 * turn)
            return _fitted(16 * np.sin(turn) ** 3, -y)


def _fitted(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> list[tuple[float, float]]:
    sides = ((side - side.min()) / np.ptp(side) for side in (x, y))
    return list(zip(*(side.tolist() for side in sides), strict=True))


# --- files --------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Write scenes as PNG files, with a TSV of their captions."""
    parser = argparse.ArgumentParser(prog="python -m regard.data.toy.scenes", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="output folder; created if missing")
    parser.add_argument("--split", default="test", help="one of " + ", ".join(SPLITS))
    parser.add_argument("--language", default="en", help="one of " + ", ".join(LANGUAGES))
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        made = scenes(options.split, options.count, options.seed, options.language)
    except RegardError as error:
        print(f"regard: error: {error}", file=sys.stderr)
        return 2
    options.folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, each in enumerate(made):
        Image.fromarray(each.scene.image()).save(options.folder / f"{number}.png")
        lines.append(f"{number}.png\t{each.caption}\n")
    (options.folder / f"{options.split}.tsv").write_text("".join(lines), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

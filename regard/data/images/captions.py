"""Captioned images: read strictly from files, or made by `scenes`, and kept on disk as bytes that are memory-mapped.

What a user may name:

    toy:scenes, toy:scenes:ko:5000   the embedded scenes, their language and how many
    photos/train.tsv                 lines of a file name, a tab, and a caption; names count from the TSV's folder
    photos                           a folder with train.tsv and, for validation and tests, valid.tsv and test.tsv

An image may stand in several lines, with a caption each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from regard.data.images.image_set import read_image
from regard.data.images.pixels import Pixels, as_tensor
from regard.data.lines import read_lines
from regard.data.toy.scenes import LANGUAGES, Language, scenes
from regard.errors import DataError
from regard.storage.files import write_bytes, write_json

SCENES = "toy:scenes"
SCENES_FORM = "write it as toy:scenes, toy:scenes:LANGUAGE or toy:scenes:LANGUAGE:COUNT, such as toy:scenes:ko"
SCENE_COUNTS = {"train": 30_000, "valid": 500, "test": 500, "unseen": 500}


@dataclass(frozen=True)
class Example:
    """An image as bytes (H, W, 3) or (H, W), and its captions."""

    image: Pixels
    captions: tuple[str, ...]


@dataclass(frozen=True)
class Captioned:
    """Images with captions that can be read from the beginning any number of times."""

    description: str
    examples: Callable[[], Iterator[Example]]
    blank: int = 0  # lines without a caption, which are left out


@dataclass(frozen=True)
class SceneSource:
    """The embedded scenes that a user names."""

    language: Language = "en"
    count: int | None = None

    @classmethod
    def parse(cls, text: str) -> SceneSource:
        """That of "toy:scenes", "toy:scenes:ko", "toy:scenes:500" or "toy:scenes:ko:500"."""
        language, _, count = text.removeprefix(SCENES).removeprefix(":").partition(":")
        if language.isdecimal() and not count:
            language, count = "", language
        if language and language not in LANGUAGES:
            raise DataError(f"{text}: scenes have captions in {' and '.join(LANGUAGES)}: {SCENES_FORM}.")
        if count and (not count.isdecimal() or int(count) < 1):
            raise DataError(f"{text}: {count!r} is no number of scenes: {SCENES_FORM}.")
        return cls(cast(Language, language or "en"), int(count) if count else None)

    def open(self, split: str) -> Captioned:
        """The scenes of a split, which do not depend on the language."""
        usual = SCENE_COUNTS[split]
        number = (self.count or usual) if split == "train" else min(self.count or usual, usual)
        description = f"embedded scenes, {LANGUAGES[self.language]}, {split}, {number:,} images"

        def examples() -> Iterator[Example]:
            for each in scenes(split, number, language=self.language):
                yield Example(each.scene.image(), (each.caption,))

        return Captioned(description, examples)


def is_scenes(given: str | PathLike[str]) -> bool:
    """Whether embedded scenes are meant."""
    return isinstance(given, str) and (given == SCENES or given.startswith(f"{SCENES}:"))


def open_captions(given: str | PathLike[str], split: str, channels: int) -> Captioned | None:
    """The captioned images that a user means; None if a folder has none for the split."""
    if is_scenes(given):
        return SceneSource.parse(str(given)).open(split)
    path = Path(given)
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder: {_file_form(split)}.")
    if path.is_dir():
        path = path / f"{split}.tsv"
        if not path.exists():
            if split == "valid":
                return None
            raise DataError(f"{path}: there is no such file: {_file_form(split)}.")
    elif split == "valid":
        return None
    return _open_tsv(path, channels)


def _file_form(split: str) -> str:
    return f"give a TSV of file names and captions, or a folder with a {split}.tsv"


def _open_tsv(path: Path, channels: int) -> Captioned:
    """All lines are checked here; the images are opened when they are read."""
    by_file: dict[str, list[str]] = {}
    blank = 0
    for number, line in enumerate(read_lines(path), 1):
        sides = line.split("\t")
        if len(sides) != 2 or not sides[0].strip():
            raise DataError(f"{path}:{number}: is not a file name, one tab and a caption: mend the line.")
        if not sides[1].strip():
            blank += 1
            continue
        by_file.setdefault(sides[0].strip(), []).append(sides[1])
    if not by_file:
        raise DataError(f"{path}: holds no captions: give lines of a file name, a tab and a caption.")
    missing = next((name for name in by_file if not (path.parent / name).is_file()), None)
    if missing is not None:
        raise DataError(f"{path}: names {missing!r}, which is no file in {path.parent}: mend the line or add the file.")

    def examples() -> Iterator[Example]:
        for name, captions in by_file.items():
            yield Example(read_image(path.parent / name, channels), tuple(captions))

    return Captioned(f"{path.name}, {len(by_file):,} images", examples, blank)


# --- on disk ------------------------------------------------------------------------------------------------------

IMAGES, CAPTIONS, ABOUT = "images.bin", "captions.jsonl", "corpus.json"


@dataclass(frozen=True)
class CaptionCorpus:
    """Images (N, C, size, size), memory-mapped, and captions (image, text), in a folder that `write` filled."""

    images: npt.NDArray[np.uint8]
    captions: list[tuple[int, str]]

    @classmethod
    def write(cls, source: Captioned, folder: Path, size: int, on_progress: Callable[[int], None]) -> dict[str, Any]:
        """Bring all images to one size and write them; returns what the data was."""
        folder.mkdir(parents=True)
        rows: list[str] = []
        number = -1
        shape: tuple[int, ...] = ()
        with (folder / IMAGES).open("wb") as file:
            for number, example in enumerate(source.examples()):
                image = as_tensor(example.image, size).numpy()
                shape = image.shape
                file.write(image.tobytes())
                rows += [json.dumps([number, text]) for text in example.captions]
                if number % 256 == 0:
                    on_progress(number + 1)
        write_bytes(folder / CAPTIONS, "".join(f"{row}\n" for row in rows).encode())
        write_json(folder / ABOUT, {"images": number + 1, "shape": list(shape)})
        return {"data": source.description, "images": number + 1, "captions": len(rows), "skipped_blank": source.blank}

    @classmethod
    def open(cls, folder: Path) -> CaptionCorpus:
        """Map what `write` wrote."""
        try:
            about = json.loads((folder / ABOUT).read_text("utf-8"))
            shape = (int(about["images"]), *(int(side) for side in about["shape"]))
            images = np.memmap(folder / IMAGES, dtype=np.uint8, mode="r", shape=shape)
            rows = [json.loads(line) for line in (folder / CAPTIONS).read_text("utf-8").splitlines()]
            return cls(images, [(int(number), str(text)) for number, text in rows])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{folder}: the images are missing or damaged ({error}): start training anew.") from None

    def texts(self) -> list[str]:
        """The captions alone."""
        return [text for _, text in self.captions]

    def references(self, images: int) -> list[list[str]]:
        """The captions of the first images as reference texts."""
        by_image: list[list[str]] = [[] for _ in range(images)]
        for number, text in self.captions:
            if number < images:
                by_image[number].append(text)
        return reference_texts(by_image)


def reference_texts(by_image: Sequence[Sequence[str]]) -> list[list[str]]:
    """Captions by image as whole reference texts; an image with fewer has its first again, which changes no BLEU."""
    most = max((len(captions) for captions in by_image), default=0)
    return [[(captions[place:] or captions)[0] for captions in by_image] for place in range(most)]

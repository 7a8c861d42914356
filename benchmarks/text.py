"""The same text in the same pieces for everybody."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regard.data.text.tokenizer import Tokenizer

SPECIAL = 4  # <pad> <unk> <s> </s>
FEATURES = "￨"  # OpenNMT-py splits tokens here


@dataclass(frozen=True)
class Text:
    """Files below `folder`: lines as they are (raw.NAME.LANGUAGE) and in pieces (NAME.LANGUAGE), and pieces.txt."""

    folder: Path
    source: str
    target: str
    vocabulary: int
    training_pairs: int
    source_per_target: float  # tokens of the training text, each </s> counted
    test_sentences: int
    test_source_tokens: int

    def raw(self, name: str, language: str) -> Path:
        """Lines of text."""
        return self.folder / f"raw.{name}.{language}"

    def pieces(self, name: str, language: str) -> Path:
        """Lines of pieces, with a space between them."""
        return self.folder / f"{name}.{language}"

    def test_pieces(self, language: str, sentences: int | None) -> list[str]:
        """The first so many test sentences (None: all) in pieces."""
        return self.pieces("test", language).read_text("utf-8").split("\n")[:-1][:sentences]

    def updates(self, epochs: float, sentences: int | None) -> int:
        """The updates of `epochs`, with `sentences` pairs in a batch."""
        assert sentences is not None
        return round(epochs * self.training_pairs / sentences)

    @property
    def vocabulary_file(self) -> Path:
        """The pieces, one per line, without the special ones."""
        return self.folder / "pieces.txt"


def read(data: Path, name: str, language: str) -> list[str]:
    """The lines of NAME.LANGUAGE or NAME.LANGUAGE.gz."""
    plain, packed = data / f"{name}.{language}", data / f"{name}.{language}.gz"
    if plain.exists():
        content = plain.read_bytes()
    elif packed.exists():
        content = gzip.decompress(packed.read_bytes())
    else:
        raise SystemExit(f"{data}: has neither {plain.name} nor {packed.name}: name the folder of the text by --data.")
    return content.decode("utf-8").removesuffix("\n").split("\n")


def write(path: Path, lines: Iterable[str]) -> None:
    """One line each."""
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def copy_raw(data: Path, folder: Path, languages: tuple[str, str], test: str, sentences: int | None) -> None:
    """Training, validation and test text without compression; at most so many test sentences."""
    folder.mkdir(parents=True, exist_ok=True)
    for language in languages:
        for name in ("train", "val"):
            write(folder / f"raw.{name}.{language}", read(data, name, language))
        lines = read(data, test, language)
        write(folder / f"raw.test.{language}", lines[:sentences])


def digest(folder: Path, languages: tuple[str, str]) -> str:
    """What the training text is known by."""
    contents = b"".join((folder / f"raw.train.{language}").read_bytes() for language in languages)
    return hashlib.sha256(contents).hexdigest()


def cut_into_pieces(folder: Path, languages: tuple[str, str], tokenizer: Tokenizer) -> Text:
    """Write the text in pieces; peers read these as words, so that all sides have the same tokens."""
    names = [peer_piece(tokenizer, number) for number in range(tokenizer.size)]
    write(folder / "pieces.txt", names[SPECIAL:])
    tokens: dict[str, int] = {}
    count: dict[str, int] = {}
    for name in ("train", "test"):
        for language in languages:
            lines = (folder / f"raw.{name}.{language}").read_text("utf-8").removesuffix("\n").split("\n")
            encoded = tokenizer.encode_many(lines)
            tokens[f"{name}.{language}"] = sum(map(len, encoded))
            write(folder / f"{name}.{language}", (" ".join(names[number] for number in ids[:-1]) for ids in encoded))
            count[name] = len(lines)
    # JoeyNMT wants a validation set even where it never validates
    for language in languages:
        write(folder / f"dev.{language}", (folder / f"test.{language}").read_text("utf-8").split("\n")[:4])
    source, target = languages
    return Text(
        folder,
        source,
        target,
        tokenizer.size,
        count["train"],
        tokens[f"train.{source}"] / tokens[f"train.{target}"],
        count["test"],
        tokens[f"test.{source}"],
    )


def peer_piece(tokenizer: Tokenizer, number: int) -> str:
    """The piece, or a name for it where it holds white space or a sign that peers would split it at."""
    piece = tokenizer.piece(number)
    unsafe = not piece or FEATURES in piece or any(character.isspace() for character in piece)
    return f"<piece{number}>" if unsafe else piece

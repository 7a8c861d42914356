"""A preparation of text that was interrupted while encoding, kept in its folder, so that the same one can go on.

begun.json              the text (files with size and time), settings and tokenizers; written last
tokenizer files, valid.jsonl, training.fingerprint.npy, training.words.npy, duplicate.npy
.train.part/            the encoded part, with its journal
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard import __version__
from regard.config.settings import Recipe
from regard.data.text.overlap import load_fingerprint, save_fingerprint
from regard.data.text.parallel import Files, Pair
from regard.data.text.sources import Scan, Tokenizers, load_pairs, save_pairs
from regard.data.text.texts import Text
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ConfigError, RegardError
from regard.storage.files import write_bytes, write_json
from regard.storage.folder import JOINT, SOURCE, TARGET, WORDS_FILE

BEGUN = "begun.json"
DUPLICATE = "duplicate.npy"
VALID = "valid.jsonl"


@dataclass(frozen=True)
class Ready:
    """What is known of the text before it is encoded."""

    tokenizers: Tokenizers
    scan: Scan
    valid_pairs: list[Pair]


@dataclass(frozen=True)
class Begun:
    """What a preparation depends on; None if its text is not in files and cannot be recognised."""

    about: dict[str, Any] | None

    @classmethod
    def of(cls, recipe: Recipe, text: Text, valid: Text | None, tokenizers: Tokenizers | None) -> Begun:
        """The preparation of these texts."""
        given = [corpus.given for each in (text, valid) if each is not None for corpus in each.corpora]
        if not all(isinstance(files, Files) for files in given):
            return cls(None)
        paths = [path for files in given if isinstance(files, Files) for path in files.paths]
        paths += [path for path in (recipe.text.source_tokenizer, recipe.text.target_tokenizer) if path is not None]
        sizes = [
            (str(path.absolute()), path.stat().st_size, path.stat().st_mtime_ns) for path in paths if path.exists()
        ]
        named = () if tokenizers is None else (tokenizers.source.to_json(), tokenizers.target.to_json())
        about = {
            "version": __version__,
            "settings": recipe.text.model_dump(mode="json"),
            "text": [text.description, text.every, [repr(corpus.given) for corpus in text.corpora]],
            "valid": None if valid is None else [valid.description, valid.every],
            "weights": text.weights,
            "files": sizes,
            "tokenizers": [hashlib.sha256(each.encode()).hexdigest() for each in named],
        }
        return cls(json.loads(json.dumps(about)))

    @property
    def kept(self) -> bool:
        """Whether an interrupted preparation is kept."""
        return self.about is not None

    def save(self, folder: Path, ready: Ready) -> None:
        """Write what encoding needs."""
        if self.about is None:
            return
        save_tokenizers(ready.tokenizers, folder)
        save_pairs(folder / VALID, ready.valid_pairs)
        save_fingerprint(folder, ready.scan.hashes)
        save_fingerprint(folder, ready.scan.words, WORDS_FILE)
        if ready.scan.duplicate is not None:
            np.save(folder / DUPLICATE, ready.scan.duplicate)
        write_json(folder / BEGUN, self.about)

    def load(self, folder: Path) -> Ready | None:
        """What encoding needs, if this preparation was begun in the folder."""
        if self.about is None:
            return None
        try:
            if json.loads((folder / BEGUN).read_bytes()) != self.about:
                return None
            hashes, words = load_fingerprint(folder), load_fingerprint(folder, WORDS_FILE)
            path = folder / DUPLICATE
            duplicate = np.load(path, allow_pickle=False) if path.exists() else None
            if hashes is None or words is None:
                return None
            return Ready(load_tokenizers(folder), Scan(hashes, words, duplicate), load_pairs(folder / VALID))
        except (OSError, ValueError, RegardError):
            return None


def forget(folder: Path) -> None:
    """The text is encoded."""
    for name in (BEGUN, DUPLICATE):
        (folder / name).unlink(missing_ok=True)


def save_tokenizers(tokenizers: Tokenizers, folder: Path) -> None:
    """Write the tokenizers of both languages."""
    if tokenizers.source is tokenizers.target:
        write_bytes(folder / JOINT, tokenizers.source.to_json().encode())
    else:
        write_bytes(folder / SOURCE, tokenizers.source.to_json().encode())
        write_bytes(folder / TARGET, tokenizers.target.to_json().encode())


def load_tokenizers(folder: Path) -> Tokenizers:
    """Read the tokenizers of both languages."""
    if (folder / JOINT).exists():
        joint = Tokenizer.load(folder / JOINT)
        return Tokenizers(joint, joint)
    return Tokenizers(Tokenizer.load(folder / SOURCE), Tokenizer.load(folder / TARGET))


def check_tag(text: Text, tokenizers: Tokenizers) -> None:
    """Refuse back-translated text for a vocabulary without the tag."""
    for corpus in text.corpora:
        if corpus.back_translated and tokenizers.source.tag is None:
            raise ConfigError(
                f"{corpus.description}: the given source vocabulary has no tag for back-translated text: name it with "
                "--train, without a tag, or train from the start."
            )

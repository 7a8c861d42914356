"""Preparing a recipe and text in OUT/training; resuming needs nothing else.

run.json            recipe, description of the text, machine; written last: without it nothing can be resumed
source.tokenizer.json, target.tokenizer.json, or tokenizer.json
train/, valid/      token ids, memory-mapped
guide.npy           for each target token of train/ its aligned source position, for guided attention
valid.jsonl         the validation sentences, for BLEU
training.fingerprint.npy, training.words.npy
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.config.settings import Recipe
from regard.data.text.aligner import align
from regard.data.text.corpus import EncodedCorpus, Ids, Pair
from regard.data.text.overlap import Fingerprint, load_fingerprint, save_fingerprint
from regard.data.text.sources import (
    Text,
    Tokenizers,
    encode,
    load_pairs,
    overlap_warning,
    read_valid,
    save_pairs,
    train_tokenizers,
    training_fingerprints,
)
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ModelFolderError
from regard.models.contract import NOWHERE
from regard.storage.files import write_bytes
from regard.storage.folder import JOINT, SOURCE, TARGET, WORDS_FILE
from regard.storage.run import read_run, write_run
from regard.training.progress import Reporter

GUIDE = "guide.npy"
FEW_PAIRS = 2000


@dataclass(frozen=True)
class Prepared:
    """Encoded text, ready for training."""

    recipe: Recipe
    tokenizers: Tokenizers
    train: EncodedCorpus
    valid: EncodedCorpus | None
    valid_pairs: list[Pair]
    hashes: Fingerprint | None
    words: Fingerprint | None
    data: dict[str, Any]  # description of the text, for the model card
    guide: Ids | None = None  # see BatchPlan


def prepare(
    recipe: Recipe,
    text: Text,
    valid_text: Text | None,
    folder: Path,
    tokenizers: Tokenizers | None,
    reporter: Reporter,
) -> Prepared:
    """Check all text, train the subword tokenizer unless it is given, and only then write into the folder."""
    reporter.say(f"reading {text.description}")
    reporter.working("reading")
    hashes, words = training_fingerprints(text)
    valid_pairs = [] if valid_text is None else read_valid(valid_text)
    if (warning := overlap_warning(valid_pairs, hashes)) is not None:
        reporter.say(f"warning: {warning}")
    if tokenizers is None:
        reporter.working("learning the subwords")
        tokenizers = train_tokenizers(text, recipe)
    folder.mkdir(parents=True)

    def encoded(pairs: Iterable[Pair], name: str) -> EncodedCorpus:
        return encode(pairs, tokenizers, folder / name, recipe.text.max_length, say_count)

    def say_count(count: int) -> None:
        reporter.working(f"encoding, {count:,} pairs")

    train = encoded(text.pairs(), "train")
    valid = None if valid_text is None else encoded(valid_pairs, "valid")
    data = {"train": _describe(text, train)}
    if valid_text is not None and valid is not None:
        data["valid"] = _describe(valid_text, valid)
    reporter.say(_summary(data["train"], tokenizers))
    if len(train) < FEW_PAIRS:
        reporter.say(
            f"warning: {len(train):,} pairs are very few: the model will overfit; use tens of thousands or more."
        )
    guide = _make_guide(train, tokenizers, folder / GUIDE, reporter) if recipe.training.guided_attention else None
    return Prepared(recipe, tokenizers, train, valid, valid_pairs, hashes, words, data, guide)


def _make_guide(train: EncodedCorpus, tokenizers: Tokenizers, path: Path, reporter: Reporter) -> Ids:
    def say_share(share: float) -> None:
        reporter.working(f"aligning words, {share:.0%}")

    guide = align(train.source, train.target, tokenizers.source.size, tokenizers.target.size, say_share)
    np.save(path, guide)
    reporter.say(f"aligned words: {np.mean(guide != NOWHERE):.0%} of the target tokens are aligned")
    return guide


def _describe(text: Text, corpus: EncodedCorpus) -> dict[str, Any]:
    skipped = corpus.skipped
    return {
        "text": text.description,
        "pairs": len(corpus),
        "skipped_empty": skipped.empty,
        "skipped_too_long": skipped.too_long,
        "source_tokens": int(corpus.source_lengths.sum()),
        "target_tokens": int(corpus.target_lengths.sum()),
        "fingerprint": corpus.fingerprint,
    }


def _summary(data: dict[str, Any], tokenizers: Tokenizers) -> str:
    sizes = f"{tokenizers.source.size:,} source and {tokenizers.target.size:,} target pieces"
    if tokenizers.source is tokenizers.target:
        sizes = f"{tokenizers.source.size:,} pieces for both languages"
    return (
        f"{data['pairs']:,} sentence pairs with {data['target_tokens']:,} target tokens; "
        f"skipped {data['skipped_empty']:,} empty and {data['skipped_too_long']:,} too long; {sizes}"
    )


def save_prepared(prepared: Prepared, folder: Path) -> None:
    """Write everything `load_prepared` needs except the token ids."""
    tokenizers = prepared.tokenizers
    if tokenizers.source is tokenizers.target:
        write_bytes(folder / JOINT, tokenizers.source.to_json().encode())
    else:
        write_bytes(folder / SOURCE, tokenizers.source.to_json().encode())
        write_bytes(folder / TARGET, tokenizers.target.to_json().encode())
    save_pairs(folder / "valid.jsonl", prepared.valid_pairs)
    if prepared.hashes is not None:
        save_fingerprint(folder, prepared.hashes)
    if prepared.words is not None:
        save_fingerprint(folder, prepared.words, WORDS_FILE)
    save_run(prepared, folder)


def save_run(prepared: Prepared, folder: Path) -> None:
    """Write run.json."""
    write_run(folder, prepared.recipe, data=prepared.data)


def load_prepared(folder: Path) -> Prepared:
    """Read the prepared text, to resume."""
    recipe, about = read_run(folder)
    assert isinstance(recipe, Recipe)
    if (folder / JOINT).exists():
        joint = Tokenizer.load(folder / JOINT)
        tokenizers = Tokenizers(joint, joint)
    else:
        tokenizers = Tokenizers(Tokenizer.load(folder / SOURCE), Tokenizer.load(folder / TARGET))
    train = EncodedCorpus.open(folder / "train")
    return Prepared(
        recipe=recipe,
        tokenizers=tokenizers,
        train=train,
        valid=EncodedCorpus.open(folder / "valid") if (folder / "valid").exists() else None,
        valid_pairs=load_pairs(folder / "valid.jsonl"),
        hashes=load_fingerprint(folder),
        words=load_fingerprint(folder, WORDS_FILE),
        data=about["data"],
        guide=_load_guide(folder / GUIDE, len(train.target.ids)),
    )


def _load_guide(path: Path, tokens: int) -> Ids | None:
    if not path.exists():
        return None
    try:
        guide = np.load(path, mmap_mode="r", allow_pickle=False)
        if guide.shape != (tokens,):
            raise ValueError(f"{guide.shape} is not one link for each of {tokens} tokens")
    except (OSError, ValueError, EOFError) as error:
        raise ModelFolderError(f"{path}: cannot be read ({error}): start a new training.") from None
    links: Ids = guide
    return links

"""Preparing a recipe and text in OUT/training; resuming needs nothing else.

run.json            version, recipe, description of the text; written last: without it nothing can be resumed
source.tokenizer.json, target.tokenizer.json, or tokenizer.json
train/, valid/      token ids, memory-mapped
guide.npy           for each target token of train/ its aligned source position, for guided attention
valid.jsonl         the validation sentences, for BLEU
training.fingerprint.npy, training.words.npy
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.config.settings import Recipe, TextSettings
from regard.data.text.aligner import align
from regard.data.text.build import build_corpus
from regard.data.text.corpus import EncodedCorpus, Ids
from regard.data.text.encoding import causes
from regard.data.text.hashes import Fingerprint
from regard.data.text.overlap import load_fingerprint, save_fingerprint
from regard.data.text.parallel import Pair
from regard.data.text.sources import (
    Tokenizers,
    load_pairs,
    overlap_warning,
    read_valid,
    save_pairs,
    scan_text,
    text_of,
    train_tokenizers,
)
from regard.data.text.texts import Text
from regard.data.text.workers import Workers, worker_count
from regard.errors import ModelFolderError
from regard.models.contract import NOWHERE
from regard.storage.card import skipped_text
from regard.storage.folder import WORDS_FILE
from regard.storage.run import read_run, write_run
from regard.training.begun import VALID, Begun, Ready, check_tag, forget, load_tokenizers, save_tokenizers
from regard.training.progress import Reporter, Steps

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
    """Check all text, train the subword tokenizer unless it is given, and only then write into the folder.

    A preparation that was killed while encoding left its folder: the same text and settings go on from there.
    """
    begun = Begun.of(recipe, text, valid_text, tokenizers)
    with Workers(worker_count(text.bytes)) as workers:
        ready = begun.load(folder)
        if ready is None:
            shutil.rmtree(folder, ignore_errors=True)
            ready = _read(recipe, text, valid_text, tokenizers, workers, reporter)
            folder.mkdir(parents=True)
            begun.save(folder, ready)
        else:
            reporter.say(f"going on with {text.description}, which was being encoded")
        return _encode(recipe, text, valid_text, folder, ready, workers, reporter, begun.kept)


def _read(
    recipe: Recipe,
    text: Text,
    valid_text: Text | None,
    tokenizers: Tokenizers | None,
    workers: Workers,
    reporter: Reporter,
) -> Ready:
    """Everything that is needed before the text can be encoded."""
    reporter.say(f"reading {text.description}")
    steps = Steps("reading", text.size, reporter)
    scan = scan_text(text, workers, duplicates=recipe.text.drop_duplicates, on_progress=steps)
    valid_pairs = [] if valid_text is None else read_valid(valid_text)
    if (warning := overlap_warning(valid_pairs, scan.hashes)) is not None:
        reporter.say(f"warning: {warning}")
    if tokenizers is None:
        reporter.working("learning the subwords")
        tokenizers = train_tokenizers(text, recipe, reporter.say)
    check_tag(text, tokenizers)
    return Ready(tokenizers, scan, valid_pairs)


def _encode(
    recipe: Recipe,
    text: Text,
    valid_text: Text | None,
    folder: Path,
    ready: Ready,
    workers: Workers,
    reporter: Reporter,
    keep: bool,
) -> Prepared:
    source, target = ready.tokenizers.source, ready.tokenizers.target
    train = build_corpus(
        text,
        source,
        target,
        folder / "train",
        recipe.text,
        workers=workers,
        duplicate=ready.scan.duplicate,
        keep=keep,
        on_progress=Steps("encoding", text.size, reporter),
    )
    data = {"train": _describe(text, train, recipe.text) | _describe_corpora(text, train)}
    valid = None
    if valid_text is not None:
        # Filters are for training: every validation pair that can be scored counts.
        plain = TextSettings(max_length=recipe.text.max_length)
        valid = build_corpus(text_of(ready.valid_pairs), source, target, folder / "valid", plain)
        data["valid"] = _describe(valid_text, valid, plain)
    reporter.say(_summary(data["train"], ready.tokenizers))
    if len(train) < FEW_PAIRS:
        reporter.say(
            f"warning: {len(train):,} pairs are very few: the model will overfit; use tens of thousands or more."
        )
    guide = _make_guide(train, ready.tokenizers, folder / GUIDE, reporter) if recipe.training.guided_attention else None
    return Prepared(
        recipe, ready.tokenizers, train, valid, ready.valid_pairs, ready.scan.hashes, ready.scan.words, data, guide
    )


def _make_guide(train: EncodedCorpus, tokenizers: Tokenizers, path: Path, reporter: Reporter) -> Ids:
    def say_share(share: float) -> None:
        reporter.working("aligning words", share)

    guide = align(train.source, train.target, tokenizers.source.size, tokenizers.target.size, say_share)
    np.save(path, guide)
    reporter.say(f"aligned words: {np.mean(guide != NOWHERE):.0%} of the target tokens are aligned")
    return guide


def _describe(text: Text, corpus: EncodedCorpus, settings: TextSettings) -> dict[str, Any]:
    return {
        "text": text.description,
        "pairs": len(corpus),
        **{f"skipped_{name}": getattr(corpus.skipped, name) for name in causes(settings)},
        "source_tokens": int(corpus.source_lengths.sum(dtype=np.int64)),
        "target_tokens": int(corpus.target_lengths.sum(dtype=np.int64)),
        "fingerprint": corpus.fingerprint,
    }


def _describe_corpora(text: Text, corpus: EncodedCorpus) -> dict[str, Any]:
    if len(text.corpora) == 1:
        return {}
    weights = text.weights or (None,) * len(text.corpora)
    parts = zip(text.corpora, corpus.parts, weights, strict=True)
    return {
        "corpora": [{"text": one.description, "pairs": pairs, "weight": weight} for one, pairs, weight in parts],
    }


def _summary(data: dict[str, Any], tokenizers: Tokenizers) -> str:
    sizes = f"{tokenizers.source.size:,} source and {tokenizers.target.size:,} target subwords"
    if tokenizers.source is tokenizers.target:
        sizes = f"{tokenizers.source.size:,} subwords for both languages"
    return (
        f"{data['pairs']:,} sentence pairs with {data['target_tokens']:,} target tokens; "
        f"skipped {skipped_text(data)}; {sizes}"
    )


def save_prepared(prepared: Prepared, folder: Path) -> None:
    """Write everything `load_prepared` needs except the token ids."""
    save_tokenizers(prepared.tokenizers, folder)
    save_pairs(folder / VALID, prepared.valid_pairs)
    if prepared.hashes is not None:
        save_fingerprint(folder, prepared.hashes)
    if prepared.words is not None:
        save_fingerprint(folder, prepared.words, WORDS_FILE)
    forget(folder)
    save_run(prepared, folder)


def save_run(prepared: Prepared, folder: Path) -> None:
    """Write run.json."""
    write_run(folder, prepared.recipe, data=prepared.data)


def load_prepared(folder: Path) -> Prepared:
    """Read the prepared text, to resume."""
    recipe, about = read_run(folder)
    assert isinstance(recipe, Recipe)
    tokenizers = load_tokenizers(folder)
    train = EncodedCorpus.open(folder / "train")
    return Prepared(
        recipe=recipe,
        tokenizers=tokenizers,
        train=train,
        valid=EncodedCorpus.open(folder / "valid") if (folder / "valid").exists() else None,
        valid_pairs=load_pairs(folder / VALID),
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

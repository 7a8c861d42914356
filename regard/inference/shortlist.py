"""`regard shortlist`: make the lexical shortlist of a model folder from its training text."""

from __future__ import annotations

from pathlib import Path

from regard.data.text.aligner import MOST_PAIRS, check_sizes
from regard.data.text.corpus import EncodedCorpus, EncodedSide
from regard.data.text.sources import Given, open_text, sample_pairs
from regard.decoding.shortlist import COMMON, LIKELY, Shortlist, make_shortlist
from regard.errors import ConfigError
from regard.inference.box import is_installed, model_folder
from regard.inference.folder import read_folder


def shortlist_folder(
    model: str | Path, text: Given | None = None, *, common: int = COMMON, likely: int = LIKELY
) -> Shortlist:
    """Write the shortlist of a model folder into it; by default it is learned from the text that training kept."""
    folder = own_folder(model)
    read = read_folder(folder)
    source, target = read.source_tokenizer, read.target_tokenizer
    check_sizes(source.size, target.size, f"for a shortlist of {folder}")
    if text is None:
        kept = folder / "training" / "train"
        if not kept.exists():
            raise ConfigError(f"{kept}: the training data is gone: give it with --train SOURCE TARGET.")
        corpus = EncodedCorpus.open(kept)
        sides = corpus.source, corpus.target
    else:
        given = open_text(text, "train")
        lines = sample_pairs(given, MOST_PAIRS)
        sides = EncodedSide.of(source.encode_many(lines[0])), EncodedSide.of(target.encode_many(lines[1]))
    made = make_shortlist(*sides, source, target, common=common, likely=likely)
    made.save(folder)
    return made


def own_folder(model: str | Path) -> Path:
    """The folder of a model that a shortlist may be written into; installed models are refused."""
    folder = model_folder(model)
    if is_installed(folder):
        raise ConfigError(
            f"{model}: installed models are read-only and keep no training text: copy {folder} to a folder of your "
            "own and name that, with --train SOURCE TARGET."
        )
    return folder

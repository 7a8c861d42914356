"""Lexical shortlist: restricts the output softmax to the probable target tokens of a batch.

The output layer takes about half of the decoding time. For a batch of sentences it is enough to score

* the special tokens and the most frequent tokens;
* for each source token its most probable translations (IBM Model 1), and the identical target token.

`columns` sorts them, special tokens first, so PAD, UNK, BOS and EOS keep their ids. The search uses column indices as
token ids. Probabilities are normalised over the columns.

A model folder keeps it as `shortlist.safetensors`, with a digest of the vocabularies. It is used without torch.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.config.vocabulary import EOS, SPECIAL_PIECES
from regard.data.text.corpus import EncodedSide
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ModelFolderError
from regard.storage.arrays import read_about, read_arrays, read_shapes
from regard.storage.files import write_arrays
from regard.storage.folder import SHORTLIST
from regard.storage.reading import exists

Ids = npt.NDArray[Any]

COMMON = 200  # most frequent target tokens, always included
LIKELY = 40  # translations per source token
COUNTED = 1 << 22  # tokens counted at once


@dataclass(frozen=True)
class Shortlist:
    """Probable target tokens by source token."""

    common: Ids  # (C,) int64, always scored, special tokens included
    likely: Ids  # (V_source, K) int32, padded with EOS
    digest: str  # of the vocabularies

    def columns(self, source: Ids, more: Ids | None = None) -> npt.NDArray[np.int64]:
        """The token ids to score for the sentences (B, S), sorted; `more` are always included."""
        wanted = [self.common, self.likely[np.unique(source)].ravel()]
        if more is not None:
            wanted.append(more.ravel())
        return np.unique(np.concatenate(wanted).astype(np.int64))

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        write_arrays(folder / SHORTLIST, {"common": self.common, "likely": self.likely}, {"digest": self.digest})


def make_shortlist(
    sources: EncodedSide,
    targets: EncodedSide,
    source: Tokenizer,
    target: Tokenizer,
    *,
    common: int = COMMON,
    likely: int = LIKELY,
) -> Shortlist:
    """Build the shortlist from parallel text."""
    import torch

    from regard.data.text.aligner import LEAST, MOST_PAIRS, learn, spaced

    indices = spaced(len(sources.lengths), MOST_PAIRS)
    counts = np.zeros(target.size, np.int64)
    for begin in range(0, len(targets.ids), COUNTED):
        counts += np.bincount(targets.ids[begin : begin + COUNTED], minlength=target.size)
    frequency = torch.from_numpy(counts)
    frequency[: len(SPECIAL_PIECES)] = torch.iinfo(torch.long).max  # always among them
    always = frequency.topk(min(target.size, common + len(SPECIAL_PIECES))).indices.sort().values
    table = learn(sources, targets, source.size, target.size, indices, rounds=0).table[:-1]
    best = table.topk(min(likely, target.size), dim=1)
    chosen = torch.where(best.values > LEAST, best.indices, EOS)
    alike = {target.piece(number): number for number in range(target.size)}
    twin = torch.tensor([alike.get(source.piece(number), EOS) for number in range(source.size)])
    rows = torch.cat([chosen, twin.unsqueeze(1)], 1).to(torch.int32)
    return Shortlist(always.numpy(), rows.numpy(), vocabulary_digest(source, target))


def read_shortlist(folder: Path, source: Tokenizer, target: Tokenizer) -> Shortlist | None:
    """The shortlist of a model folder, if it has one."""
    path = folder / SHORTLIST
    if not exists(path):
        return None
    remedy = f"make it again with `regard shortlist {folder} --train …`, or delete it"
    shapes, digest = read_shapes(path), read_about(path).get("digest", "")
    if shapes.keys() != {"common", "likely"} or [len(shapes[name]) for name in ("common", "likely")] != [1, 2]:
        raise ModelFolderError(f"{path}: is damaged (it holds other tensors): {remedy}.")
    if digest != vocabulary_digest(source, target) or shapes["likely"][0] != source.size:
        raise ModelFolderError(f"{path}: was made for another vocabulary: {remedy}.")
    if shapes["common"][0] > target.size or shapes["likely"][1] > target.size + 1:
        raise ModelFolderError(f"{path}: is damaged (it lists more pieces than there are): {remedy}.")
    arrays = read_arrays(path)
    common, likely = arrays["common"], arrays["likely"]
    for numbers, kind in ((common, np.int64), (likely, np.int32)):
        if numbers.dtype != kind or (numbers.size and not 0 <= numbers.min() <= numbers.max() < target.size):
            raise ModelFolderError(f"{path}: is damaged (it lists pieces that are none): {remedy}.")
    if not set(range(len(SPECIAL_PIECES))) <= set(common.tolist()):
        raise ModelFolderError(f"{path}: is damaged (the special pieces are missing): {remedy}.")
    return Shortlist(common, likely, digest)


def vocabulary_digest(source: Tokenizer, target: Tokenizer) -> str:
    """A digest of both vocabularies."""
    both = hashlib.sha256(source.to_json().encode())
    both.update(target.to_json().encode())
    return both.hexdigest()

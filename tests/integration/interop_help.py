"""Small Transformers, Marian folders and SentencePiece models for the tests of the doors."""

import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.config.models import TransformerSettings
from regard.config.settings import Recipe, SearchSettings, TextSettings, TrainingSettings
from regard.config.vocabulary import SPECIAL_PIECES
from regard.data.text.batches import collate
from regard.data.text.sentencepiece import SentencePieceTokenizer
from regard.data.text.tokenizer import Tokenizer
from regard.data.toy import toy_corpus
from regard.inference.folder import write_folder
from regard.inference.translator import Translator
from regard.models import build_model
from regard.models.contract import Batch
from regard.storage.weights import model_tensors

PAIRS = [(pair.source, pair.target) for pair in toy_corpus("phrases", "en-de").generate("train", 400, seed=0)]
LINES = [source for source, _ in PAIRS[:8]]
LENGTH = {"max_length_extra": 25, "max_length_ratio": 1e-9}  # at most 25 pieces, whatever the source


def sentencepiece_model(lines: list[str], size: int, **options: Any) -> bytes:
    """A model that the package sentencepiece trains."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs the extra dev")
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=written, vocab_size=size, minloglevel=2, num_threads=1, **options
    )
    return written.getvalue()


@cache
def own_tokenizers(joint: bool) -> tuple[Tokenizer, Tokenizer]:
    """Regard's own, one for both languages or two of other sizes."""
    text = TextSettings(vocabulary_size=380, joint=joint)
    source = Tokenizer.train([line for pair in PAIRS for line in (pair if joint else pair[:1])], text)
    return source, source if joint else Tokenizer.train([line for _, line in PAIRS], text, 360)


def transformer_folder(path: Path, *, joint: bool, seed: int = 1, **options: Any) -> Translator:
    """A Transformer of random weights whose sentences end, in a folder."""
    text = TextSettings(vocabulary_size=380, joint=joint)
    source, target = own_tokenizers(joint)
    settings = TransformerSettings(
        hidden_size=32, encoder_layers=1, decoder_layers=2, heads=4, feedforward_size=48, output_bias=True, **options
    )
    torch.manual_seed(seed)
    model = build_model(settings, source.size, target.size)
    batch = collate([source.encode(line) for line, _ in PAIRS[:8]], [target.encode(line) for _, line in PAIRS[:8]])
    memorise(model, lambda: model.project(model.forward(batch).hidden)[batch.target_mask], target_of(batch))
    recipe = Recipe(model=settings, text=text, training=TrainingSettings(epochs=1), search=SearchSettings(beam=4))
    write_folder(
        path,
        recipe=recipe,
        source_tokenizer=source,
        target_tokenizer=target,
        weights=model_tensors(model),
        metrics={},
        card="",
    )
    return Translator.load(path)


def target_of(batch: Batch) -> torch.Tensor:
    """The real target tokens."""
    return batch.target_out[batch.target_mask]


def memorise(model: nn.Module, logits: Callable[[], torch.Tensor], target: torch.Tensor) -> None:
    """Learn a few sentences roughly, so that translations vary and end, as those of random weights do not."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:  # all weights shall matter
            nn.init.normal_(parameter, 1.0 if name.endswith("weight") else 0.0, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(70):
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits(), target).backward()
        optimizer.step()


def marian_files(path: Path) -> dict[str, int]:
    """source.spm, target.spm and vocab.json; the vocabulary lacks two pieces, and has a code."""
    path.mkdir(parents=True)
    names: list[str] = []
    for side, column, size in (("source", 0, 110), ("target", 1, 120)):
        model = sentencepiece_model([pair[column] for pair in PAIRS], size)
        (path / f"{side}.spm").write_bytes(model)
        tokenizer = SentencePieceTokenizer(model, side)
        names += [tokenizer.piece(number) for number in range(len(SPECIAL_PIECES), tokenizer.size)]
    left_out = {names[3], names[9]}
    pieces = [piece for piece in dict.fromkeys(names) if piece not in left_out]
    vocabulary = {piece: number for number, piece in enumerate(["</s>", "<unk>", *pieces, ">>de<<", "<pad>"])}
    (path / "vocab.json").write_text(json.dumps(vocabulary))
    return vocabulary

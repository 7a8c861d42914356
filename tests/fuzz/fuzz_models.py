"""Small folders of every kind, and files that a hostile one may hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config.captioning import CaptionRecipe
from regard.config.classification import ClassifierRecipe
from regard.config.recipes import check_as, check_recipe
from regard.config.settings import TextSettings
from regard.data.text.corpus import EncodedSide
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.shortlist import make_shortlist
from regard.inference.captioner import Captioner
from regard.inference.classifier import Classifier
from regard.inference.folder import write_folder
from regard.interop.compact import export_compact
from regard.models import build_model
from regard.models.image_classifier import Network
from regard.models.show_attend_tell import ShowAttendTell
from regard.storage.weights import model_tensors

LINES = ["ein Haus", "das Haus ist alt", "der Mann liest", "ein Buch 12", "das ist <s> ein Buch"]
WORDS = TextSettings(tokenizer="word", min_frequency=1)
METRICS: dict[str, Any] = {
    "parameters": 100,
    "source_vocabulary": 10,
    "target_vocabulary": 10,
    "updates": 1,
    "epochs": 1.0,
    "tokens": 5,
    "seconds": 2.0,
    "machine": {"cpu": "x", "threads": 1},
    "data": {"train": {"text": "toy:phrases:de-en", "data": "toy:scenes", "images": 3, "pairs": 3, "target_tokens": 9}},
    "valid": {"loss": 1.5, "bleu": 20.0, "bleu_signature": "x", "accuracy": 0.5},
}
MODELS: dict[str, dict[str, Any]] = {
    "bahdanau": {"embedding_size": 4, "hidden_size": 6, "attention_size": 5, "maxout_size": 4},
    "luong": {"embedding_size": 4, "hidden_size": 6, "layers": 1, "window": "local-p", "score": "location"},
    "transformer": {
        "hidden_size": 8,
        "heads": 2,
        "feedforward_size": 8,
        "encoder_layers": 1,
        "decoder_layers": 2,
    },
}
IMAGES: dict[str, dict[str, Any]] = {
    "resnet": {"channels": [4, 8], "blocks": 1, "attention": "bam", "reduction": 2},
    "vit": {"patch_size": 4, "hidden_size": 8, "layers": 1, "heads": 2, "feedforward_size": 8},
}


def write_all(out: Path) -> list[Path]:
    """A folder of each kind."""
    torch.manual_seed(0)
    for kind, sizes in MODELS.items():
        joint = kind == "transformer"
        text = {"tokenizer": "bpe", "vocabulary_size": 300, "min_frequency": 1, "joint": True} if joint else {}
        table = {"model": {"kind": kind, **sizes}, "text": text, "training": {"updates": 1}}
        recipe = check_recipe(table, "fuzz")
        source = Tokenizer.train(LINES, recipe.text if joint else WORDS)
        target = source if joint else Tokenizer.train(["a house", "the man reads"], WORDS)
        write_folder(
            out / kind,
            recipe=recipe,
            source_tokenizer=source,
            target_tokenizer=target,
            weights=model_tensors(build_model(recipe.model, source.size, target.size)),
            metrics=METRICS,
            card="# fuzz\n",
            fingerprint=np.array([1, 2], np.uint64),
        )
        sides = (
            EncodedSide.of(source.encode_many(LINES)),
            EncodedSide.of(target.encode_many(["a house"] * len(LINES))),
        )
        make_shortlist(*sides, source, target, common=2, likely=2).save(out / kind)
    for kind, sizes in IMAGES.items():
        look = check_as(ClassifierRecipe, {"model": {"kind": kind, **sizes}, "training": {"updates": 1}}, "fuzz")
        network = Network(look.model, (3, 8, 8), 2)
        Classifier(network, look, (3, 8, 8), ("cat", "dog"), metrics=METRICS).save(out / kind)
    sizes = {"image_size": 8, "channels": [4], "embedding_size": 4, "hidden_size": 6, "attention_size": 4}
    tell = check_as(CaptionRecipe, {"model": {"kind": "captioner", **sizes}, "training": {"updates": 1}}, "fuzz")
    words = Tokenizer.train(LINES, WORDS)
    metrics = METRICS | {"data": {"train": {"data": "toy:scenes", "captions": 3, "skipped_blank": 0}}}
    Captioner(ShowAttendTell(tell.model, words.size), tell, words, metrics=metrics).save(out / "captioner")
    export_compact(out / "transformer", out / "compact")
    return [out / name for name in (*MODELS, *IMAGES, "captioner", "compact")]


def own_tokenizers() -> list[Any]:
    """The tokenizer.json of each kind that Regard trains."""
    kinds = ("bpe", "unigram", "wordpiece", "word", "character")
    settings = [TextSettings(tokenizer=kind, min_frequency=1, vocabulary_size=300) for kind in kinds]
    return [json.loads(Tokenizer.train(LINES, each).to_json()) for each in settings]


def foreign_tokenizers() -> list[Any]:
    """Renumbered files of the library `tokenizers`, as a model folder holds them, and a SentencePiece model."""
    import io

    import sentencepiece
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    from regard.data.text.foreign import read_tokenizer_file
    from regard.data.text.sentencepiece import SentencePieceTokenizer

    byte_level = tokenizers.Tokenizer(models.BPE())
    byte_level.pre_tokenizer, byte_level.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    byte_level.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=60, show_progress=False))
    pieces = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    pieces.normalizer, pieces.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    pieces.decoder = decoders.WordPiece()
    pieces.train_from_iterator(
        LINES, trainers.WordPieceTrainer(vocab_size=60, special_tokens=["[UNK]"], show_progress=False)
    )
    unigram = tokenizers.Tokenizer(models.Unigram([("<unk>", 0.0), ("▁", -1.0), ("Haus", -2.0), ("a", -3.0)], 0))
    unigram.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")])
    unigram.pre_tokenizer, unigram.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    found = []
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for made in (byte_level, pieces, unigram):
            made.save(f"{folder}/tokenizer.json")
            found.append(json.loads(read_tokenizer_file(f"{folder}/tokenizer.json").to_json()))
    for kind in ("unigram", "bpe"):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(LINES * 20),
            model_writer=model,
            vocab_size=45,
            model_type=kind,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        found.append(json.loads(SentencePieceTokenizer(model.getvalue(), "fuzz").to_json()))
    return found


PARTS: list[Any] = [
    {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaa"},
    {"type": "Replace", "pattern": {"Regex": "(a|a)*$"}, "content": ""},
    {"type": "Replace", "pattern": {"Regex": ""}, "content": "aa"},
    {"type": "Replace", "pattern": {"Regex": "[a"}, "content": "aa"},
    {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 60},
    {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
    {"type": "Precompiled", "precompiled_charsmap": "/////wAAAAA="},
    {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8AYQA="},
    {"type": "Precompiled", "precompiled_charsmap": None},
    *({"type": name} for name in ("NFKC", "Nmt", "Lowercase", "StripAccents", "Strip", "ByteLevel", "Whitespace")),
    *({"type": name} for name in ("Fuse", "ByteFallback", "BertProcessing", "UnicodeScripts", "Digits", "Metaspace")),
    {"type": "Prepend", "prepend": ""},
    {"type": "Split", "pattern": {"Regex": "(a+)+b"}, "behavior": "Isolated", "invert": False},
    {"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": False},
    {"type": "FixedLength", "length": 0},
    {"type": "CharDelimiterSplit", "delimiter": ""},
    {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "x"},
    {"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 9},
    {
        "id": 2**31,
        "content": "x",
        "single_word": True,
        "lstrip": True,
        "rstrip": True,
        "normalized": True,
        "special": False,
    },
    {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}},
    *("BPE", "Unigram", "WordPiece", "WordLevel", "Removed", "MergedWithNext"),
]

"""Exports a Transformer as a Hugging Face Marian model, for `MarianMTModel.from_pretrained`.

Marian supports every option of our Transformer except `norm = "pre"`. SentencePiece tokenizers are exported as
`source.spm` and `target.spm`, others as `tokenizer.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from regard import __version__
from regard.config.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES
from regard.data.text.foreign import LibraryTokenizer
from regard.data.text.sentencepiece import SentencePieceTokenizer
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ModelFolderError
from regard.interop.marian_names import DECODER_WORDS, ENCODER_WORDS, OUTPUT, OUTPUT_BIAS, SHARED, layer_names
from regard.interop.outgoing import Outgoing, pieces, read_transformer, with_positions_in_halves
from regard.storage.files import new_folder, write_bytes, write_json, write_tensors
from regard.storage.folder import CARD, CONFIG, WEIGHTS

SPECIAL = dict(zip(("pad_token", "unk_token", "bos_token", "eos_token"), SPECIAL_PIECES, strict=True))
MAX_POSITIONS = 1024


def export_huggingface(path: Path, out: Path) -> None:
    """Write the folder of a Marian model."""
    model = read_transformer(path, "huggingface")
    if model.settings.norm != "post":
        raise ModelFolderError(
            f'{path}: was trained with model.norm = "pre"; Marian models are post-norm: '
            "export it to ctranslate2 or onnx."
        )
    with new_folder(out) as folder:
        write_tensors(folder / WEIGHTS, _tensors(model))
        write_json(folder / CONFIG, _config(model))
        write_json(folder / "generation_config.json", _generation(model))
        how = _write_tokenizers(model, folder)
        write_bytes(folder / CARD, _card(path, how).encode())


def _tensors(model: Outgoing) -> dict[str, torch.Tensor]:
    settings, tensors = model.settings, dict(model.tensors)
    if settings.positions == "interleaved":
        tensors = with_positions_in_halves(tensors, settings.hidden_size)
    written: dict[str, torch.Tensor] = {}
    for ours, theirs in layer_names(settings.encoder_layers, settings.decoder_layers):
        # attention may have no biases
        whole = tensors[ours] if ours in tensors else torch.zeros(len(theirs) * settings.hidden_size)
        written |= {name: part.clone() for name, part in zip(theirs, whole.chunk(len(theirs)), strict=True)}
    if settings.tie_embeddings == "all":
        written[SHARED] = tensors["embeddings.target.weight"]
    else:
        written[ENCODER_WORDS] = tensors["embeddings.source.weight"]
        written[DECODER_WORDS] = tensors["embeddings.target.weight"]
    if settings.tie_embeddings == "none":
        written[OUTPUT] = tensors["embeddings.output_weight"]
    size = tensors["embeddings.output_weight"].size(0)
    written[OUTPUT_BIAS] = tensors.get("embeddings.output_bias", torch.zeros(size)).unsqueeze(0)
    return written


def _config(model: Outgoing) -> dict[str, Any]:
    settings, folder = model.settings, model.folder
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": folder.source_tokenizer.size,
        "decoder_vocab_size": folder.target_tokenizer.size,
        "share_encoder_decoder_embeddings": settings.tie_embeddings == "all",
        "tie_word_embeddings": settings.tie_embeddings != "none",
        "d_model": settings.hidden_size,
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "encoder_attention_heads": settings.heads,
        "decoder_attention_heads": settings.heads,
        "encoder_ffn_dim": settings.feedforward_size,
        "decoder_ffn_dim": settings.feedforward_size,
        "activation_function": settings.activation,
        "dropout": settings.dropout,
        "scale_embedding": settings.scale_embeddings,
        "static_position_embeddings": True,
        "max_position_embeddings": MAX_POSITIONS,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "forced_eos_token_id": None,
        "decoder_start_token_id": model.settings.start_id,
    }


def _generation(model: Outgoing) -> dict[str, Any]:
    return {
        "num_beams": model.folder.recipe.search.beam,
        "max_length": 512,
        "bad_words_ids": [[PAD], [BOS]],
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": model.settings.start_id,
    }


# --- tokenizers ---------------------------------------------------------------------------------------------------


def _write_tokenizers(model: Outgoing, folder: Path) -> str:
    """Write the tokenizer files; return the Python code that loads them."""
    source, target = model.folder.source_tokenizer, model.folder.target_tokenizer
    models = [tokenizer.model for tokenizer in (source, target) if isinstance(tokenizer, SentencePieceTokenizer)]
    if len(models) == 1:
        raise ModelFolderError(
            "only one language has a SentencePiece model: a Hugging Face folder needs the same tokenizer type for both."
        )
    if models:
        write_bytes(folder / "source.spm", models[0])
        write_bytes(folder / "target.spm", models[1])
        separate = pieces(source) != pieces(target)
        write_json(folder / "vocab.json", _numbers(source))
        if separate:
            write_json(folder / "target_vocab.json", _numbers(target))
        about = {name: piece for name, piece in SPECIAL.items() if name != "bos_token"}
        write_json(
            folder / "tokenizer_config.json",
            {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate, "model_max_length": 512, **about},
        )
        return 'tokenizer = target = AutoTokenizer.from_pretrained(".")'
    _write_fast(source, folder)
    if model.joint:
        return 'tokenizer = target = AutoTokenizer.from_pretrained(".")'
    _write_fast(target, folder / "target")
    return 'tokenizer = AutoTokenizer.from_pretrained(".")\ntarget = AutoTokenizer.from_pretrained("./target")'


def _numbers(tokenizer: Tokenizer) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(pieces(tokenizer))}


def _write_fast(tokenizer: Tokenizer, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    content = json.loads(tokenizer.to_json())
    if isinstance(tokenizer, LibraryTokenizer):
        content = tokenizer.to_tokenizers()
    write_json(folder / "tokenizer.json", content)
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **SPECIAL}
    write_json(folder / "tokenizer_config.json", about)


def _card(path: Path, load: str) -> str:
    return f"""---
library_name: transformers
pipeline_tag: translation
---

# {path.resolve().name}

A Transformer trained with Regard, exported as a Marian model by Regard {__version__}.

```python
from transformers import AutoTokenizer, MarianMTModel

model = MarianMTModel.from_pretrained(".")
{load}
batch = tokenizer(["…"], return_tensors="pt", padding=True, return_token_type_ids=False)
print(target.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

The length penalty differs: length to the power of `length_penalty` here, GNMT's penalty in Regard. Hypotheses with
nearly equal scores may be ranked differently. Text that contains a special token such as `</s>` is tokenised
differently.
"""

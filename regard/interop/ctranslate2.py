"""A Transformer as a CTranslate2 model, which takes every option of ours; it has no tokenizer of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import __version__
from regard.config.models import TransformerSettings
from regard.data.text.pieces import SPECIAL_PIECES
from regard.data.text.tokenizer import BOS, PAD, Tokenizer
from regard.errors import ConfigError
from regard.interop.outgoing import pieces, read_transformer, start_id
from regard.models.transformer import position_table
from regard.storage.files import new_folder, write_bytes
from regard.storage.folder import CARD

ACTIVATIONS = {"relu": "RELU", "silu": "SWISH", "gelu": "GELU"}
MAX_POSITIONS = 2048
NEVER = -1e4  # the output bias of <pad> and <s>, which our search forbids


def export_ctranslate2(path: Path, out: Path) -> None:
    """Write a folder that `ctranslate2.Translator` loads, with the tokenizer beside it."""
    import_ctranslate2()
    model = read_transformer(path, "ctranslate2")
    folder = model.folder
    spec = transformer_spec(model.settings, model.tensors, folder.source_tokenizer, folder.target_tokenizer)
    with new_folder(out) as new:
        spec.save(str(new))
        for name, content in model.tokenizer_files().items():
            write_bytes(new / name, content.encode())
        write_bytes(new / CARD, _card(path, list(model.tokenizer_files())).encode())


def import_ctranslate2() -> Any:
    """The library, which is optional."""
    try:
        import ctranslate2
    except ImportError:
        raise ConfigError("ctranslate2 is not installed: pip install 'regard[interop]'.") from None
    return ctranslate2


def transformer_spec(
    settings: TransformerSettings, tensors: Mapping[str, Tensor], source: Tokenizer, target: Tokenizer
) -> Any:
    """A Transformer as CTranslate2 describes it, ready to be saved; tied weights have each of their names."""
    specs = import_ctranslate2().specs
    layer = max(0, settings.decoder_layers - 2) if settings.alignment_layer is None else settings.alignment_layer
    spec = specs.TransformerSpec.from_config(
        (settings.encoder_layers, settings.decoder_layers),
        settings.heads,
        pre_norm=settings.norm == "pre",
        activation=specs.Activation[ACTIVATIONS[settings.activation]],
        alignment_layer=layer,
        alignment_heads=settings.heads,
    )
    table = position_table(MAX_POSITIONS, settings.hidden_size, settings.positions, torch.float32, torch.device("cpu"))
    spec.encoder.embeddings[0].weight = _array(tensors["embeddings.source.weight"])
    spec.decoder.embeddings.weight = _array(tensors["embeddings.target.weight"])
    for side, own in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        own.scale_embeddings = settings.scale_embeddings
        own.position_encodings.encodings = _array(table)
        if settings.norm == "pre":
            _norm(own.layer_norm, tensors, f"{side}_norm")
        for number, layer_spec in enumerate(own.layer):
            _layer(layer_spec, tensors, f"{side}.{number}", settings.hidden_size)
    weight = tensors["embeddings.output_weight"]
    bias = tensors.get("embeddings.output_bias", torch.zeros(weight.size(0))).clone()
    bias[[PAD, BOS]] = NEVER
    spec.decoder.projection.weight, spec.decoder.projection.bias = _array(weight), _array(bias)
    spec.register_source_vocabulary(pieces(source))
    spec.register_target_vocabulary(pieces(target))
    spec.config.decoder_start_token = SPECIAL_PIECES[start_id(settings)]
    spec.config.layer_norm_epsilon = 1e-5
    spec.validate()
    return spec


def _layer(spec: Any, tensors: Any, name: str, size: int) -> None:
    attention = f"{name}.self_attention"
    _linear(spec.self_attention.linear[0], tensors, attention)
    _linear(spec.self_attention.linear[1], tensors, f"{attention}.output")
    _norm(spec.self_attention.layer_norm, tensors, f"{name}.self_norm")
    if f"{name}.cross_attention.weight" in tensors:
        attention = f"{name}.cross_attention"
        _linear(spec.attention.linear[0], tensors, attention, slice(None, size))  # queries
        _linear(spec.attention.linear[1], tensors, attention, slice(size, None))  # keys and values
        _linear(spec.attention.linear[2], tensors, f"{attention}.output")
        _norm(spec.attention.layer_norm, tensors, f"{name}.cross_norm")
    _linear(spec.ffn.linear_0, tensors, f"{name}.feedforward.inner")
    _linear(spec.ffn.linear_1, tensors, f"{name}.feedforward.outer")
    _norm(spec.ffn.layer_norm, tensors, f"{name}.feedforward_norm")


def _linear(spec: Any, tensors: Any, name: str, rows: slice = slice(None)) -> None:
    spec.weight = _array(tensors[f"{name}.weight"][rows])
    if f"{name}.bias" in tensors:
        spec.bias = _array(tensors[f"{name}.bias"][rows])


def _norm(spec: Any, tensors: Any, name: str) -> None:
    spec.gamma, spec.beta = _array(tensors[f"{name}.weight"]), _array(tensors[f"{name}.bias"])


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().contiguous().numpy()


def _card(path: Path, files: list[str]) -> str:
    return f"""# {path.resolve().name}

A Transformer trained with Regard, written for CTranslate2 by Regard {__version__}. A source sentence is the pieces of
Regard's tokenizer, `</s>` at its end included.

```python
import ctranslate2
from regard.data.text.tokenizer import Tokenizer

source, target = Tokenizer.load("{files[0]}"), Tokenizer.load("{files[-1]}")
numbers = {{target.piece(number): number for number in range(target.size)}}
pieces = [source.piece(number) for number in source.encode("…")]
result = ctranslate2.Translator(".").translate_batch([pieces], beam_size=5)[0]
print(target.decode(numbers[piece] for piece in result.hypotheses[0]))
```

Beam search here divides by the length to the power of `length_penalty`, Regard by GNMT's penalty, so that of beams
of nearly the same score another may win. A sentence may have {MAX_POSITIONS} pieces.
"""

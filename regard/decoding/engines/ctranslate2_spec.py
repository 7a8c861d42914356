"""A Transformer in CTranslate2's format, which supports every option of Regard's; it includes no tokenizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.config.vocabulary import BOS, PAD, SPECIAL_PIECES
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.engines.ctranslate2_file import (
    ACTIVATIONS,
    EPSILON,
    MAX_POSITIONS,
    alignment_layer,
    all_pieces,
    import_ctranslate2,
)
from regard.models.contract import TransformerWeights
from regard.nn.positions import position_table

NEVER = -1e4  # output bias of <pad> and <s>, which are never produced


def transformer_spec(weights: TransformerWeights, source: Tokenizer, target: Tokenizer) -> Any:
    """The CTranslate2 model spec of a Transformer."""
    settings, tensors = weights.settings, weights.tensors
    specs = import_ctranslate2().specs
    spec = specs.TransformerSpec.from_config(
        (settings.encoder_layers, settings.decoder_layers),
        settings.heads,
        pre_norm=settings.norm == "pre",
        activation=specs.Activation[ACTIVATIONS[settings.activation][0]],
        alignment_layer=alignment_layer(settings),
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
    spec.register_source_vocabulary(all_pieces(source))
    spec.register_target_vocabulary(all_pieces(target))
    spec.config.decoder_start_token = SPECIAL_PIECES[settings.start_id]
    spec.config.layer_norm_epsilon = EPSILON
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
    """A copy: CTranslate2 quantises in place, which must not reach the model's own weights."""
    return tensor.detach().float().cpu().contiguous().numpy().copy()

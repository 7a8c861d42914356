"""Whether a folder holds this Transformer in CTranslate2's format.

CTranslate2 trusts its files: a shape that does not fit would let it read beyond its buffers. So every name, shape, type
and scalar of an untrusted file is compared with those of the model first. Weights may have any values.

The format of model.bin, little-endian: version, name and revision of the specification; the number of variables, and
each as name, shape, type, bytes; the number of aliases, and each as two names.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

from regard.config.models import TransformerSettings
from regard.config.vocabulary import SPECIAL_PIECES
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ConfigError, ModelFolderError
from regard.storage.reading import CONFIG_BYTES, TOKENIZER_BYTES, open_regular, parse_json, read_bounded

VERSION, NAME, REVISION = 6, "TransformerSpec", 7
FLOAT32, INT8, INT16 = 0, 1, 2
SIZES = {FLOAT32: 4, INT8: 1, INT16: 2}  # bytes by type
MAX_POSITIONS = 2048
ACTIVATIONS = {"relu": ("RELU", 0), "silu": ("SWISH", 2), "gelu": ("GELU", 3)}
EPSILON = 1e-5  # of layer normalisation

Variable = tuple[tuple[int, ...], int, bytes | None]
"""Shape, type, and the value of a scalar."""


def import_ctranslate2() -> Any:
    """Import the optional library; of it, only `specs` imports torch."""
    try:
        import ctranslate2
    except ImportError:
        raise ConfigError("ctranslate2 is not installed: pip install ctranslate2.") from None
    return ctranslate2


def is_transformer(
    folder: Path, settings: TransformerSettings, source: Tokenizer, target: Tokenizer, *, int8: bool
) -> bool:
    """Whether the files of a folder are those of this model."""
    try:
        if _read_variables(folder / "model.bin") != expected_variables(settings, source.size, target.size, int8=int8):
            return False
        if parse_json(read_bounded(folder / "config.json", CONFIG_BYTES)) != expected_config(settings):
            return False
        pieces = {"source": source, "target": target} if source != target else {"shared": source}
        return all(
            parse_json(read_bounded(folder / f"{side}_vocabulary.json", TOKENIZER_BYTES)) == all_pieces(tokenizer)
            for side, tokenizer in pieces.items()
        )
    except (ModelFolderError, OSError, ValueError, KeyError, struct.error):
        return False


def all_pieces(tokenizer: Tokenizer) -> list[str]:
    """The pieces by id."""
    return [tokenizer.piece(number) for number in range(tokenizer.size)]


def expected_config(settings: TransformerSettings) -> dict[str, object]:
    """CTranslate2's config.json."""
    return {
        "add_source_bos": False,
        "add_source_eos": False,
        "bos_token": "<s>",
        "decoder_start_token": SPECIAL_PIECES[settings.start_id],
        "eos_token": "</s>",
        "layer_norm_epsilon": EPSILON,
        "multi_query_attention": False,
        "unk_token": "<unk>",
    }


def alignment_layer(settings: TransformerSettings) -> int:
    """The decoder layer, from 0, whose cross attention is the alignment."""
    return max(0, settings.decoder_layers - 2) if settings.alignment_layer is None else settings.alignment_layer - 1


def expected_variables(settings: TransformerSettings, source: int, target: int, *, int8: bool) -> dict[str, Variable]:
    """Every variable of model.bin for vocabularies of these sizes."""
    size, inner = settings.hidden_size, settings.feedforward_size
    variables: dict[str, Variable] = {}

    def matrix(name: str, rows: int, columns: int, bias: bool = False) -> None:
        variables[f"{name}/weight"] = (rows, columns), INT8 if int8 else FLOAT32, None
        if int8:
            variables[f"{name}/weight_scale"] = (rows,), FLOAT32, None
        if bias:
            variables[f"{name}/bias"] = (rows,), FLOAT32, None

    def norm(name: str) -> None:
        for part in ("beta", "gamma"):
            variables[f"{name}/layer_norm/{part}"] = (size,), FLOAT32, None

    def attention(name: str, *rows: int) -> None:
        for number, count in enumerate(rows):
            matrix(f"{name}/linear_{number}", count, size, settings.attention_bias)
        norm(name)

    matrix("encoder/embeddings_0", source, size)
    matrix("decoder/embeddings", target, size)
    matrix("decoder/projection", target, size, bias=True)
    for side, layers in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        variables[f"{side}/position_encodings/encodings"] = (MAX_POSITIONS, size), FLOAT32, None
        if settings.norm == "pre":
            norm(side)
        for layer in (f"{side}/layer_{number}" for number in range(layers)):
            attention(f"{layer}/self_attention", 3 * size, size)
            if side == "decoder":
                attention(f"{layer}/attention", size, 2 * size, size)
            matrix(f"{layer}/ffn/linear_0", inner, size, bias=True)
            matrix(f"{layer}/ffn/linear_1", size, inner, bias=True)
            norm(f"{layer}/ffn")
    for name, kind, value in _scalars(settings):
        variables[name] = (), kind, value.to_bytes(SIZES[kind], "little")
    return variables


def _scalars(settings: TransformerSettings) -> list[tuple[str, int, int]]:
    """Name, type and value."""
    both = [
        ("activation", INT8, ACTIVATIONS[settings.activation][1]),
        ("num_heads", INT16, settings.heads),
        ("pre_norm", INT8, int(settings.norm == "pre")),
        ("scale_embeddings", INT8, int(settings.scale_embeddings)),
    ]
    off = ["decoder/alibi", "decoder/alibi_use_positive_positions", "decoder/scale_alibi"]
    off += ["decoder/start_from_zero_embedding", "encoder/embeddings_merge", "encoder/multi_query_attention"]
    return [
        *((f"{side}/{name}", kind, value) for side in ("encoder", "decoder") for name, kind, value in both),
        ("decoder/alignment_heads", INT16, settings.heads),
        ("decoder/alignment_layer", INT16, alignment_layer(settings)),
        *((name, INT8, 0) for name in off),
    ]


def _read_variables(path: Path) -> dict[str, Variable]:
    """The variables of model.bin, aliases included, without their weights; anything odd raises ValueError."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if (_number(file, "I"), _text(file), _number(file, "I")) != (VERSION, NAME, REVISION):
            raise ValueError("another version")
        variables: dict[str, Variable] = {}
        for _ in range(_number(file, "I")):
            name, shape = _text(file), tuple(_number(file, "I") for _ in range(_number(file, "B")))
            kind, count, expected = _number(file, "B"), _number(file, "I"), 1
            for each in shape:
                expected *= each
            if count != expected * SIZES[kind] or name in variables or file.tell() + count > size:
                raise ValueError(name)
            variables[name] = shape, kind, None if shape else file.read(count)
            file.seek(count if shape else 0, os.SEEK_CUR)
        own = dict(variables)
        for _ in range(_number(file, "I")):
            alias, name = _text(file), _text(file)
            if alias in variables:
                raise ValueError(alias)
            variables[alias] = own[name]
            if f"{name}_scale" in own:  # goes with it
                variables[f"{alias}_scale"] = own[f"{name}_scale"]
        if file.tell() != size:
            raise ValueError("more than a model")
        return variables


def _number(file: BinaryIO, code: str) -> int:
    value: int = struct.unpack(f"<{code}", file.read(struct.calcsize(f"<{code}")))[0]
    return value


def _text(file: BinaryIO) -> str:
    """A string after its length, closed by a zero byte."""
    raw = file.read(_number(file, "H"))
    if not raw.endswith(b"\0"):
        raise ValueError("no text")
    return raw[:-1].decode()

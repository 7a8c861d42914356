"""Tokenizers of SentencePiece models (.spm, .model), run by the package `sentencepiece`.

Regard maps the ids: its special pieces come first, and a Marian model numbers the pieces by a vocab.json that may lack
some of them. Regard also decodes, from the text of each piece, because it can replace unknown pieces and needs the
character span of every token.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from regard.config.vocabulary import SPECIAL_PIECES, UNK
from regard.data.text.checked import check_piece, check_rules
from regard.data.text.foreign import ForeignTokenizer
from regard.data.text.pieces import BYTE_PIECES, MARKER
from regard.data.text.words import Span
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

Kind = Literal["unigram", "bpe", "word", "character"]
KINDS: dict[int, Kind] = {1: "unigram", 2: "bpe", 3: "word", 4: "character"}
REMEDY = "give a .spm or .model file that SentencePiece wrote"


class SentencePieceTokenizer(ForeignTokenizer):
    """Segments text with a SentencePiece model; a vocabulary, if given, determines the ids."""

    model: bytes
    """The model file."""
    kind: Kind

    def __init__(self, model: bytes, where: str, vocabulary: Sequence[str] | None = None) -> None:
        self.model = model
        self._processor, self.kind, names = _load(model, where)
        numbers = range(len(names))
        cut = [number for number in numbers if self._is_cut(number)]
        if vocabulary is None:
            vocabulary = list(dict.fromkeys([*SPECIAL_PIECES, *(names[number] for number in cut)]))
        about = {"vocabulary": list(vocabulary), "sentencepiece": base64.b64encode(model).decode()}
        has_bytes = any(map(self._processor.is_byte, numbers))
        byte_of = {piece: bytes([byte]) for byte, piece in enumerate(BYTE_PIECES)} if has_bytes else {}
        super().__init__(
            json.dumps({"regard": about}, ensure_ascii=False),
            vocabulary,
            [byte_of.get(piece, piece.replace(MARKER, " ").encode()) for piece in vocabulary],
            says_unknown=not set(BYTE_PIECES) <= set(vocabulary),
        )
        ours = {piece: number for number, piece in enumerate(vocabulary) if number >= len(SPECIAL_PIECES)}
        self._ids = [UNK] * len(names)  # by SentencePiece's ids
        for number in cut:
            self._ids[number] = ours.get(names[number], UNK)

    def _is_cut(self, number: int) -> bool:
        """Whether segmentation can produce this piece."""
        model = self._processor
        return not (model.is_unknown(number) or model.is_control(number) or model.is_unused(number))

    def _cut(self, lines: Sequence[str]) -> list[list[int]]:
        # line by line: SentencePiece starts its own threads for a list
        return [[self._ids[number] for number in self._processor.encode(line)] for line in lines]

    def _cut_placed(self, line: str) -> tuple[list[int], list[Span]]:
        found: Any = self._processor.encode(line, return_type="offset_mapping")
        numbers, spans = found["ids"], list(found["offsets"])
        for place in range(len(spans) - 2, -1, -1):
            # SentencePiece assigns a character to its last byte piece; here every byte piece gets its span
            if self._processor.is_byte(numbers[place]) and spans[place] == (spans[place + 1][0],) * 2:
                spans[place] = spans[place + 1]
        return [self._ids[number] for number in numbers], spans


def _load(model: bytes, where: str) -> tuple[SentencePieceProcessor, Kind, list[str]]:
    """The loaded model, its type and its pieces."""
    try:
        from sentencepiece import SentencePieceProcessor
        from sentencepiece.sentencepiece_model_pb2 import ModelProto
    except ModuleNotFoundError as error:
        missing = "protobuf" if (error.name or "").startswith("google") else error.name
        raise ConfigError(f"SentencePiece models need the package {missing}: pip install 'regard[interop]'.") from None
    processor = SentencePieceProcessor()
    try:
        about = ModelProto.FromString(model)
        if not about.pieces:
            raise DataError(f"{where}: not a SentencePiece model (it has no pieces): {REMEDY}.")
        check_rules(about.normalizer_spec.precompiled_charsmap)
        for piece in about.pieces:
            check_piece(piece.piece, piece.score)
        processor.LoadFromSerializedProto(model)
        names = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    except DataError:
        raise
    except Exception:  # protobuf's DecodeError, the RuntimeError of sentencepiece, or a piece that is not UTF-8
        raise DataError(f"{where}: not a SentencePiece model, or damaged: {REMEDY}.") from None
    if about.denormalizer_spec.precompiled_charsmap:
        raise DataError(
            f"{where}: has denormalisation rules, which Regard does not support: train the model without them."
        )
    return processor, KINDS[about.trainer_spec.model_type], names

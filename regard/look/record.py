"""The look record: every step of translating a sentence, in one small JSON document.

It is the input of all views: terminal, figures, animation, page and notebook. docs/look-format.md describes the fields.
Letters: T target pieces, S source pieces, both with </s>; L layers, H heads.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, computed_field

from regard.errors import DataError
from regard.look.measures import Weights, axes_of, measure
from regard.nn.attention.intervention import Intervention, Kind

FORMAT: Literal["regard-look/2"] = "regard-look/2"

TINY = 1e-30  # floor of a probability whose logarithm is taken
POOR_PROBABILITY, POOR_SHARE = 0.5, 0.25  # of a doubtful translation: mean probability, share of unfamiliar words
COMPUTED = ("measures", "mean_probability", "doubtful")

Unfamiliar = Literal["bytes", "unknown", "unseen"]
Row = list[float]
Matrix = list[Row]


def rounded(numbers: Any) -> Any:
    """A number, or nested lists of them, with 6 significant digits; one that is not finite is None."""
    if not isinstance(numbers, list):
        return rounded([numbers])[0]
    if numbers and isinstance(numbers[0], list):
        return [rounded(each) for each in numbers]
    return [float(f"{number:.6g}") if -math.inf < number < math.inf else None for number in numbers]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Piece(_Part):
    """One piece of a sentence: as the vocabulary spells it, as it stands in the line, its word and its unit."""

    text: str
    surface: str
    word: int | None  # None for </s>
    unit: int | None  # None for </s>
    id: int


class Unit(_Part):
    """A word without its punctuation, or the punctuation at one end of a word, as regard/data/text/words.py splits."""

    text: str
    word: int  # the white-space word
    probability: float | None = None  # target: the geometric mean over its pieces
    unfamiliar: Unfamiliar | None = None  # source: spelt in bytes, <unk>, not in training


class Side(_Part):
    """A sentence: its text, white-space words, units and pieces, the closing </s> included."""

    text: str
    words: list[str]
    units: list[Unit]
    pieces: list[Piece]


class LookedImage(_Part):
    """The image that was read, where the source is one: its size in pixels, and its cells, which are the S positions.

    Position p is the cell in row p // columns and column p % columns, counted from the upper left corner.
    """

    width: int
    height: int
    rows: int
    columns: int
    png: str  # base64


class HeadCount(_Part):
    """The number of layers and heads of one kind of attention."""

    layers: int
    heads: int


class About(_Part):
    """The model; `attention` is empty for one that has none."""

    name: str
    kind: str
    score: str | None = None  # the score function by its name in the settings, such as additive; None: several or none
    window: Literal["local-m", "local-p"] | None = None
    attention: dict[Kind, HeadCount] = {}


class Candidate(_Part):
    """A candidate piece and its probability."""

    piece: str
    id: int
    probability: float


class HeadKeys(_Part):
    """The keys of one head as they meet the query in its score, where the scores of the positions differ most.

    score_j = rest_j + Σᵢ factorᵢ · queryᵢ · keyⱼᵢ, or rest_j + Σᵢ factorᵢ · tanh(queryᵢ + keyⱼᵢ) if `additive`.
    """

    kind: Kind
    layer: int
    head: int
    additive: bool
    size: int  # of all dimensions
    dimensions: list[int]  # i, in their order; the others are summed in `rest` of each step
    factor: Row  # by dimension: v of the additive score, 1 / √d, or β
    keys: Matrix  # (S, dimensions)


class AttentionStep(_Part):
    """The arithmetic of one attention head at one step; vectors are truncated to `shown_dimensions` numbers."""

    kind: Kind
    layer: int
    head: int
    query: Row
    scores: list[float | None]  # (S), None where nothing may be attended to
    weights: Row  # (S)
    weighted_values: Matrix  # (S, shown_dimensions)
    context: Row
    centre: float | None = None  # p_t of local attention, counted from 1
    window: tuple[int, int] | None = None  # the first and last position inside it, counted from 0
    gaussian: Row | None = None  # (S) what local-p multiplies the weights by
    asked: Row | None = None  # the query in the score, at the dimensions of its HeadKeys; None: a score of one's own
    rest: list[float | None] | None = None  # (S) the sum of the score's other terms, None where nothing is attended to


class LookStep(_Part):
    """One decoder step: its piece, the candidates and the attention."""

    piece: str
    id: int
    probability: float
    candidates: list[Candidate]
    attention: list[AttentionStep]  # of kind "cross", every layer and head; empty where the model gives no trace


class Dimensions(_Part):
    """The true sizes of the vectors."""

    query: int
    value: int
    summary: int


class BeamNode(_Part):
    """A hypothesis of the beam search: its last piece and its parent."""

    id: int
    parent: int | None
    step: int
    piece: str
    token: int
    log_probability: float  # of the whole path
    score: float  # with the length penalty
    state: Literal["kept", "pruned", "finished", "best"]


class Beam(_Part):
    """The tree of a beam search, parents before their children; "best" marks the path that won."""

    nodes: list[BeamNode]


class Measures(_Part):
    """Entropy of each row in bits, by target piece, and coverage of each column, by source piece.

    Between words, each piece has the number of its unit; hidden rows and columns count.
    """

    words: tuple[Row, Row]
    pieces: tuple[Row, Row]


class Moment(_Part):
    """The alignment at one validation during training."""

    update: int
    target: Side
    alignment: Matrix


class Gold(_Part):
    """The translation of an embedded corpus and its links (source word, target word) between white-space words."""

    target: str
    sure: list[tuple[int, int]]
    possible: list[tuple[int, int]]  # the sure ones included


class Look(_Part):
    """The look record of one sentence."""

    format: Literal["regard-look/2"] = FORMAT
    model: About
    source: Side
    target: Side
    score: float
    log_probability: float
    finished: bool  # False if it was cut at the maximum length
    forced: bool  # forced decoding of a given target
    prefix: int = 0  # length of the target prefix, in pieces
    alignment: Matrix | None  # (T, S)
    attention: dict[Kind, list[list[Matrix]]]  # [L][H][T][S]
    steps: list[LookStep]
    keys: list[HeadKeys] = []  # of kind "cross", every layer and head
    shown_dimensions: int
    dimensions: Dimensions
    fixed_vector: Row | None = None  # the summary of a model without attention, up to 64 numbers of it
    intervention: Intervention | None = None
    image: LookedImage | None = None  # where the source is an image; `source` then has no pieces
    beam: Beam | None = None
    over_time: list[Moment] | None = None
    gold: Gold | None = None  # where the training text is an embedded corpus that has the source sentence

    @computed_field  # type: ignore[prop-decorator]
    @property
    def mean_probability(self) -> float | None:
        """The geometric mean of the target units' probabilities: the mean probability per word."""
        known = [unit.probability for unit in self.target.units if unit.probability is not None]
        if not known:
            return None
        return float(f"{math.exp(sum(map(math.log, (max(each, TINY) for each in known))) / len(known)):.6g}")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def doubtful(self) -> bool:
        """Whether the translation is improbable and much of the source is unfamiliar: expect nonsense."""
        words = [unit for unit in self.source.units if any(map(str.isalnum, unit.text)) or unit.unfamiliar]
        unfamiliar = sum(unit.unfamiliar is not None for unit in words)
        improbable = self.mean_probability is not None and self.mean_probability < POOR_PROBABILITY
        return improbable and unfamiliar >= max(1, POOR_SHARE * len(words))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def measures(self) -> dict[str, Measures]:
        """Entropy and coverage of every map: "alignment", "cross/LAYER/HEAD", the means "cross/LAYER" and "cross"."""
        if self.image is not None:
            return {}  # the columns are cells, not words
        found: dict[str, Measures] = {}
        for kind, maps in self._maps().items():
            words, pieces = (axes_of(self.source, self.target, kind, by_piece) for by_piece in (False, True))
            for name, weights in maps.items():
                found[name] = Measures(words=measure(weights, *words), pieces=measure(weights, *pieces))
        for number, moment in enumerate(self.over_time or []):
            words, pieces = (axes_of(self.source, moment.target, "cross", by_piece) for by_piece in (False, True))
            then = np.array(moment.alignment)
            found[f"moment/{number}"] = Measures(words=measure(then, *words), pieces=measure(then, *pieces))
        return found

    def _maps(self) -> dict[Kind, dict[str, Weights]]:
        """The maps between pieces, (T, S) each, by kind and by their name in `measures`."""
        maps: dict[Kind, dict[str, Weights]] = {}
        if self.alignment is not None:
            maps["cross"] = {"alignment": np.array(self.alignment)}
        for kind, layers in self.attention.items():
            weights = np.array(layers)  # (L, H, T, S)
            named = maps.setdefault(kind, {})
            named[kind] = weights.mean((0, 1))
            for layer, heads in enumerate(weights):
                named[f"{kind}/{layer}"] = heads.mean(0)
                named |= {f"{kind}/{layer}/{head}": each for head, each in enumerate(heads)}
        return maps

    def keys_of(self, trace: AttentionStep) -> HeadKeys | None:
        """The keys of the head of a trace."""
        place = trace.kind, trace.layer, trace.head
        return next((keys for keys in self.keys if (keys.kind, keys.layer, keys.head) == place), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        """The record as one line."""
        return self.model_dump_json()

    def _repr_html_(self) -> str:
        """Words, ribbons and candidates, for a notebook."""
        from regard.look.views.ribbons import ribbons_html

        return ribbons_html(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Look:
        """The look that `to_dict` wrote."""
        try:
            return cls.model_validate({name: value for name, value in values.items() if name not in COMPUTED})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise DataError(
                f"not a look record of the format {FORMAT} ({where}: {first['msg']}): write one with "
                "`regard look --format json`."
            ) from None

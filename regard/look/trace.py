"""Writing the look record: force-decode a translation and record every step.

Only the model contract is used, so it works for every architecture, ensembles and user-defined models.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from regard.config.vocabulary import BOS, UNK
from regard.data.text.hashes import Fingerprint
from regard.data.text.pieces import BYTE_PIECES
from regard.data.text.seen_words import unseen
from regard.data.text.tokenizer import Token, Tokenizer
from regard.data.text.words import Span, unit_spans
from regard.decoding.text_model import TextModel
from regard.decoding.tree import BeamTree
from regard.look.record import (
    TINY,
    About,
    AttentionStep,
    Beam,
    BeamNode,
    Candidate,
    Dimensions,
    HeadCount,
    Look,
    LookStep,
    Piece,
    Side,
    Unfamiliar,
    Unit,
    rounded,
)
from regard.look.terms import ShownTerms, shown_terms
from regard.models import MODELS
from regard.models.contract import Model, Step, join_steps
from regard.nn.attention.intervention import Intervention, Kind
from regard.nn.attention.memory import Memory
from regard.nn.attention.multihead import MultiHead
from regard.nn.attention.scores import Additive, Cosine, Dot, General, Location, ScaledDot, Score
from regard.nn.attention.trace import Attention, Trace

MOST_DIMENSIONS, FEWEST_DIMENSIONS = 8, 2  # of a vector that are shown
MOST_VALUES = 200_000  # numbers of weighted values in one record; many heads show fewer dimensions each
MOST_SUMMARY = 64
SCORE_NAMES: dict[type[nn.Module], str] = {
    Dot: "dot",
    ScaledDot: "scaled_dot",
    General: "general",
    Additive: "additive",
    Location: "location",
    Cosine: "cosine",
}

Part = Kind | Literal["steps"]
"""A part of a record that may be left out: the maps of all heads of a kind, or the arithmetic of the steps."""
PARTS: tuple[Part, ...] = ("cross", "encoder-self", "decoder-self", "steps")


class Decoded(Protocol):
    """A translation or a caption, as far as a record needs it."""

    @property
    def text(self) -> str: ...

    @property
    def tokens(self) -> Sequence[Token]: ...

    @property
    def score(self) -> float: ...

    @property
    def log_probability(self) -> float: ...

    @property
    def finished(self) -> bool: ...


class DecodedTranslation(Decoded, Protocol):
    """A translation with its source."""

    @property
    def source(self) -> str: ...

    @property
    def source_tokens(self) -> Sequence[Token]: ...


@dataclass(frozen=True)
class Walk:
    """All steps of forced decoding of T tokens."""

    memory: Memory
    steps: list[Step]
    log_probabilities: list[Tensor]  # (V,) each
    attention: Attention  # (1, layers, heads, T, S) by kind


@torch.inference_mode()
def walk_along(
    model: Model,
    source: Tensor,
    source_mask: Tensor | None,
    target: Sequence[int],
    intervention: Intervention | None = None,
) -> Walk:
    """Encode the source (1, S), or an image (1, C, H, W), and force-decode the target step by step, with traces."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    mask = None if source_mask is None else source_mask.to(device)
    memory = model.encode(source.to(device), mask, attention=True, intervention=intervention)
    state = model.start(memory)
    steps: list[Step] = []
    log_probabilities: list[Tensor] = []
    for token in [BOS, *target[:-1]]:
        read = torch.tensor([token], device=device)
        step = model.step(read, state, memory, attention=True, trace=True, intervention=intervention)
        state = step.state
        steps.append(step)
        log_probabilities.append(model.project(step.hidden)[0].float().log_softmax(-1))
    recorded = [step.attention for step in steps if step.attention]
    return Walk(memory, steps, log_probabilities, join_steps(recorded, memory))


def look_at(
    text_model: TextModel,
    translation: DecodedTranslation,
    *,
    candidates: int = 5,
    forced: bool = False,
    prefix: int = 0,
    intervention: Intervention | None = None,
    tree: BeamTree | None = None,
    parts: Collection[Part] = PARTS,
) -> Look:
    """The record of a translation, found by search or given."""
    source = torch.tensor([[token.id for token in translation.source_tokens]])
    target = [token.id for token in translation.tokens]
    walk = walk_along(text_model.model, source, torch.ones_like(source, dtype=torch.bool), target, intervention)
    look = record(
        walk,
        translation,
        model=text_model.model,
        tokenizer=text_model.target_tokenizer,
        name=text_model.name,
        source=source_side(
            translation.source, translation.source_tokens, text_model.source_tokenizer, text_model.seen_words
        ),
        candidates=candidates,
        parts=parts,
    )
    beam = None if tree is None else _beam(tree, target, text_model.target_tokenizer)
    return look.model_copy(update={"forced": forced, "prefix": prefix, "intervention": intervention, "beam": beam})


def record(
    walk: Walk,
    decoded: Decoded,
    *,
    model: Model,
    tokenizer: Tokenizer,
    name: str,
    source: Side,
    candidates: int,
    parts: Collection[Part] = PARTS,
) -> Look:
    """The record of forced decoding, with these parts."""
    shown = _shown_dimensions(walk)
    traces = [[trace for trace in step.trace if trace.kind == "cross"] for step in walk.steps]
    terms = shown_terms(traces, shown) if "steps" in parts else {}
    steps = [
        LookStep(
            piece=tokenizer.piece(token.id),
            id=token.id,
            probability=rounded(float(scores[token.id].exp())),
            candidates=_candidates(scores, candidates, tokenizer),
            attention=[
                _attended(trace, shown, terms.get((trace.layer, trace.head))) for trace in own if "steps" in parts
            ],
        )
        for token, own, scores in zip(decoded.tokens, traces, walk.log_probabilities, strict=True)
    ]
    first = traces[0][0] if traces and traces[0] else None
    has_attention = "cross" in walk.attention
    summary = torch.cat([tensor[0].flatten() for tensor in walk.memory.summary] or [torch.zeros(0)])
    return Look(
        model=_about(name, model, walk.attention, [trace for own in traces for trace in own]),
        source=source,
        target=target_side(decoded.text, decoded.tokens, tokenizer, [step.probability for step in steps]),
        score=rounded(decoded.score),
        log_probability=rounded(decoded.log_probability),
        finished=decoded.finished,
        forced=False,
        alignment=rounded(model.alignment(walk.attention)[0].tolist()) if has_attention else None,
        attention={kind: rounded(weights[0].tolist()) for kind, weights in walk.attention.items() if kind in parts},
        steps=steps,
        keys=[each.keys for each in terms.values()],
        shown_dimensions=shown,
        dimensions=Dimensions(
            query=0 if first is None else first.query.size(-1),
            value=0 if first is None else first.context.size(-1),
            summary=summary.numel(),
        ),
        fixed_vector=None if has_attention else rounded(summary[:MOST_SUMMARY].tolist()) or None,
    )


def side(text: str, tokens: Sequence[Token], tokenizer: Tokenizer) -> Side:
    """One sentence of the record."""
    spans = unit_spans(text, [(token.start, token.end) for token in tokens])
    units = [Unit(text=text[start:end], word=word) for word, (start, end) in spans]
    pieces = [
        Piece(
            text=tokenizer.piece(token.id),
            surface=token.text,
            word=token.word,
            unit=_unit_of(token, spans),
            id=token.id,
        )
        for token in tokens
    ]
    return Side(text=text, words=text.split(), units=units, pieces=pieces)


def source_side(text: str, tokens: Sequence[Token], tokenizer: Tokenizer, seen: Fingerprint | None) -> Side:
    """The source, with its unfamiliar units."""
    found = side(text, tokens, tokenizer)
    new = [False] * len(found.units) if seen is None else unseen([unit.text for unit in found.units], seen)
    marks: list[Unfamiliar | None] = ["unseen" if each else None for each in new]
    for piece in found.pieces:
        if piece.unit is not None and piece.id == UNK:
            marks[piece.unit] = "unknown"
        elif piece.unit is not None and piece.text in BYTE_PIECES:
            marks[piece.unit] = "bytes"
    units = [unit.model_copy(update={"unfamiliar": mark}) for unit, mark in zip(found.units, marks, strict=True)]
    return found.model_copy(update={"units": units})


def target_side(text: str, tokens: Sequence[Token], tokenizer: Tokenizer, probabilities: Sequence[float]) -> Side:
    """The target, with the probability of each unit."""
    found = side(text, tokens, tokenizer)
    logarithms: list[list[float]] = [[] for _ in found.units]
    for piece, probability in zip(found.pieces, probabilities, strict=True):
        if piece.unit is not None:
            logarithms[piece.unit].append(math.log(max(probability, TINY)))
    units = [
        unit.model_copy(update={"probability": rounded(math.exp(sum(each) / len(each))) if each else None})
        for unit, each in zip(found.units, logarithms, strict=True)
    ]
    return found.model_copy(update={"units": units})


def _unit_of(token: Token, spans: Sequence[tuple[int, Span]]) -> int | None:
    """The number of the token's unit: the first that ends after the token begins."""
    if token.word is None:
        return None
    number = bisect_right(spans, token.start, key=lambda unit: unit[1][1])
    assert spans[number][0] == token.word, f"{token} is not in {spans[number]}"
    return number


def _shown_dimensions(walk: Walk) -> int:
    """The number of dimensions shown of each vector; fewer with many heads, to keep the record small."""
    weights = walk.attention.get("cross")
    if weights is None:
        return MOST_DIMENSIONS
    return min(MOST_DIMENSIONS, max(FEWEST_DIMENSIONS, MOST_VALUES // max(weights.numel(), 1)))


def _candidates(log_probabilities: Tensor, count: int, tokenizer: Tokenizer) -> list[Candidate]:
    best, ids = log_probabilities.topk(min(count, log_probabilities.size(0)))
    return [
        Candidate(piece=tokenizer.piece(number), id=number, probability=rounded(probability))
        for number, probability in zip(ids.tolist(), best.exp().tolist(), strict=True)
    ]


def _attended(trace: Trace, shown: int, terms: ShownTerms | None) -> AttentionStep:
    window = None
    if trace.window is not None and bool(trace.window[0].any()):
        inside = trace.window[0].nonzero().flatten().tolist()
        window = (inside[0], inside[-1])
    return AttentionStep(
        kind=trace.kind,
        layer=trace.layer,
        head=trace.head,
        query=rounded(trace.query[0, :shown].tolist()),
        scores=rounded(trace.scores[0].tolist()),
        weights=rounded(trace.weights[0].tolist()),
        weighted_values=rounded(trace.weighted_values[0, :, :shown].tolist()),
        context=rounded(trace.context[0, :shown].tolist()),
        centre=None if trace.centre is None else rounded(float(trace.centre[0])),
        window=window,
        gaussian=None if trace.gaussian is None else rounded(trace.gaussian[0].tolist()),
        asked=None if terms is None else terms.asked(trace),
        rest=None if terms is None else terms.rest(trace),
    )


def _about(name: str, model: Model, attention: Attention, traces: Sequence[Trace]) -> About:
    kind = type(model)
    sizes: dict[Kind, HeadCount] = {
        name: HeadCount(layers=weights.size(1), heads=weights.size(2)) for name, weights in attention.items()
    }
    local = any(trace.centre is not None for trace in traces)
    predictive = any(trace.gaussian is not None for trace in traces)
    return About(
        name=name,
        kind=next((known for known, model_class in MODELS.items() if model_class is kind), kind.__name__),
        score=score_name(model),
        window=("local-p" if predictive else "local-m") if local else None,
        attention=sizes,
    )


def score_name(model: Model) -> str | None:
    """The score function of all attention modules; None if there are several, none, or one of the user's own."""
    names = {
        "scaled_dot" if isinstance(module, MultiHead) else SCORE_NAMES.get(type(module))
        for module in model.modules()
        if isinstance(module, Score | MultiHead)
    }
    return names.pop() if len(names) == 1 else None


def _beam(tree: BeamTree, target: Sequence[int], tokenizer: Tokenizer) -> Beam:
    best = tree.path(target)
    return Beam(
        nodes=[
            BeamNode(
                id=node.number,
                parent=node.parent,
                step=node.step,
                piece=tokenizer.piece(node.token),
                token=node.token,
                log_probability=rounded(node.log_probability),
                score=rounded(node.score),
                state="best" if node.number in best else node.state,
            )
            for node in tree.nodes
        ]
    )

"""Attention step by step, in plain arithmetic that can be followed by hand.

1. scores            compare the query with every key
2. weights           softmax: positive, and they sum to 1; local-p multiplies them by a Gaussian
3. weighted values   each value times its weight
4. context           the sum of the weighted values
5. what comes next   the decoder gets [context; query]; in self-attention the next layer gets the contexts

`next_word` goes on to the attentional vector tanh(Wc [context; query]) and the probabilities softmax(Wp ·), as Luong et
al. (2015) do; `multi_head` splits queries, keys and values into heads, as Vaswani et al. (2017) do.

Everything is float64, one query and one key at a time. It shares no code with `regard.nn.attention`, so that the
tests of each can compare with the other. Letters: T queries, S keys, D sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from regard.errors import ConfigError, did_you_mean

Array = npt.NDArray[np.float64]

FORMULAS = {
    "dot": "qᵀk",
    "scaled_dot": "qᵀk / √d",
    "cosine": "β qᵀk / (|q| |k|)",
    "general": "qᵀ W k",
    "additive": "vᵀ tanh(W q + U k)",
    "concat": "vᵀ tanh(W [q; k])",
    "location": "(W q)ⱼ",
}
# the matrices each score needs, in the order in which they are given
WEIGHTS = {"general": ("W",), "additive": ("W", "U", "v"), "concat": ("W", "v"), "location": ("W",)}

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Example:
    """Vectors to begin with, and the matrices of `next_word`."""

    query: Rows
    keys: Rows
    combine: Rows | None = None
    project: Rows | None = None


EXAMPLES = {
    # weights 0.12, 0.55, 0.12, 0.20; Wc takes the mean of context and query
    "small": Example(
        query=((1.0, 0.5, 1.0),),
        keys=((0.0, 1.0, 1.0), (2.0, 0.0, 1.0), (1.0, 1.0, 0.0), (0.0, 2.0, 1.0)),
        combine=((0.5, 0, 0, 0.5, 0, 0), (0, 0.5, 0, 0, 0.5, 0), (0, 0, 0.5, 0, 0, 0.5)),
        project=((0, 2, 0), (2, 0, 1), (1, 1, 0), (0, 0, 1)),
    ),
    # scores so far apart that the softmax saturates: weights 2.86e-20, 1, 2.86e-20, 1.39e-11
    "textbook": Example(
        query=((10.0, 5.0, 10.0),), keys=((0.0, 1.0, 1.0), (5.0, 0.0, 1.0), (1.0, 1.0, 0.0), (0.0, 5.0, 1.0))
    ),
}


@dataclass(frozen=True)
class Local:
    """A window of `width` positions on either side of a centre p, counted from 1 (Luong et al. 2015, section 3.2)."""

    centre: float
    width: float
    gaussian: bool = False  # local-p: the weights times exp(−(s − p)² / 2σ²), σ = width / 2, not renormalised

    def distances(self, count: int) -> Array:
        """s − p of the positions 1…S."""
        return np.arange(1, count + 1, dtype=np.float64) - np.float64(self.centre)

    def check(self, count: int) -> None:
        """Refuse a centre or width without meaning."""
        if not (math.isfinite(self.centre) and 0 <= self.centre <= count):
            raise ConfigError(f"centre {self.centre:g}: it is a position from 0 to {count}, the number of keys")
        if not (math.isfinite(self.width) and self.width > 0):
            raise ConfigError(f"window {self.width:g}: give a number of positions above 0")


@dataclass(frozen=True)
class FiveSteps:
    """All numbers of one attention, from the inputs to the output."""

    score: str
    query: Array  # (T, Dq)
    keys: Array  # (S, Dk)
    values: Array  # (S, Dv)
    scores: Array  # (T, S)
    weights: Array  # (T, S)
    weighted_values: Array  # (T, S, Dv)
    context: Array  # (T, Dv)
    output: Array  # (T, Dv + Dq), or (T, Dv) in self-attention
    mask: npt.NDArray[np.bool_]  # (T, S), True where it may look
    is_self: bool = False
    sharpness: float = 1.0  # β of the cosine score
    local: Local | None = None
    gaussian: Array | None = None  # (S,) factor of the weights
    combine: Array | None = None  # Wc (A, Dv + Dq)
    attentional: Array | None = None  # (T, A)
    project: Array | None = None  # Wp (V, A)
    probabilities: Array | None = None  # (T, V)


@dataclass(frozen=True)
class MultiHeadSteps:
    """The steps of each head, and their concatenation."""

    heads: tuple[FiveSteps, ...]
    joined: Array  # (T, H · Dv)
    output: Array  # (T, D): joined, or joined Wo
    output_weight: Array | None = None  # Wo


def five_steps(
    query: npt.ArrayLike,
    keys: npt.ArrayLike,
    values: npt.ArrayLike | None = None,
    score: str = "dot",
    weight: Sequence[npt.ArrayLike] = (),
    mask: npt.ArrayLike | None = None,
    sharpness: float | None = None,
    local: Local | None = None,
) -> FiveSteps:
    """Attend from query (T, Dq) or (Dq,) to keys (S, Dk) and values (S, Dv), by default the keys themselves.

    `weight` holds W of general and location, W, U, v of additive, or W, v of concat; `mask` (T, S) or (S,) is True
    where a key may be attended to; `sharpness` is β of the cosine score, 1 if not given.
    """
    name = score
    if name not in FORMULAS:
        raise ConfigError(f"there is no score '{score}': {did_you_mean(score, FORMULAS)}")
    queries, key_rows = as_matrix(query, "query"), as_matrix(keys, "keys")
    value_rows = key_rows if values is None else as_matrix(values, "values")
    if len(value_rows) != len(key_rows):
        raise ConfigError(f"{len(key_rows)} keys but {len(value_rows)} values: give one value for each key")
    matrices = _check_weight(name, weight, queries.shape[1], key_rows.shape[1])
    beta = _check_sharpness(name, sharpness)
    allowed = _check_mask(mask, len(queries), len(key_rows))
    gaussian = None
    if local is not None:
        local.check(len(key_rows))
        distances = local.distances(len(key_rows))  # (S,)
        allowed = allowed & (np.abs(distances) <= local.width)
        gaussian = np.exp(-(distances**2) / (2 * (local.width / 2) ** 2)) if local.gaussian else None

    with np.errstate(over="ignore", invalid="ignore"):
        scores = beta * _all_scores(name, queries, key_rows, matrices)  # (T, S)
    weights = np.array([softmax(row, may) for row, may in zip(scores, allowed, strict=True)])  # (T, S)
    if gaussian is not None:
        weights = weights * gaussian
    weighted_values = weights[:, :, np.newaxis] * value_rows[np.newaxis, :, :]  # (T, S, Dv)
    context = weighted_values.sum(axis=1)  # (T, Dv)
    output = np.concatenate([context, queries], axis=1)  # (T, Dv + Dq)
    return FiveSteps(
        name,
        queries,
        key_rows,
        value_rows,
        scores,
        weights,
        weighted_values,
        context,
        output,
        allowed,
        sharpness=beta,
        local=local,
        gaussian=gaussian,
    )


def next_word(steps: FiveSteps, combine: npt.ArrayLike, project: npt.ArrayLike | None = None) -> FiveSteps:
    """Go on to the attentional vector tanh(Wc [context; query]) and, with Wp, to softmax(Wp ·) over a vocabulary."""
    matrix = as_matrix(combine, "Wc")
    if matrix.shape[1] != steps.output.shape[1]:
        raise ConfigError(
            f"Wc is {_shape(matrix)} but [context; query] has {steps.output.shape[1]} numbers: give as many columns"
        )
    attentional = np.tanh(steps.output @ matrix.T)  # (T, A)
    steps = replace(steps, combine=matrix, attentional=attentional)
    if project is None:
        return steps
    vocabulary = as_matrix(project, "Wp")
    if vocabulary.shape[1] != len(matrix):
        raise ConfigError(
            f"Wp is {_shape(vocabulary)} but the attentional vector has {len(matrix)} numbers: give as many columns"
        )
    every = np.ones(len(vocabulary), dtype=bool)
    probabilities = np.array([softmax(vocabulary @ row, every) for row in attentional])  # (T, V)
    return replace(steps, project=vocabulary, probabilities=probabilities)


def multi_head(
    query: npt.ArrayLike,
    keys: npt.ArrayLike,
    values: npt.ArrayLike | None = None,
    heads: int = 2,
    score: str = "scaled_dot",
    mask: npt.ArrayLike | None = None,
    output_weight: npt.ArrayLike | None = None,
    local: Local | None = None,
) -> MultiHeadSteps:
    """Split queries, keys and values into heads, attend with each, and concatenate the contexts; then Wo, if given."""
    queries, key_rows = as_matrix(query, "query"), as_matrix(keys, "keys")
    value_rows = key_rows if values is None else as_matrix(values, "values")
    if score in WEIGHTS:
        raise ConfigError(f"score {score} has a matrix of its own for each head: choose dot, scaled_dot or cosine")
    parts = []
    for name, rows in (("a query", queries), ("a key", key_rows), ("a value", value_rows)):
        if heads < 1 or rows.shape[1] % heads:
            raise ConfigError(f"{name} has {rows.shape[1]} numbers: they cannot be split into {heads} heads")
        parts.append(np.split(rows, heads, axis=1))
    found = tuple(five_steps(q, k, v, score, mask=mask, local=local) for q, k, v in zip(*parts, strict=True))
    joined = np.concatenate([each.context for each in found], axis=1)  # (T, H · Dv)
    if output_weight is None:
        return MultiHeadSteps(found, joined, joined)
    matrix = as_matrix(output_weight, "wo")
    return MultiHeadSteps(found, joined, _project(joined, matrix, "wo"), matrix)


def self_attention(
    rows: npt.ArrayLike,
    query_weight: npt.ArrayLike | None = None,
    key_weight: npt.ArrayLike | None = None,
    value_weight: npt.ArrayLike | None = None,
    score: str = "scaled_dot",
    weight: Sequence[npt.ArrayLike] = (),
    causal: bool = False,
    sharpness: float | None = None,
    mask: npt.ArrayLike | None = None,
) -> FiveSteps:
    """Every row of X (S, D) attends to all rows: Q = X Wq, K = X Wk, V = X Wv; a W that is not given is I."""
    queries, keys, values = projections(rows, query_weight, key_weight, value_weight)
    allowed = causal_mask(mask, len(queries)) if causal else mask
    return without_decoder(five_steps(queries, keys, values, score, weight, allowed, sharpness))


def without_decoder(steps: FiveSteps) -> FiveSteps:
    """The steps of self-attention: the next layer gets the contexts alone."""
    return replace(steps, output=steps.context, is_self=True)


def projections(
    rows: npt.ArrayLike,
    query_weight: npt.ArrayLike | None,
    key_weight: npt.ArrayLike | None,
    value_weight: npt.ArrayLike | None,
) -> tuple[Array, Array, Array]:
    """X Wq, X Wk and X Wv of the rows X."""
    inputs = as_matrix(rows, "self")
    named = (("wq", query_weight), ("wk", key_weight), ("wv", value_weight))
    queries, keys, values = (_project(inputs, matrix, name) for name, matrix in named)
    return queries, keys, values


def causal_mask(mask: npt.ArrayLike | None, count: int) -> npt.NDArray[np.bool_]:
    """The mask (S, S) of self-attention that never looks ahead, joined with another."""
    return _check_mask(mask, count, count) & np.tril(np.ones((count, count), dtype=bool))


def _check_mask(mask: npt.ArrayLike | None, queries: int, keys: int) -> npt.NDArray[np.bool_]:
    """The mask (T, S); one row stands for every query."""
    if mask is None:
        return np.ones((queries, keys), dtype=bool)
    given = np.atleast_2d(np.asarray(mask))
    if given.shape not in ((queries, keys), (1, keys)):
        raise ConfigError(f"mask {given.shape}: it must be {(queries, keys)}, queries by keys, or one row of {keys}")
    if not np.isin(given, (0, 1)).all():
        raise ConfigError("mask: it holds other numbers than 0 and 1: write 1 where a key may be attended to")
    return np.broadcast_to(given.astype(bool), (queries, keys))


def as_matrix(numbers: npt.ArrayLike, name: str) -> Array:
    """The numbers as a finite matrix with at least one cell; a vector becomes one row."""
    try:
        matrix = np.asarray(numbers, dtype=np.float64)
    except (ValueError, TypeError):
        raise ConfigError(f"{name}: not a matrix of numbers: give rows of equal length") from None
    if matrix.ndim == 1:
        matrix = matrix[np.newaxis, :]
    if matrix.ndim != 2:
        raise ConfigError(f"{name}: {matrix.ndim} dimensions: give a vector or a matrix")
    if matrix.size == 0:
        raise ConfigError(f"{name}: it is empty: give at least one number")
    if not np.isfinite(matrix).all():
        raise ConfigError(f"{name}: it holds a number that is not finite: give ordinary numbers")
    return matrix


def _project(inputs: Array, matrix: npt.ArrayLike | None, name: str) -> Array:
    if matrix is None:
        return inputs
    weight = as_matrix(matrix, name)
    if len(weight) != inputs.shape[1]:
        raise ConfigError(
            f"{name} is {_shape(weight)} but a row of the input has {inputs.shape[1]} numbers: give {name} as many rows"
        )
    return inputs @ weight


def _check_weight(name: str, weight: Sequence[npt.ArrayLike], query_size: int, key_size: int) -> list[Array]:
    """The score's matrices, with shapes that fit the query and the keys."""
    letters = WEIGHTS.get(name, ())
    if len(weight) != len(letters):
        needed = f"{len(letters)} ({', '.join(letters)})" if letters else "none"
        raise ConfigError(f"score {name}, {FORMULAS[name]}: {len(weight)} weight matrices given, it needs {needed}")
    matrices = [as_matrix(matrix, letter) for matrix, letter in zip(weight, letters, strict=True)]
    if name == "general":
        _expect(matrices[0], (query_size, key_size), "W")
    elif name == "location":
        _expect(matrices[0], (len(matrices[0]), query_size), "W")
    elif name in ("additive", "concat"):
        size = len(matrices[0])
        if name == "concat":
            _expect(matrices[0], (size, query_size + key_size), "W")
        else:
            _expect(matrices[0], (size, query_size), "W")
            _expect(matrices[1], (size, key_size), "U")
        if matrices[-1].size != size:
            raise ConfigError(f"v has {matrices[-1].size} numbers but W has {size} rows: make them equal")
    elif query_size != key_size:
        raise ConfigError(
            f"a query has {query_size} numbers but a key has {key_size}: score {name} needs them equal "
            "(general and additive do not)"
        )
    return matrices


def _check_sharpness(name: str, sharpness: float | None) -> float:
    if sharpness is None:
        return 1.0
    if name != "cosine":
        raise ConfigError(f"score {name}, {FORMULAS[name]}, has no sharpness: leave it out, or choose cosine")
    if not (math.isfinite(sharpness) and sharpness > 0):
        raise ConfigError(f"sharpness {sharpness}: β must be a number above 0")
    return sharpness


def _expect(matrix: Array, shape: tuple[int, int], letter: str) -> None:
    if matrix.shape != shape:
        raise ConfigError(f"{letter} is {_shape(matrix)}: with this query and these keys it must be {shape}")


def _all_scores(name: str, queries: Array, keys: Array, matrices: list[Array]) -> Array:
    scores = np.empty((len(queries), len(keys)))
    for t, query in enumerate(queries):
        for s, key in enumerate(keys):
            scores[t, s] = _one_score(name, query, key, s, matrices)
    # A position beyond the rows of the location score is -inf on purpose; everything else must be a number.
    if np.isnan(scores).any() or np.isposinf(scores).any() or (name != "location" and np.isinf(scores).any()):
        raise ConfigError("a score is too large for a number: give smaller numbers")
    return scores


def _one_score(name: str, query: Array, key: Array, position: int, matrices: list[Array]) -> float:
    """The score of one query (Dq,) and one key (Dk,)."""
    if name == "dot":
        return float(query @ key)
    if name == "scaled_dot":
        return float(query @ key) / math.sqrt(len(key))
    if name == "cosine":
        lengths = float(np.linalg.norm(query) * np.linalg.norm(key))
        return float(query @ key) / lengths if lengths > 0 else 0.0  # a zero vector has no direction
    if name == "general":
        return float(query @ matrices[0] @ key)
    if name == "additive":
        W, U, v = matrices
        return float(v.ravel() @ np.tanh(W @ query + U @ key))
    if name == "concat":
        W, v = matrices
        return float(v.ravel() @ np.tanh(W @ np.concatenate([query, key])))
    W = matrices[0]
    return float(W[position] @ query) if position < len(W) else -math.inf


def softmax(scores: Array, allowed: npt.NDArray[np.bool_]) -> Array:
    """exp(score) over its sum, among the allowed positions of one row (S,); nothing allowed gives zeros."""
    weights = np.zeros(len(scores))
    if not (allowed & np.isfinite(scores)).any():
        return weights
    largest = scores[allowed].max()  # subtracting the maximum prevents overflow and does not change the result
    for s, score in enumerate(scores):
        if allowed[s]:
            weights[s] = math.exp(score - largest)
    weights /= weights.sum()
    return weights


def _shape(matrix: Array) -> str:
    return f"({matrix.shape[0]}, {matrix.shape[1]})"

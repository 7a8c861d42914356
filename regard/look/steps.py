"""The five steps of attention, in plain arithmetic that can be followed by hand.

1. scores            compare the query with every key
2. weights           softmax: positive, and they sum to 1
3. weighted values   each value times its weight
4. context           the sum of the weighted values
5. what comes next   the decoder gets [context; query]; in self-attention the next layer gets the contexts

Everything is float64, one query and one key at a time. It shares no code with `regard.nn.attention`, so that the
tests of each can compare with the other. Letters: T queries, S keys, D sizes.
"""

from __future__ import annotations

import json
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
    "location": "(W q)ⱼ",
}
ALIASES = {"concat": "additive"}
# the matrices each score needs, in the order in which they are given
WEIGHTS = {"general": ("W",), "additive": ("W", "U", "v"), "location": ("W",)}

TEXTBOOK_QUERY = ((10.0, 5.0, 10.0),)
TEXTBOOK_KEYS = ((0.0, 1.0, 1.0), (5.0, 0.0, 1.0), (1.0, 1.0, 0.0), (0.0, 5.0, 1.0))


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


def five_steps(
    query: npt.ArrayLike,
    keys: npt.ArrayLike,
    values: npt.ArrayLike | None = None,
    score: str = "dot",
    weight: Sequence[npt.ArrayLike] = (),
    mask: npt.ArrayLike | None = None,
    sharpness: float | None = None,
) -> FiveSteps:
    """Attend from query (T, Dq) or (Dq,) to keys (S, Dk) and values (S, Dv), by default the keys themselves.

    `weight` holds W of general and location, or W, U, v of additive; `mask` (T, S) is True where it may look;
    `sharpness` is β of the cosine score, 1 if not given.
    """
    name = ALIASES.get(score, score)
    if name not in FORMULAS:
        raise ConfigError(f"there is no score '{score}': {did_you_mean(score, [*FORMULAS, *ALIASES])}")
    queries, key_rows = as_matrix(query, "query"), as_matrix(keys, "keys")
    value_rows = key_rows if values is None else as_matrix(values, "values")
    if len(value_rows) != len(key_rows):
        raise ConfigError(f"{len(key_rows)} keys but {len(value_rows)} values: give one value for each key")
    matrices = _check_weight(name, weight, queries.shape[1], key_rows.shape[1])
    beta = _check_sharpness(name, sharpness)
    allowed = np.ones((len(queries), len(key_rows)), dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    if allowed.shape != (len(queries), len(key_rows)):
        raise ConfigError(f"mask {allowed.shape}: it must be {(len(queries), len(key_rows))}, queries by keys")

    with np.errstate(over="ignore", invalid="ignore"):
        scores = beta * _all_scores(name, queries, key_rows, matrices)  # (T, S)
    weights = np.array([_softmax(row, may) for row, may in zip(scores, allowed, strict=True)])  # (T, S)
    weighted_values = weights[:, :, np.newaxis] * value_rows[np.newaxis, :, :]  # (T, S, Dv)
    context = weighted_values.sum(axis=1)  # (T, Dv)
    output = np.concatenate([context, queries], axis=1)  # (T, Dv + Dq)
    return FiveSteps(
        name, queries, key_rows, value_rows, scores, weights, weighted_values, context, output, allowed, sharpness=beta
    )


def self_attention(
    rows: npt.ArrayLike,
    query_weight: npt.ArrayLike | None = None,
    key_weight: npt.ArrayLike | None = None,
    value_weight: npt.ArrayLike | None = None,
    score: str = "scaled_dot",
    weight: Sequence[npt.ArrayLike] = (),
    causal: bool = False,
    sharpness: float | None = None,
) -> FiveSteps:
    """Every row of X (S, D) attends to all rows: Q = X Wq, K = X Wk, V = X Wv; a W that is not given is I."""
    inputs = as_matrix(rows, "self")
    queries = _project(inputs, query_weight, "wq")
    keys = _project(inputs, key_weight, "wk")
    values = _project(inputs, value_weight, "wv")
    mask = np.tril(np.ones((len(inputs), len(inputs)), dtype=bool)) if causal else None
    steps = five_steps(queries, keys, values, score, weight, mask, sharpness)
    # There is no decoder here: the next layer gets the contexts alone.
    return replace(steps, output=steps.context, is_self=True)


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
    elif name == "additive":
        size = len(matrices[0])
        _expect(matrices[0], (size, query_size), "W")
        _expect(matrices[1], (size, key_size), "U")
        if matrices[2].size != size:
            raise ConfigError(f"v has {matrices[2].size} numbers but W has {size} rows: make them equal")
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
    W = matrices[0]
    return float(W[position] @ query) if position < len(W) else -math.inf


def _softmax(scores: Array, allowed: npt.NDArray[np.bool_]) -> Array:
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


# --- as text ---------------------------------------------------------------------------------------------

WIDTH = 80
MOST_ROWS = 12
MOST_BLOCKS = 4


def render(steps: FiveSteps) -> str:
    """The five steps as text of at most 80 columns, with the shape of everything."""
    one = len(steps.query) == 1
    who = "the query" if one else "each query"
    with_values = {"scaled_dot": f"    with d = {steps.keys.shape[1]}", "cosine": f"    with β = {steps.sharpness:g}"}
    lines = [f"score {steps.score}: score(q, k) = {FORMULAS[steps.score]}{with_values.get(steps.score, '')}", ""]
    lines += _section("queries q" if not one else "query q", steps.query, "q")
    if steps.values is steps.keys or np.array_equal(steps.values, steps.keys):
        lines += _section("keys k, and values v = k", steps.keys, "k")
    else:
        lines += _section("keys k", steps.keys, "k")
        lines += _section("values v", steps.values, "v")
    lines += _section(f"1. scores: compare {who} with every key", steps.scores, "q", "k", steps.mask)
    lines += _section("2. weights: softmax of the scores, each row sums to 1", steps.weights, "q", "k")
    lines += _weighted_section(steps)
    lines += _section("4. context: the sum of the weighted values", steps.context, "c")
    if steps.is_self:
        title = "5. what the next layer gets: the contexts, one for each row"
    else:
        title = "5. what the decoder gets: [context; query]"
    lines += _section(title, steps.output, "o")
    return "\n".join(lines[:-1])


def render_json(steps: FiveSteps) -> str:
    """All numbers in full, as JSON; a score of -inf (beyond the location score's rows) is null."""
    scores = [[score if math.isfinite(score) else None for score in row] for row in steps.scores.tolist()]
    return json.dumps(
        {
            "score": steps.score,
            **({"sharpness": steps.sharpness} if steps.score == "cosine" else {}),
            "query": steps.query.tolist(),
            "keys": steps.keys.tolist(),
            "values": steps.values.tolist(),
            "scores": scores,
            "weights": steps.weights.tolist(),
            "weighted_values": steps.weighted_values.tolist(),
            "context": steps.context.tolist(),
            "output": steps.output.tolist(),
        },
        allow_nan=False,
    )


def _weighted_section(steps: FiveSteps) -> list[str]:
    lines = [_title("3. weighted values: each value times its weight", steps.weighted_values.shape)]
    for t, block in enumerate(steps.weighted_values[:MOST_BLOCKS]):
        if len(steps.query) > 1:
            lines.append(f"  q{t + 1}:")
        lines += _table([[_number(number) for number in numbers] for numbers in block], "v")
    if len(steps.query) > MOST_BLOCKS:
        lines.append(f"  … and {len(steps.query) - MOST_BLOCKS} more queries (--format json has them)")
    return [*lines, ""]


def _section(
    title: str, matrix: Array, row: str, column: str = "", mask: npt.NDArray[np.bool_] | None = None
) -> list[str]:
    cells = [[_number(number) for number in numbers] for numbers in matrix]
    if mask is not None:
        cells = [
            [cell if may else "hidden" for cell, may in zip(line, allowed, strict=True)]
            for line, allowed in zip(cells, mask, strict=True)
        ]
    return [_title(title, matrix.shape), *_table(cells, row, column), ""]


def _title(title: str, shape: tuple[int, ...]) -> str:
    shown = "(" + ", ".join(str(size) for size in shape) + ")"
    return f"{title}{shown:>{max(WIDTH - len(title), len(shown) + 1)}}"


def _table(cells: list[list[str]], row: str, column: str = "") -> list[str]:
    """Rows of cells with the rows named, and the columns too if they have a letter."""
    header = [f"{column}{index + 1}" if column else "" for index in range(len(cells[0]))]
    names = [f"{row}{index + 1}" for index in range(len(cells))]
    width = max(len(cell) for line in [header, *cells] for cell in line) + 2
    indent = 4 + max(len(name) for name in names)
    fitting = max((WIDTH - indent - 3) // width, 2)
    shown = range(len(cells)) if len(cells) <= MOST_ROWS else [*range(MOST_ROWS - 1), len(cells) - 1]

    lines = [" " * indent + _cells(header, width, fitting)] if column else []
    for position, index in enumerate(shown):
        if index != position:
            lines.append(f"    … {index - position} more rows")
        lines.append(f"    {names[index]:<{indent - 4}}{_cells(cells[index], width, fitting)}")
    return lines


def _cells(cells: list[str], width: int, fitting: int) -> str:
    """One line of cells; where they do not fit, the middle ones give way to three dots."""
    if len(cells) <= fitting:
        return "".join(f"{cell:>{width}}" for cell in cells)
    start = "".join(f"{cell:>{width}}" for cell in cells[: fitting - 1])
    return f"{start}  …{cells[-1]:>{width}}"


def _number(number: float) -> str:
    return f"{number + 0.0:.3g}"  # adding zero turns -0 into 0


def _shape(matrix: Array) -> str:
    return f"({matrix.shape[0]}, {matrix.shape[1]})"

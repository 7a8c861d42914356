"""The steps of attention as text or JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.look.steps import FORMULAS, Array, FiveSteps, MultiHeadSteps, softmax

WIDTH = 80
MOST_ROWS = 12
MOST_BLOCKS = 4


def render(steps: FiveSteps | MultiHeadSteps) -> str:
    """The steps as text of at most 80 columns, with the shape of everything."""
    lines = _heads(steps) if isinstance(steps, MultiHeadSteps) else _steps(steps)
    return "\n".join(lines[:-1])


def _heads(steps: MultiHeadSteps) -> list[str]:
    lines: list[str] = []
    for number, head in enumerate(steps.heads, 1):
        lines += [f"head {number} of {len(steps.heads)}", "", *_attention(head)]
    lines += _section("5. concatenate the contexts of the heads", steps.joined, "c")
    if steps.output_weight is not None:
        lines += _section("6. output: the concatenation times Wo", steps.output, "o")
    return lines


def _steps(steps: FiveSteps) -> list[str]:
    lines = _attention(steps)
    if steps.is_self:
        title = "5. output: one context per row"
    else:
        title = "5. concatenate context and query: [context; query]"
    lines += _section(title, steps.output, "o")
    if steps.attentional is not None and steps.combine is not None:
        lines += _section("Wc", steps.combine, "w")
        lines += _section("6. attentional vector: tanh(Wc [context; query])", steps.attentional, "a")
    if steps.probabilities is not None and steps.project is not None:
        lines += _section("Wp: one row for each word of the vocabulary", steps.project, "y")
        lines += _section("7. probability of each next word: softmax(Wp a)", steps.probabilities, "p", "y")
    return lines


def _attention(steps: FiveSteps) -> list[str]:
    """The inputs and steps 1 to 4."""
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
    lines += _weights(steps)
    lines += _weighted_section(steps)
    lines += _section("4. context: the sum of the weighted values", steps.context, "c")
    return lines


def _weights(steps: FiveSteps) -> list[str]:
    local = steps.local
    if local is None:
        masked = bool((steps.weights.sum(-1) == 0).any())  # a query that may not attend to any key
        total = "1, or 0 if masked" if masked else "1"
        lines = _section(f"2. weights: softmax of the scores, each row sums to {total}", steps.weights, "q", "k")
    else:
        window = f"[{local.centre - local.width:g}, {local.centre + local.width:g}]"
        if steps.gaussian is None:
            lines = _section(f"2. weights: softmax inside the window {window}", steps.weights, "q", "k")
        else:
            gaussian = steps.gaussian[np.newaxis, :]
            lines = _section(f"the Gaussian around p = {local.centre:g}, σ = {local.width / 2:g}", gaussian, "g", "k")
            lines += _section(f"2. weights: softmax inside {window}, times the Gaussian", steps.weights, "q", "k")
    if steps.score == "dot" and local is None:
        size = steps.keys.shape[1]
        scaled = [softmax(row / np.sqrt(size), may) for row, may in zip(steps.scores, steps.mask, strict=True)]
        lines += _section(f"   scaled_dot, scores / √{size}, would give", np.array(scaled), "q", "k")
    return lines


def render_json(steps: FiveSteps | MultiHeadSteps) -> str:
    """All numbers in full, as JSON; a score of -inf (beyond the location score's rows) is null."""
    return json.dumps(_values(steps), allow_nan=False)


def _values(steps: FiveSteps | MultiHeadSteps) -> dict[str, Any]:
    if isinstance(steps, MultiHeadSteps):
        heads = [_values(head) for head in steps.heads]
        return {"heads": heads, "joined": steps.joined.tolist(), "output": steps.output.tolist()}
    scores = [[score if math.isfinite(score) else None for score in row] for row in steps.scores.tolist()]
    optional = {
        "gaussian": steps.gaussian,
        "attentional": steps.attentional,
        "probabilities": steps.probabilities,
    }
    return {
        "score": steps.score,
        **({"sharpness": steps.sharpness} if steps.score == "cosine" else {}),
        "query": steps.query.tolist(),
        "keys": steps.keys.tolist(),
        "values": steps.values.tolist(),
        "mask": steps.mask.tolist(),
        "scores": scores,
        "weights": steps.weights.tolist(),
        "weighted_values": steps.weighted_values.tolist(),
        "context": steps.context.tolist(),
        "output": steps.output.tolist(),
        **{name: array.tolist() for name, array in optional.items() if array is not None},
    }


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
            [cell if may else "masked" for cell, may in zip(line, allowed, strict=True)]
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

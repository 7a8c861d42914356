"""The marks of one decoder step, for the animation.

Each number that is drawn carries its value and its place in the record. A local window is shaded, with its centre and
its Gaussian; a model without attention shows its fixed vector; a model without a trace shows its weights alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from rich.cells import cell_len

from regard.look.record import AttentionStep, Candidate, Look, LookStep
from regard.look.views.gif import ACCENT, BLUE, RULE, WIDTH, Mark, Place
from regard.look.views.heatmap import INK, MUTED
from regard.look.views.terminal import shorten
from regard.look.views.terms import term_marks

LEFT, RIGHT = 132.0, WIDTH - 18.0  # of the columns
STATES, SCORES, WEIGHTS, VALUES, CONTEXT, OUTPUT, SO_FAR = 92.0, 196.0, 288.0, 322.0, 412.0, 468.0, 578.0
STRIP, BAR, CANDIDATES = 56.0, 54.0, 4  # heights of a state and of the largest bar; candidates shown
NARROWEST = 31.0  # a column that has room for numbers
MOVING = 0.02  # from this weight on a weighted value is seen sliding into the context
DESCENDED, GROWN = 0.4, 0.75  # of the last stage: the context has come down; the candidates have grown
STAGES = {
    "states": "the encoder has read the source: one state for each piece",
    "scores": "1  scores: the decoder's query meets the key of each piece",
    "weights": "2  softmax: the scores become weights that sum to 1",
    "values": "3  each state times its weight",
    "context": "4  the sum of the weighted states is the context vector",
    "output": "5  context vector and decoder state predict the next piece",
    "vector": "no attention: one fixed vector holds the whole source",
}


@dataclass(frozen=True)
class Scene:
    """One step of the decoder."""

    look: Look
    number: int
    step: LookStep
    trace: AttentionStep | None

    def stages(self) -> list[tuple[str, Callable[[float], list[Mark]]]]:
        """Name and drawing of each stage; a drawing takes the share of its movement that is done."""
        if self.trace is not None:
            return [
                ("states", self._states),
                ("scores", self._scores),
                ("weights", self._weights),
                ("values", self._values),
                ("context", self._context),
                ("output", self._output),
            ]
        if self.look.alignment is not None:
            return [("states", self._states), ("weights", self._weights), ("output", self._output)]
        return [("states", self._states), ("vector", self._vector), ("output", self._output)]

    def passing(self, stage: str, share: float) -> list[Mark]:
        """What a stage shows and the next one takes away."""
        if stage != "scores" or self.trace is None:
            return []
        return term_marks(self.look, self.trace, self._centre, min(22.0, self._column * 0.62), share)

    # --- places ---------------------------------------------------------------------------------------------------

    @property
    def _weight(self) -> list[float]:
        if self.trace is not None:
            return self.trace.weights
        return [] if self.look.alignment is None else self.look.alignment[self.number]

    @property
    def _column(self) -> float:
        return min(96.0, (RIGHT - LEFT) / len(self.look.source.pieces))

    def _centre(self, position: float) -> float:
        return LEFT + (position + 0.5) * self._column

    def _number(self, what: str, position: int, y: float, value: float, form: str, colour: str = INK) -> list[Mark]:
        """A number under a column, where there is room."""
        if self._column < NARROWEST:
            return []
        return [Mark.number(self._centre(position), y, value, form, f"{what}[{position}]", colour=colour)]

    def _label(self, y: float, text: str) -> Mark:
        return Mark.text_at(LEFT - 14, y, text, size=12, colour=MUTED, anchor="right")

    def _strip(self, x: float, top: float, numbers: list[float], what: str) -> list[Mark]:
        """A vector as a column of cells, coloured by sign and size."""
        return [
            Mark.cell(*place, number / self._largest_value, number, f"{what}[{index}]")
            for index, (number, place) in enumerate(zip(numbers, self._cells(x, top, len(numbers)), strict=True))
        ]

    def _cells(self, x: float, top: float, count: int) -> list[Place]:
        width, height = min(22.0, self._column * 0.62), STRIP / count
        return [(x - width / 2, top + index * height, width, height) for index in range(count)]

    # --- stages ---------------------------------------------------------------------------------------------------

    def header(self, stage: str) -> list[Mark]:
        """Step and stage."""
        text = STAGES[stage]
        trace = self.trace
        if stage == "weights" and trace is not None and trace.centre is not None:
            where = f"the window around p = {trace.centre:.1f}"
            text = f"2  softmax inside {where}" + (", times the Gaussian" if trace.gaussian is not None else "")
        elif stage == "weights" and trace is None:
            text = "the weights of this step"
        elif stage == "output" and trace is None:
            text = "the decoder predicts the next piece"
        name = f"step {self.number + 1} of {len(self.look.steps)}"
        if trace is not None and len(self.step.attention) > 1:
            name += f"   layer {trace.layer + 1}, head {trace.head + 1}"
        return [
            Mark.text_at(20, 26, name, size=13, colour=ACCENT, anchor="left"),
            Mark.text_at(LEFT + (130 if "head" in name else 0), 26, text, size=15, colour=INK, anchor="left"),
            Mark.line(20, 46, WIDTH - 20, 46, RULE),
        ]

    def _states(self, share: float) -> list[Mark]:
        """The source with its states; a value is a weighted value over its weight."""
        marks = [self._label(72, "source")]
        pieces = self.look.source.pieces
        count = round(len(pieces) * share)
        cells = max(3, int(self._column / 7.4))
        for position, piece in enumerate(pieces[:count]):
            label = shorten(piece.surface, cells)
            marks.append(Mark.text_at(self._centre(position), 72, label, size=13, what=f"source[{position}]"))
        if self.trace is None:
            return marks
        marks.append(self._label(STATES + STRIP / 2, "states"))
        if self.trace.window is not None:
            first, last = self.trace.window
            left, right = LEFT + first * self._column, LEFT + (last + 1) * self._column
            marks.insert(0, Mark.area(left, STATES - 8, right - left, VALUES + STRIP - STATES + 14, "window"))
        for position in range(count):
            marks += self._strip(self._centre(position), STATES, self._values_at(position), f"state[{position}]")
        return marks

    def _values_at(self, position: int) -> list[float]:
        """The value of a position, from its weighted value; zeros where the weight is zero."""
        assert self.trace is not None
        weight, weighted = self.trace.weights[position], self.trace.weighted_values[position]
        return [number / weight for number in weighted] if weight > 0 else [0.0] * len(weighted)

    @cached_property
    def _largest_value(self) -> float:
        """The scale of all states, the same in every step."""
        assert self.trace is not None
        place = self.trace.layer, self.trace.head
        traces = [each for step in self.look.steps for each in step.attention if (each.layer, each.head) == place]
        sizes = [
            abs(number) / weight
            for trace in traces
            for weight, values in zip(trace.weights, trace.weighted_values, strict=True)
            if weight > 0
            for number in values
        ]
        return max(sizes, default=1.0) or 1.0

    def _scores(self, share: float) -> list[Mark]:
        assert self.trace is not None
        query = self.trace.query
        largest = max(map(abs, query)) or 1.0
        cell = 88.0 / len(query)
        marks = [
            Mark.cell(24 + place * cell, SCORES - 24, cell, 15, number / largest, number, f"query[{place}]")
            for place, number in enumerate(query)
        ]
        marks += [
            Mark.text_at(24, SCORES - 34, "query", size=12, colour=MUTED, anchor="left"),
            self._label(SCORES + 7, "scores"),
        ]
        finite = [0.0, *(score for score in self.trace.scores if score is not None)]
        unit = 30 / ((max(finite) - min(finite)) or 1.0)
        zero = SCORES - 5 + unit * min(finite)  # so that the lowest bar ends above its number
        for position, score in enumerate(self.trace.scores):
            if score is None:
                marks.append(Mark.text_at(self._centre(position), SCORES + 12, "–", size=12, colour=MUTED))
                continue
            tall = unit * share * abs(score)
            upper, colour = (zero - tall, BLUE) if score >= 0 else (zero, ACCENT)
            marks.append(Mark.bar(self._centre(position) - 7, upper, 14, tall, colour))
            if share == 1.0:
                form = ".1f" if abs(score) >= 10 else ".2f"
                marks += self._number("score", position, SCORES + 12, score, form)
        return marks

    def _weights(self, share: float) -> list[Mark]:
        marks = [
            self._label(WEIGHTS + 9, "weights"),
            Mark.line(LEFT, WEIGHTS, self._centre(len(self._weight) - 0.5), WEIGHTS, RULE),
        ]
        width = min(30.0, self._column * 0.7)
        for position, weight in enumerate(self._weight):
            tall = BAR * share * min(weight, 1.0)
            marks.append(Mark.bar(self._centre(position) - width / 2, WEIGHTS - tall, width, tall, BLUE))
            if share == 1.0:
                marks += self._number("weight", position, WEIGHTS + 10, weight, ".2f")
        trace = self.trace
        if trace is not None and trace.gaussian is not None and share == 1.0:
            assert trace.centre is not None
            curve = gaussian_curve(trace.gaussian, trace.centre)
            points = [(self._centre(place), WEIGHTS - BAR * height) for place, height in curve]
            marks.append(Mark.curve(points, ACCENT, tuple(trace.gaussian)))
        if trace is not None and trace.centre is not None:
            at = self._centre(trace.centre - 1)
            marks.append(Mark.line(at, WEIGHTS - BAR - 6, at, WEIGHTS, ACCENT, dashed=True))
            if share == 1.0:
                marks.append(Mark.number(at, WEIGHTS - BAR - 12, trace.centre, ".1f", "centre", colour=ACCENT))
        return marks

    def _values(self, share: float) -> list[Mark]:
        """Copies of the states slide down and fade by their weights."""
        assert self.trace is not None
        marks = [self._label(VALUES + STRIP / 2, "weighted")]
        for position, numbers in enumerate(self.trace.weighted_values):
            centre = self._centre(position)
            if share == 1.0:
                marks += self._strip(centre, VALUES, numbers, f"weighted[{position}]")
            if share == 1.0 or self.trace.weights[position] == 0:
                continue
            places = self._cells(centre, STATES + (VALUES - STATES) * share, len(numbers))
            values = self._values_at(position)
            marks += [
                Mark.moving(place, (value + (number - value) * share) / self._largest_value)
                for place, value, number in zip(places, values, numbers, strict=True)
            ]
        return marks

    def _context_cells(self) -> list[tuple[Place, float]]:
        """Place and shade of each number of the context."""
        assert self.trace is not None
        numbers = self.trace.context
        largest = max(map(abs, numbers)) or 1.0
        width = min(72.0, (RIGHT - LEFT - 130) / len(numbers))
        return [
            ((LEFT + index * width, CONTEXT, width, 26.0), 0.6 * number / largest)
            for index, number in enumerate(numbers)
        ]

    def _context(self, share: float) -> list[Mark]:
        """The weighted values slide into the cells of their sum."""
        assert self.trace is not None
        numbers, cells = self.trace.context, self._context_cells()
        marks = [self._label(CONTEXT + 13, "context")]
        if share < 1.0:
            weights = self.trace.weights
            for position in (each for each, weight in enumerate(weights) if weight >= MOVING):
                starts = self._cells(self._centre(position), VALUES, len(numbers))
                values = self.trace.weighted_values[position]
                marks += [
                    Mark.moving(between(start, end, share), number / self._largest_value * (1 - share) + shade * share)
                    for start, (end, shade), number in zip(starts, cells, values, strict=True)
                ]
            return marks
        for index, (((x, y, width, height), shade), number) in enumerate(zip(cells, numbers, strict=True)):
            what = f"context[{index}]"
            marks.append(Mark.cell(x, y, width, height, shade, number, what))
            marks.append(Mark.number(x + width / 2, CONTEXT + 13, number, ".2f", what))
        size = self.look.dimensions.value
        if size > len(numbers):
            text, end = f"{len(numbers)} of {size} numbers", LEFT + len(numbers) * cells[0][0][2] + 12
            marks.append(Mark.text_at(end, CONTEXT + 13, text, size=11, colour=MUTED, anchor="left"))
        return marks

    def _vector(self, share: float) -> list[Mark]:
        numbers = self.look.fixed_vector or []
        largest = max(map(abs, numbers), default=1.0) or 1.0
        columns = min(32, max(len(numbers), 1))
        cell = (RIGHT - LEFT) / columns
        marks = [self._label(SCORES + 70, "one vector")]
        for place, number in enumerate(numbers):
            x, y = LEFT + place % columns * cell, SCORES + 34 + place // columns * 36
            marks.append(Mark.cell(x, y, cell, 30, share * number / largest, number, f"vector[{place}]"))
        text = f"{len(numbers)} of {self.look.dimensions.summary} numbers"
        marks.append(Mark.text_at(LEFT, SCORES + 124, text, size=11, colour=MUTED, anchor="left"))
        return marks

    def _output(self, share: float) -> list[Mark]:
        """The context comes down, the most probable pieces grow, the chosen one joins the translation."""
        shown = [(f"probability[{rank}]", each) for rank, each in enumerate(self.step.candidates[:CANDIDATES])]
        if self.step.id not in {each.id for _, each in shown}:
            own = Candidate(piece=self.step.piece, id=self.step.id, probability=self.step.probability)
            shown = [*shown[: CANDIDATES - 1], ("chosen_probability", own)]
        marks = [self._label(OUTPUT + 6, "next piece")]
        if share < DESCENDED and self.trace is not None:
            goal = LEFT + 92, OUTPUT - 1.0, 3.0, 14.0
            return [
                *marks,
                *(
                    Mark.moving(between(place, goal, share / DESCENDED), shade)
                    for place, shade in self._context_cells()
                ),
            ]
        grown = min(1.0, max(0.0, (share - DESCENDED) / (GROWN - DESCENDED)))
        for rank, (what, candidate) in enumerate(shown):
            y = OUTPUT + 6 + rank * 22
            chosen = candidate.id == self.step.id
            colour = ACCENT if chosen else MUTED
            label = shorten(candidate.piece.replace("▁", " ").strip() or candidate.piece, 16)
            place = LEFT + 116, y, label
            marks.append(Mark.text_at(*place, size=14, colour=colour, anchor="right", what=f"candidate[{rank}]"))
            marks.append(Mark.bar(LEFT + 128, y - 7, max(1.0, 380 * grown * candidate.probability), 14, colour))
            if share == 1.0:
                x = LEFT + 128 + 380 * candidate.probability + 26
                marks.append(Mark.number(x, y, candidate.probability, ".2f", what, colour=colour))
            elif chosen and share > GROWN:  # the piece joins the translation
                done = (share - GROWN) / (1 - GROWN)
                end = LEFT + 8.6 * cell_len(self._text(self.number))
                x = (LEFT + 90) * (1 - done) + end * done
                marks.append(Mark.text_at(x, y + (SO_FAR - y) * done, label, size=16, colour=ACCENT, anchor="left"))
        return marks

    def _text(self, count: int) -> str:
        """The first `count` pieces of the translation, its end where it is long."""
        words: list[str] = []
        seen: set[int] = set()
        for piece in self.look.target.pieces[:count]:
            inside = piece.word is not None and piece.word in seen
            words.append(piece.surface if inside or not words else f" {piece.surface}")
            if piece.word is not None:
                seen.add(piece.word)
        text = "".join(words)
        return text if len(text) <= 90 else f"… {text[-88:]}"

    def translation(self, *, done: bool) -> list[Mark]:
        """The translation so far; `done`: with the new piece."""
        text = self._text(self.number + done)
        return [
            Mark.line(20, SO_FAR - 22, WIDTH - 20, SO_FAR - 22, RULE),
            self._label(SO_FAR, "so far"),
            Mark.text_at(
                LEFT, SO_FAR, text or "…", size=16, colour=INK if text else MUTED, anchor="left", what="so_far"
            ),
        ]


def between(start: Place, end: Place, share: float) -> Place:
    """A place on the way from start to end."""
    x, y, width, height = (begin + (goal - begin) * share for begin, goal in zip(start, end, strict=True))
    return x, y, width, height


def gaussian_curve(factors: list[float], centre: float) -> list[tuple[float, float]]:
    """Points (position from 0, height) of the Gaussian with these factors at positions 1, 2, …, around its centre."""
    known = [(place + 1 - centre, factor) for place, factor in enumerate(factors) if 1e-5 < factor < 1 - 1e-5]
    if not known:
        return list(enumerate(factors))
    distance, factor = max(known, key=lambda pair: abs(pair[0]))
    spread = -(distance**2) / (2 * math.log(factor))  # the variance
    places = np.linspace(-0.5, len(factors) - 0.5, 20 * len(factors) + 1).tolist()
    return [(place, math.exp(-((place + 1 - centre) ** 2) / (2 * spread))) for place in places]

"""The five steps of attention, played for one sentence with the model's own numbers.

    encoder states → scores → softmax → weighted values → context → the next piece; then the next step

`frames_of` says what stands on every frame, as plain marks: each number that is drawn carries its value and the place
of the record that it comes from. `gif.py` draws the marks. A local window is shaded, with its centre and its
Gaussian; a model without attention shows its one fixed vector; one that gives no trace shows its weights alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from regard.errors import ConfigError
from regard.look.maps import Choice
from regard.look.record import AttentionStep, Candidate, Look, LookStep
from regard.look.views.gif import ACCENT, BLUE, RULE, WIDTH, Frame, Mark, save_gif
from regard.look.views.heatmap import INK, MUTED
from regard.look.views.pictures import check_picture_path
from regard.look.views.terminal import shorten

LEFT, RIGHT = 132.0, WIDTH - 18.0  # of the columns
STATES, SCORES, WEIGHTS, VALUES, CONTEXT, OUTPUT, SAID = 92.0, 196.0, 288.0, 322.0, 412.0, 468.0, 578.0
STRIP, BAR, CANDIDATES = 56.0, 54.0, 4  # heights of a state and of the largest bar; candidates shown
NARROWEST = 31.0  # a column that has room for numbers
HOLD, TWEEN, LAST = 1300, 70, 2600  # milliseconds
GROWING = (0.3, 0.65)
STAGES = {
    "states": "the encoder has read the source: one state for each piece",
    "scores": "1  scores: how well does each state fit what the decoder asks for?",
    "weights": "2  softmax: the scores become weights that sum to 1",
    "values": "3  each state times its weight",
    "context": "4  the sum of the weighted states is the context",
    "output": "5  from the context and its own state the decoder says the next piece",
    "vector": "no attention: everything that was read is in this one vector",
}


def save_animation(
    look: Look,
    path: str | Path,
    choice: Choice = Choice(),  # noqa: B008 (it never changes)
    *,
    steps: int | None = None,
    size: int = WIDTH,
    speed: float = 1.0,
    font: str | Path | None = None,
) -> Path:
    """Draw the first `steps` steps of a look into a .gif file, `size` pixels wide."""
    path = check_picture_path(path, ("gif",))
    save_gif(frames_of(look, choice, steps), path, size=size, speed=speed, font=font)
    return path


def frames_of(look: Look, choice: Choice = Choice(), steps: int | None = None) -> list[Frame]:  # noqa: B008
    """All frames in order; of several layers and heads the chosen one, by default the last layer's first head."""
    if choice.kind not in (None, "cross"):
        raise ConfigError(f"{choice.kind}: the animation shows how the decoder attends to the source, kind cross.")
    frames: list[Frame] = []
    chosen = look.steps[:steps]
    for number, step in enumerate(chosen):
        scene = _Scene(look, number, step, _trace(look, step, choice))
        frames += scene.frames()
    if frames:
        frames[-1] = replace(frames[-1], milliseconds=LAST)
    return frames


def _trace(look: Look, step: LookStep, choice: Choice) -> AttentionStep | None:
    if not step.attention:
        return None
    sizes = look.model.attention["cross"]
    layer, head = choice.layer or sizes.layers, choice.head or 1
    for trace in step.attention:
        if (trace.layer + 1, trace.head + 1) == (layer, head):
            return trace
    raise ConfigError(
        f"{look.model.name} has no cross layer {layer}, head {head}: its layers are numbered from 1 to {sizes.layers}, "
        f"the heads of each from 1 to {sizes.heads}."
    )


@dataclass(frozen=True)
class _Scene:
    """One step of the decoder."""

    look: Look
    number: int
    step: LookStep
    trace: AttentionStep | None

    def frames(self) -> Iterator[Frame]:
        """What appears, stage by stage; what has appeared stays."""
        shown: list[Mark] = []
        for stage, draw in self._stages():
            header = [*self._header(stage), *self._said(done=False)]
            for share in () if stage == "states" and self.number else GROWING:
                yield Frame((*header, *shown, *draw(share)), TWEEN, stage, self.number)
            shown += draw(1.0)
            if stage == "output":
                header = [*self._header(stage), *self._said(done=True)]
            if stage == "states" and self.number:
                continue  # they have not changed since the first step
            yield Frame((*header, *shown), HOLD, stage, self.number)

    def _stages(self) -> list[tuple[str, Callable[[float], list[Mark]]]]:
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

    # --- places ---------------------------------------------------------------------------------------------------

    @property
    def _weight(self) -> list[float]:
        if self.trace is not None:
            return self.trace.weights
        return [] if self.look.alignment is None else self.look.alignment[self.number]

    @property
    def _column(self) -> float:
        return min(72.0, (RIGHT - LEFT) / len(self.look.source.pieces))

    def _centre(self, position: float) -> float:
        return LEFT + (position + 0.5) * self._column

    def _number(self, what: str, position: int, y: float, value: float, form: str, colour: str = INK) -> list[Mark]:
        """A number under a column, where there is room."""
        if self._column < NARROWEST:
            return []
        return [Mark.number(self._centre(position), y, value, form, f"{what}[{position}]", colour=colour)]

    def _label(self, y: float, text: str) -> Mark:
        return Mark.text_at(LEFT - 14, y, text, size=12, colour=MUTED, anchor="right")

    def _strip(
        self, x: float, top: float, numbers: list[float], what: str, largest: float, share: float = 1.0
    ) -> list[Mark]:
        """A vector as a column of cells, coloured by sign and size."""
        width, height = min(22.0, self._column * 0.62), STRIP / len(numbers)
        return [
            Mark.cell(
                x - width / 2, top + place * height, width, height, number * share / largest, number, f"{what}[{place}]"
            )
            for place, number in enumerate(numbers)
        ]

    # --- stages ---------------------------------------------------------------------------------------------------

    def _header(self, stage: str) -> list[Mark]:
        text = STAGES[stage]
        trace = self.trace
        if stage == "weights" and trace is not None and trace.centre is not None:
            where = f"the window around p = {trace.centre:.1f}"
            text = f"2  softmax inside {where}" + (", times the Gaussian" if trace.gaussian is not None else "")
        elif stage == "weights" and trace is None:
            text = "the weights of this step"
        elif stage == "output" and trace is None:
            text = "the decoder says the next piece"
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
        largest = self._largest_value()
        for position in range(count):
            weight, weighted = self.trace.weights[position], self.trace.weighted_values[position]
            values = [number / weight for number in weighted] if weight > 0 else [0.0] * len(weighted)
            marks += self._strip(self._centre(position), STATES, values, f"state[{position}]", largest)
        return marks

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
            points = [(self._centre(place), WEIGHTS - BAR * height) for place, height in enumerate(trace.gaussian)]
            marks.append(Mark.curve(points, ACCENT, tuple(trace.gaussian)))
        if trace is not None and trace.centre is not None:
            at = self._centre(trace.centre - 1)
            marks.append(Mark.line(at, WEIGHTS - BAR - 6, at, WEIGHTS, ACCENT, dashed=True))
            if share == 1.0:
                marks.append(Mark.number(at, WEIGHTS - BAR - 12, trace.centre, ".1f", "centre", colour=ACCENT))
        return marks

    def _values(self, share: float) -> list[Mark]:
        assert self.trace is not None
        marks = [self._label(VALUES + STRIP / 2, "weighted")]
        largest = self._largest_value()
        for position, numbers in enumerate(self.trace.weighted_values):
            marks += self._strip(self._centre(position), VALUES, numbers, f"weighted[{position}]", largest, share)
        return marks

    def _context(self, share: float) -> list[Mark]:
        assert self.trace is not None
        numbers = self.trace.context
        largest = max(map(abs, numbers)) or 1.0
        cell = min(72.0, (RIGHT - LEFT - 130) / len(numbers))
        marks = [self._label(CONTEXT + 13, "context")]
        for place, number in enumerate(numbers):
            what = f"context[{place}]"
            marks.append(
                Mark.cell(LEFT + place * cell, CONTEXT, cell, 26, share * 0.6 * number / largest, number, what)
            )
            if share == 1.0:
                marks.append(Mark.number(LEFT + (place + 0.5) * cell, CONTEXT + 13, number, ".2f", what))
        size = self.look.dimensions.value
        if size > len(numbers):
            text = f"{len(numbers)} of {size} numbers"
            marks.append(
                Mark.text_at(LEFT + len(numbers) * cell + 12, CONTEXT + 13, text, size=11, colour=MUTED, anchor="left")
            )
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
        """The likeliest pieces; what was said stands last if it is not among them."""
        shown = [(f"probability[{rank}]", each) for rank, each in enumerate(self.step.candidates[:CANDIDATES])]
        if self.step.id not in {each.id for _, each in shown}:
            own = Candidate(piece=self.step.piece, id=self.step.id, probability=self.step.probability)
            shown = [*shown[: CANDIDATES - 1], ("said_probability", own)]
        marks = [self._label(OUTPUT + 6, "next piece")]
        for rank, (what, candidate) in enumerate(shown):
            y = OUTPUT + 6 + rank * 22
            colour = ACCENT if candidate.id == self.step.id else MUTED
            label = shorten(candidate.piece.replace("▁", " ").strip() or candidate.piece, 16)
            place = LEFT + 116, y, label
            marks.append(Mark.text_at(*place, size=14, colour=colour, anchor="right", what=f"candidate[{rank}]"))
            marks.append(Mark.bar(LEFT + 128, y - 7, max(1.0, 380 * share * candidate.probability), 14, colour))
            if share == 1.0:
                x = LEFT + 128 + 380 * candidate.probability + 26
                marks.append(Mark.number(x, y, candidate.probability, ".2f", what, colour=colour))
        return marks

    def _said(self, *, done: bool) -> list[Mark]:
        """The translation so far, its end where it is long, and the new piece."""
        pieces = self.look.target.pieces[: self.number + done]
        words: list[str] = []
        seen: set[int] = set()
        for piece in pieces:
            inside = piece.word is not None and piece.word in seen
            words.append(piece.surface if inside or not words else f" {piece.surface}")
            if piece.word is not None:
                seen.add(piece.word)
        text = "".join(words)
        shown = text if len(text) <= 90 else f"… {text[-88:]}"
        return [
            Mark.line(20, SAID - 22, WIDTH - 20, SAID - 22, RULE),
            self._label(SAID, "said so far"),
            Mark.text_at(LEFT, SAID, shown or "…", size=16, colour=INK if shown else MUTED, anchor="left", what="said"),
        ]

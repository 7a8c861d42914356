"""Lays out the graph of `diagram.py` and writes it as SVG: one file, no script, light and dark.

Encoder on the left, decoder on the right, time to the right, depth upwards. What a decoder column computes goes
straight up; attention stands to the left of its column, so that nothing has to go around it. The keys run along one
rail that every attention taps. Lines are orthogonal; each role has its own lane beside a column and its own port on a
box.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import groupby

from regard.look.views.svg import (
    CORNER,
    ROLE_NAMES,
    Point,
    diagram_style,
    fit,
    line,
    marker_elements,
    plain_text,
    rounded,
    text_element,
    text_width,
)
from regard.models.wiring import Diagram, DiagramBox, Edge, literal, state_text

ENCODER_PITCH, DECODER_PITCH = 104, 188
ROW_PITCH, RESIDUAL_ROW_PITCH = 74, 88
MARGIN, LABEL_ROOM, TITLE_ROOM, GUTTER = 28, 150, 86, 60
BOX_WIDTH, BOX_HEIGHT, WORD_WIDTH, ATTEND_WIDTH = 68, 30, 84, 80
DIRECTION_WIDTH, DIRECTION_SHIFT, DIRECTION_LANE = 52, 18, 27
ATTEND_SHIFT = -84  # attention stands left of its column
CONTEXT_LANE, RIGHT_LANE, FEEDING_LANE = -62, 44, 54  # from the middle of a column
RAIL_DROP = 34  # the rail of keys runs below the attention boxes
SELF_PORT, SELF_DROP = 22, 20
PORT = 9  # lines that enter a box beside the recurrent one
LINE_HEIGHT = 24


def draw_diagram(diagram: Diagram, title: str, subtitle: str = "", *, prefix: str = "", styled: bool = True) -> str:
    """The SVG text of a diagram; ids begin with `prefix`, and a page that has `diagram_style` needs no style in it."""
    return Drawing(diagram, prefix).svg(literal(title), literal(subtitle), styled)


@dataclass(frozen=True)
class _Frame:
    """Where a node stands."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height / 2


class Drawing:
    """The geometry of one diagram."""

    def __init__(self, diagram: Diagram, prefix: str = "") -> None:
        self.diagram = diagram
        self.prefix = prefix
        nodes = diagram.nodes.values()
        self.positions = max(node.column for node in nodes if node.part == "encoder")
        self.steps = max(node.column for node in nodes if node.part == "decoder")
        self.attends = any(node.kind == "attend" for node in nodes)
        keys = [diagram.nodes[edge.source].row for edge in diagram.edges if edge.role == "keys"]
        self.rows = max([node.row for node in nodes] + [row + 1 for row in keys])  # the rail runs above the keys
        self.row_pitch = RESIDUAL_ROW_PITCH if any(node.kind == "add" for node in nodes) else ROW_PITCH
        self.encoder_left = MARGIN + LABEL_ROOM + ENCODER_PITCH / 2
        self.gutter = self.encoder_left + (self.positions - 0.5) * ENCODER_PITCH
        before = any(node.part == "decoder" and node.column == 0 for node in nodes)
        self.before_first = self.gutter + GUTTER  # the column before the first step
        lead = DECODER_PITCH if before else (-ATTEND_SHIFT + ATTEND_WIDTH / 2 + 10 if self.attends else 40)
        self.decoder_left = self.before_first + lead
        self.pitch = DECODER_PITCH if self.attends or before else ENCODER_PITCH + 20
        self.decoder_right = self.decoder_left + (self.steps - 1) * self.pitch + BOX_WIDTH / 2
        self.labels_left = self.decoder_right + FEEDING_LANE - RIGHT_LANE + 24  # of the decoder's rows
        self.base = MARGIN + TITLE_ROOM + self.rows * self.row_pitch + BOX_HEIGHT / 2
        self.boxes = {node.name: self._box(node) for node in nodes}

    def column_x(self, node: DiagramBox) -> float:
        """The middle of a node's column."""
        if node.part == "encoder":
            return self.encoder_left + (node.column - 1) * ENCODER_PITCH
        if node.column == 0:
            return self.before_first + 20
        return self.decoder_left + (node.column - 1) * self.pitch

    def row_y(self, row: float) -> float:
        return self.base - row * self.row_pitch

    def _box(self, node: DiagramBox) -> _Frame:
        x, y = self.column_x(node), self.row_y(node.row)
        if node.kind == "attend":
            return _Frame(x + ATTEND_SHIFT, y, ATTEND_WIDTH, BOX_HEIGHT + 8)
        if node.kind == "centre":
            return _Frame(x + ATTEND_SHIFT - 20, y, 28, 28)
        if node.kind == "add":
            return _Frame(x, y, 17, 17)
        if node.kind == "zero":
            return _Frame(x, y, 28, 28)
        if node.kind in ("forward", "backward"):
            shift = -DIRECTION_SHIFT if node.kind == "forward" else DIRECTION_SHIFT
            return _Frame(x + shift, y, DIRECTION_WIDTH, BOX_HEIGHT)
        return _Frame(x, y, WORD_WIDTH if node.kind == "word" else BOX_WIDTH, BOX_HEIGHT)

    # --- routes: the corner points of a line, from source to target ---------------------------------------------------

    def route(self, edge: Edge) -> list[Point]:
        """The corners of an edge's line."""
        source, target = self.diagram.nodes[edge.source], self.diagram.nodes[edge.target]
        routes = {
            "recurrent": self._recurrent,
            "self": self._self,
            "start": self._start,
            "query": self._query,
            "context": self._context,
            "feeding": self._feeding,
            "residual": self._residual,
            "word": self._word,
        }
        return routes.get(edge.role, self._upwards)(source, target)

    def _upwards(self, source: DiagramBox, target: DiagramBox) -> list[Point]:
        start, end = self.boxes[source.name], self.boxes[target.name]
        x = min(start.x, end.x) if "centre" in (source.kind, target.kind) else self.column_x(target)
        if "forward" in (source.kind, target.kind):
            x -= DIRECTION_LANE
        elif "backward" in (source.kind, target.kind):
            x += DIRECTION_LANE
        if source.kind == "centre":
            return [(start.x, start.bottom), (start.x, end.top)]
        return [(x, start.top), (x, end.bottom)]

    def _recurrent(self, source: DiagramBox, target: DiagramBox) -> list[Point]:
        start, end = self.boxes[source.name], self.boxes[target.name]
        if start.x < end.x:
            return [(start.right, start.y), (end.left, end.y)]
        return [(start.left, start.y), (end.right, end.y)]

    def _self(self, source: DiagramBox, target: DiagramBox) -> list[Point]:
        """Up to a rail between two layers, along it, and up; a word's look at itself goes straight."""
        start, end = self.boxes[source.name], self.boxes[target.name]
        if source.column == target.column:
            return [(end.x - SELF_PORT, start.top), (end.x - SELF_PORT, end.bottom)]
        leave = start.x + SELF_PORT if source.column < target.column else start.x - SELF_PORT
        between = end.bottom + SELF_DROP
        return [(leave, start.top), (leave, between), (end.x - SELF_PORT, between), (end.x - SELF_PORT, end.bottom)]

    def _start(self, source: DiagramBox, target: DiagramBox) -> list[Point]:
        start, end = self.boxes[source.name], self.boxes[target.name]
        if source.part == target.part:
            return [(start.x, start.top), (start.x, end.bottom)]
        lane = self.gutter + 4
        if source.kind == "backward":  # its last state is the first word's: it passes below its own row
            between, x = start.y + self.row_pitch / 2, start.x - 8
            return [(x, start.bottom), (x, between), (lane, between), (lane, end.y), (end.left, end.y)]
        if start.y == end.y:
            return [(start.right, start.y), (end.left, end.y)]
        lane += 10 + 7 * (source.row % 5)
        return [(start.right, start.y), (lane, start.y), (lane, end.y), (end.left, end.y)]

    def _query(self, source: DiagramBox, target: DiagramBox) -> list[Point]:
        start, end = self.boxes[source.name], self.boxes[target.name]
        if source.column == target.column:  # this step's state: attention stands above it to the left
            x = start.x - 20
            return [(x, start.top), (x, end.y), (end.right, end.y)]
        if source.row == target.row:
            return [(start.right, start.y), (end.left, end.y)]
        x = start.x + 20
        if source.row < target.row:
            return [(x, start.top), (x, end.y), (end.left, end.y)]
        if source.row - target.row <= 1 or source.column == 0:
            return [(x, start.bottom), (x, end.y), (end.left, end.y)]
        lane = start.x + RIGHT_LANE
        return [(start.right, start.y - PORT), (lane, start.y - PORT), (lane, end.y), (end.left, end.y)]

    def _context(self, source: DiagramBox, target: DiagramBox) -> list[Point]:
        start, end = self.boxes[source.name], self.boxes[target.name]
        y, lane = end.y + PORT, self.column_x(target) + CONTEXT_LANE
        if source.kind != "attend":  # one vector for all steps
            return [(start.right, start.y), (lane, start.y), (lane, y), (end.left, y)]
        if source.column == target.column:
            return [(lane, start.top), (lane, y), (end.left, y)]
        # to the bottom layer of the next step
        x, between = start.x + 22, start.bottom + 24
        lane = self.column_x(source) + FEEDING_LANE
        return [(x, start.bottom), (x, between), (lane, between), (lane, y), (end.left, y)]

    def _feeding(self, source: DiagramBox, target: DiagramBox) -> list[Point]:
        start, end = self.boxes[source.name], self.boxes[target.name]
        lane, y = start.x + FEEDING_LANE, end.y - PORT
        return [(start.right, start.y), (lane, start.y), (lane, y), (end.left, y)]

    def _residual(self, source: DiagramBox, target: DiagramBox) -> list[Point]:
        start, end = self.boxes[source.name], self.boxes[target.name]
        lane, y = start.x + RIGHT_LANE, start.top - 6
        # it branches off beside the line that goes up, so that its halo does not cut that line
        return [(start.x + 0.7, y), (lane, y), (lane, end.y), (end.right, end.y)]

    def _word(self, source: DiagramBox, target: DiagramBox) -> list[Point]:
        start, end = self.boxes[source.name], self.boxes[target.name]
        lane = start.x + RIGHT_LANE + 4
        return [(start.right, start.y), (lane, start.y), (lane, end.y), (end.right, end.y)]

    # --- drawing --------------------------------------------------------------------------------------------------

    def svg(self, title: str, subtitle: str, styled: bool = True) -> str:
        legend_y = self.base + BOX_HEIGHT / 2 + 44
        body = [*self._rail(), *self._lines(), *self._nodes(), *self._labels()]
        body.append(text_element(MARGIN, MARGIN + 14, title, "title"))
        body.append(text_element(MARGIN, MARGIN + 38, subtitle, "note"))
        labels = [text_width(label, 13) for half, _, label in self.diagram.row_labels if half == "decoder"]
        width = max(self.decoder_right + LABEL_ROOM + MARGIN, self.labels_left + max(labels) + MARGIN / 2)
        legend, bottom = self._legend(legend_y, width)
        body += legend
        for number, note in enumerate(self.diagram.notes, start=1):
            body.append(text_element(MARGIN, bottom + 10 + number * LINE_HEIGHT, note, "note"))
        height = bottom + 10 + len(self.diagram.notes) * LINE_HEIGHT + MARGIN
        notes = [text_width(note, 14) for note in (*self.diagram.notes, subtitle)]
        width = max(width, 2 * MARGIN + max(notes))
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="diagram" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(plain_text(title))}">'
        )
        page = f'<rect class="page" width="{width:.0f}" height="{height:.0f}"/>'
        style = [f"<style>{diagram_style()}</style>"] if styled else []
        return "\n".join([head, *style, marker_elements(self.prefix), page, *body, "</svg>", ""])

    def _rail(self) -> list[str]:
        keys = {edge.source for edge in self.diagram.edges if edge.role == "keys"}
        if not keys:
            return []
        tops = {name: self.boxes[name] for name in keys}
        taps = {node.name: self.boxes[node.name] for node in self.diagram.nodes.values() if node.kind == "attend"}
        high = min(box.y for box in tops.values()) - self.row_pitch + RAIL_DROP
        left, right = min(box.x for box in tops.values()), max(box.x for box in taps.values()) - 14
        gutter = self.gutter + 30
        lines: list[str] = []
        for low in sorted({box.y + RAIL_DROP for box in taps.values()}):  # one row of attention, or one in each layer
            corners = [(left, high), (gutter, high), (gutter, low), (right, low)]
            lines.append(f'<path class="rail" d="{rounded(corners, 10)}"/>')
        for name, box in sorted(tops.items(), key=lambda item: item[1].x):
            lines.append(self._line([(box.x, box.top), (box.x, high)], "keys", f"keys.{name}", arrow=False))
        for name, box in taps.items():
            lines.append(self._line([(box.x - 14, box.y + RAIL_DROP), (box.x - 14, box.bottom)], "keys", f"tap.{name}"))
        lines.append(text_element(left - 4, high - 10, "keys and values", "rail-label"))
        return lines

    def _lines(self) -> list[str]:
        drawn = [edge for edge in self.diagram.edges if edge.role != "keys"]
        order = list(ROLE_NAMES)
        drawn.sort(key=lambda edge: order.index("input" if edge.role == "word" else edge.role))
        lines: list[str] = []
        for role, edges in groupby(drawn, key=lambda edge: "input" if edge.role == "word" else edge.role):
            routes = {f"edge.{edge.source}.{edge.target}.{edge.role}": self.route(edge) for edge in edges}
            # A halo of the page's colour tells crossing lines apart; all of a role's come first, because lines of
            # one role may share a trunk.
            lines += [f'<path class="halo" d="{rounded(route, CORNER)}"/>' for route in routes.values()]
            lines += [self._line(route, role, name) for name, route in routes.items()]
        return lines

    def _line(self, points: list[Point], role: str, name: str = "", *, arrow: bool = True) -> str:
        return line(points, role, arrow, name=name, prefix=self.prefix)

    def _nodes(self) -> list[str]:
        return [
            f'<g id="{self.prefix}node.{node.name}" class="node" data-column="{node.column}">{self._node(node)}</g>'
            for node in self.diagram.nodes.values()
        ]

    def _node(self, node: DiagramBox) -> str:
        box = self.boxes[node.name]
        look = {"word": "word", "attend": "attend", "centre": "attend", "zero": "word"}.get(node.kind, node.part)
        radius = {"word": 15.0, "attend": 8.0, "vector": 2.0}.get(node.kind, 6.0)
        if node.kind in ("add", "centre", "zero"):
            radius = box.height / 2
        shape = (
            f'<rect class="box {look}" x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" '
            f'height="{box.height:.1f}" rx="{radius:.1f}"/>'
        )
        if node.kind == "attend":
            return (
                shape
                + text_element(box.x, box.y - 3, self._context_text(node), "inside")
                + text_element(box.x, box.y + 12, literal(node.text), "small")
            )
        text = fit(node.text, box.width - 12) if node.kind == "word" else node.text
        return shape + text_element(box.x, box.y + 5, text, "inside")

    def _context_text(self, node: DiagramBox) -> str:
        """c with its step and, if several layers attend, its layer: the box is `attend.LAYER.STEP` then."""
        layers = {name.split(".")[1] for name in self.boxes if name.startswith("attend.") and name.count(".") == 2}
        layer = node.name.split(".")[1]
        return state_text("c", node.column, int(layer), numbered=len(layers) > 1)

    def _labels(self) -> list[str]:
        lefts = {"encoder": self.encoder_left - ENCODER_PITCH / 2 - 14, "decoder": self.labels_left}
        return [
            text_element(lefts[side], self.row_y(row) + 5, label, f"label {side}-label")
            for side, row, label in self.diagram.row_labels
        ]

    def _legend(self, y: float, width: float) -> tuple[list[str], float]:
        present = {edge.role for edge in self.diagram.edges}
        x, lines = float(MARGIN), []
        for role, name in ROLE_NAMES.items():
            if role not in present or role == "centre":
                continue
            room = 40 + text_width(name, 13) + 26
            if x + room > width - MARGIN:
                x, y = float(MARGIN), y + LINE_HEIGHT
            lines.append(self._line([(x, y), (x + 32, y)], role))
            lines.append(text_element(x + 40, y + 4.5, name, "legend"))
            x += room
        return lines, y

"""Figures of a comparison as SVG text: BLEU by length, loss and validation curves, accuracies, attention."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from regard.comparison.results import SCORES, Comparison
from regard.errors import RegardError
from regard.evaluation.by_length import draw_legend, figure_size, plot_by_length
from regard.look.views.heatmap import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMOOTHED = 5  # points of a loss curve averaged
DASHES = ("-", "--", ":")  # after each ten colours


def by_length_svg(comparison: Comparison) -> str | None:
    """BLEU by source length, a line per entry; None if all sentences are of one range."""
    rows = {entry.label: entry.by_length for entry in comparison.entries if entry.by_length}
    if not rows or max(len(each) for each in rows.values()) < 2:
        return None
    with TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder) / "by-length.svg"
        plot_by_length(rows, path, title="BLEU by source length")
        return inline(path.read_text("utf-8"))


def curves_svg(comparison: Comparison) -> str | None:
    """Training loss over minutes, a line per entry of the first seed; None without logs."""
    curves = {}
    for entry in comparison.entries:
        curve = entry.first.get("curve", [])
        curves[entry.label] = ([point[1] / 60 for point in curve], _smooth([point[2] for point in curve]))
    return _lines(curves, "Training loss", "minutes of training", "loss")


def validation_score_svg(comparison: Comparison) -> str | None:
    """BLEU or accuracy on the validation set over minutes, a line per entry of the first seed."""
    if comparison.task not in SCORES:
        return None
    title, _, unit = SCORES[comparison.task]
    curves = {
        entry.label: ([p["seconds"] / 60 for p in entry.validations], [unit * p["score"] for p in entry.validations])
        for entry in comparison.entries
    }
    return _lines(curves, f"Validation {title}", "minutes of training", title, marker=".")


def validation_loss_svg(comparison: Comparison) -> str | None:
    """Loss on the validation set over epochs, a line per entry of the first seed."""
    points = {entry.label: entry.first.get("validations", []) for entry in comparison.entries}
    curves = {name: ([p["epochs"] for p in each], [p["loss"] for p in each]) for name, each in points.items()}
    return _lines(curves, "Validation loss", "epochs", "loss", marker=".")


def _lines(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], title: str, across: str, up: str, marker: str = ""
) -> str | None:
    """A line for each curve with two points or more; None if there is none."""
    drawn = {name: curve for name, curve in curves.items() if len(curve[0]) > 1}
    if not drawn:
        return None

    def draw(axes: Axes) -> None:
        for place, (name, (x, y)) in enumerate(drawn.items()):
            axes.plot(x, y, label=name, marker=marker, linestyle=DASHES[place // 10 % len(DASHES)])
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.set_title(title)

    return _svg(draw, figure_size(len(drawn)))


def accuracies_svg(comparison: Comparison) -> str:
    """A dot for each seed, a bar for their mean; the axis does not begin at 0."""
    entries = comparison.entries

    def draw(axes: Axes) -> None:
        for place, entry in enumerate(entries):
            dots = [100 * value for value in entry.values("accuracy")]
            mean = 100 * (entry.mean("accuracy") or math.nan)
            axes.plot(dots, [place] * len(dots), "o", markersize=6, alpha=0.8, clip_on=False)
            axes.plot([mean] * 2, [place - 0.34, place + 0.34], color=INK, linewidth=2.2)
        axes.set_yticks(range(len(entries)), [entry.label for entry in entries])
        axes.set_ylim(len(entries) - 0.4, -0.75)
        axes.set_xlabel("test accuracy, % (a dot for each seed, a bar for their mean)", color=MUTED, fontsize=9)

    return _svg(draw, (6.4, 0.55 * len(entries) + 1.3), legend=False)


@lru_cache(maxsize=512)  # the report is rewritten after each entrant
def attention_svg(model: str, label: str, sentence: str) -> str | None:
    """The attention of a sentence; None for a model without attention."""
    from regard.inference.translator import Translator
    from regard.look.views.save import save_looks

    try:
        look = Translator.load(model).look(sentence)
        with TemporaryDirectory(prefix="regard-") as folder:
            path = save_looks([look], Path(folder) / "attention.svg", title=label)
            return inline(path.read_text("utf-8"))
    except RegardError:
        return None  # no attention, or a model folder that has gone


def inline(svg: str) -> str:
    """The <svg> element alone, with identifiers of its own so that several can stand on one page."""
    element = svg[svg.index("<svg") :]
    mark = f"{abs(hash(element)) % 2**32:x}"
    element = re.sub(r'\bid="([^"]+)"', rf'id="{mark}-\1"', element)
    element = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{mark}-\2"', element)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{mark}-\1)", element)


def _smooth(values: list[float]) -> list[float]:
    return [
        sum(values[max(0, place - SMOOTHED + 1) : place + 1]) / min(SMOOTHED, place + 1) for place in range(len(values))
    ]


def _svg(draw: Callable[[Axes], None], size: tuple[float, float], *, legend: bool = True) -> str:
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    draw(axes)
    axes.grid(axis="both" if legend else "x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        draw_legend(axes)
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    return inline(written.getvalue())

"""The plot of gradient norms by distance, one line per model, on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from regard.look.gradients import GradientReach
from regard.look.views.heatmap import INK, PAPER, save_figure


def gradients_figure(found: Sequence[GradientReach]) -> Figure:
    """‖∂loss/∂x_j‖ over the distance of word j from the end of the source."""
    figure = Figure(figsize=(7.2, 4.4), facecolor=PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for each, marker in zip(found, "os^DvPX*" * len(found), strict=False):
        axes.semilogy(range(len(each.norms)), each.norms, marker=marker, markersize=3.5, label=each.name)
    axes.set_xlabel("distance from the end of the source, in words", color=INK)
    axes.set_ylabel("gradient norm ‖∂loss/∂xⱼ‖", color=INK)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def save_gradients(found: Sequence[GradientReach], path: Path) -> None:
    """Write the picture."""
    save_figure(gradients_figure(found), path, 150)

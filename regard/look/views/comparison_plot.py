"""The plot of a comparison: a dot for each seed, a bar for their mean."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from regard.evaluation.comparison import NAMES, Comparison
from regard.look.views.heatmap import COLOURS, INK, MUTED, PAPER, save_figure

BAR = 0.34  # half the length of a mean's bar


def comparison_figure(comparison: Comparison) -> Figure:
    """Accuracy of each network, best readable where they differ: the axis does not begin at 0."""
    entries = comparison.entries
    figure = Figure(figsize=(6.4, 0.55 * len(entries) + 1.3), facecolor=PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, entry in enumerate(entries):
        dots = [100 * accuracy for accuracy in entry.accuracies]
        axes.plot(dots, [place] * len(dots), "o", color=COLOURS(0.55), markersize=6, alpha=0.8, clip_on=False)
        axes.plot([100 * entry.mean] * 2, [place - BAR, place + BAR], color=INK, linewidth=2.2, solid_capstyle="round")
        axes.annotate(
            f"{100 * entry.mean:.2f}", (100 * entry.mean, place - BAR), (0, 2), textcoords="offset points", ha="center",
            fontsize=8, color=INK,
        )  # fmt: skip
    axes.set_yticks(range(len(entries)), [NAMES[entry.name] for entry in entries], color=INK)
    axes.set_ylim(len(entries) - 0.4, -0.75)
    axes.margins(x=0.08)
    axes.set_xlabel("test accuracy, % (a dot for each seed, a bar for their mean)", color=MUTED, fontsize=9)
    axes.set_title(f"{comparison.data}, {comparison.budget} of training each", color=INK, fontsize=11)
    axes.grid(axis="x", color="#e5e9ed")
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelcolor=INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


def save_plot(comparison: Comparison, path: str | Path) -> None:
    """Write the picture."""
    save_figure(comparison_figure(comparison), Path(path), 150)

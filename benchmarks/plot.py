"""The picture of a benchmark: a panel for training and one for each way of translating."""

from __future__ import annotations

import statistics
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report import ALLOCATORS, rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OWN, PEER = "#2b6cb0", "#a0aec0"
COLUMNS = 2
WIDEST = 28  # characters of a name, before it is broken

Bars = list[tuple[str, float]]


def panels(results: dict[str, Any]) -> dict[str, Bars]:
    """What to draw: titles, and under each a bar for every side, the fastest first."""
    records = [*results.get("train", []), *results.get("translate", [])]
    drawn: dict[str, Bars] = {title: [] for title in map(_title, records)}
    for title, bars in drawn.items():
        alike = [record for record in records if _title(record) == title]
        for side, allocator in rows(alike):
            values = [_value(each) for each in alike if (each["side"], each["allocator"]) == (side, allocator)]
            label = f"{side}, {ALLOCATORS[allocator]}" if allocator == "tuned" else side
            bars.append((textwrap.fill(label, WIDEST), statistics.median(values)))
        bars.sort(key=lambda bar: bar[1], reverse=not title.endswith("seconds"))
    return drawn


def _title(record: dict[str, Any]) -> str:
    if "tokens_per_second" in record:
        return f"training, {record['batch']}: tokens/s"
    return f"{record['job']}: {'seconds' if record['whole_process'] else 'sentences/s'}"


def _value(record: dict[str, Any]) -> float:
    if "tokens_per_second" in record:
        return float(record["tokens_per_second"])
    speed = float(record["sentences_per_second"])
    return 1 / speed if record["whole_process"] else speed


def draw(results: dict[str, Any], path: Path) -> None:
    """Write the PNG."""
    from matplotlib.figure import Figure

    drawn = panels(results)
    if not drawn:
        return
    lines = -(-len(drawn) // COLUMNS)
    tallest = max(len(bars) for bars in drawn.values())
    figure = Figure(figsize=(6.2 * COLUMNS, lines * (0.9 + 0.42 * tallest)))
    figure.set_layout_engine("constrained", h_pad=0.12, w_pad=0.12)
    for place, (title, bars) in enumerate(drawn.items()):
        _panel(figure.add_subplot(lines, COLUMNS, place + 1), title, bars)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _panel(axes: Axes, title: str, bars: Bars) -> None:
    names, values = [bar[0] for bar in bars], [bar[1] for bar in bars]
    colours = [OWN if name.startswith("Regard") else PEER for name in names]
    drawn = axes.barh(range(len(bars)), values, color=colours, height=0.7)
    shown = [f"{value:,.0f}" if value >= 100 else f"{value:.1f}" for value in values]
    axes.bar_label(drawn, shown, padding=4, fontsize=9)
    axes.set_yticks(range(len(bars)), names, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(values))
    better = "shorter is better" if title.endswith("seconds") else "longer is better"
    axes.set_title(f"{title} ({better})", fontsize=10, loc="left")
    axes.xaxis.set_visible(False)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.tick_params(axis="y", length=0)

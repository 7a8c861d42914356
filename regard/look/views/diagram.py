"""A model unrolled over a short sentence: the graph that `diagram_svg.py` draws, of a recipe or of a look."""

from __future__ import annotations

from regard.config.models import ModelConfig
from regard.errors import ConfigError
from regard.look.record import Look
from regard.look.views.diagram_svg import draw_diagram
from regard.models import WIRES
from regard.models.wiring import Diagram, Wiring, literal

MOST_WORDS = 8
END = "</s>"


def build_diagram(model: ModelConfig, source: str, target: str | None = None) -> Diagram:
    """The graph of a model over the words of a sentence; without a target, three placeholder steps."""
    source_words = [*_words(source, "source"), END]
    target_words = [*(_words(target, "target") if target is not None else ["y_1", "y_2"]), END]
    wiring = Wiring(source_words, target_words)
    WIRES[model.kind](wiring, model)
    return Diagram(wiring.nodes, tuple(wiring.edges), tuple(wiring.row_labels), tuple(wiring.notes))


def look_diagram(model: ModelConfig, look: Look, *, prefix: str = "", styled: bool = True) -> str:
    """The SVG of a model over the words of a look, up to eight of each side; docs/look-format.md names the ids."""
    source, target = (
        " ".join([*words[: MOST_WORDS - 1], "…"] if len(words) > MOST_WORDS else words)
        for words in ([unit.text for unit in side.units] for side in (look.source, look.target))
    )
    return draw_diagram(build_diagram(model, source, target), look.model.name, prefix=prefix, styled=styled)


def _words(text: str, side: str) -> list[str]:
    words = text.split()
    if not 1 <= len(words) <= MOST_WORDS:
        raise ConfigError(
            f"the {side} sentence has {len(words)} words: a diagram is legible with 1 to {MOST_WORDS}; "
            f"give a sentence of that length with --{side}."
        )
    return [literal(word) for word in words]

"""Notes below a map: how probable the translation is, and which source words are unfamiliar to the model."""

from __future__ import annotations

from regard.look.record import Look

REASONS = {"bytes": "spelt in bytes", "unknown": "not in the vocabulary", "unseen": "not in the training text"}
MOST_WORDS = 6


def notes(look: Look) -> list[str]:
    """One line each: the mean probability, unfamiliar words, and a warning where both are poor."""
    if look.mean_probability is None:
        return []
    lines = [f"mean probability per word {look.mean_probability:.2f}"]
    for mark, reason in REASONS.items():
        words = list(dict.fromkeys(unit.text for unit in look.source.units if unit.unfamiliar == mark))
        if words:
            more = f" and {len(words) - MOST_WORDS} more" if len(words) > MOST_WORDS else ""
            lines.append(f"{reason}: {', '.join(words[:MOST_WORDS])}{more}")
    if look.doubtful:
        lines.append("improbable words from unfamiliar ones: do not rely on this translation")
    return lines

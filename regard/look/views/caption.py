"""Where each word of a caption looked, in shades in the terminal."""

from __future__ import annotations

from regard.look.caption_maps import word_maps
from regard.look.record import Look
from regard.look.views.shades import legend, shaded, side_by_side


def maps_text(look: Look, width: int = 80) -> str:
    """One map of shades for each word, side by side as they fit; shades are shares of the word's largest weight."""
    shares = [weights / max(float(weights.max()), 1e-12) for weights in word_maps(look)]
    maps = [(unit.text, shaded(each, width)) for unit, each in zip(look.target.units, shares, strict=True)]
    if not maps:  # an empty caption
        return ""
    return "\n".join([side_by_side(maps, width), "", *legend("the word's largest weight", width)]).rstrip()

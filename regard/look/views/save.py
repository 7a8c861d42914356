"""Looks written to a file in the format of its name: a picture, an animation or a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.look.maps import Choice
from regard.look.record import Look
from regard.look.views.pictures import GIF_WIDTH, check_picture_path, write_picture

FORMATS = ("png", "svg", "pdf", "gif", "html")


def save_looks(
    looks: Sequence[Look],
    path: str | Path,
    choice: Choice = Choice(),  # noqa: B008 (it never changes)
    *,
    measures: bool = False,
    title: str | None = None,
    font: str | Path | None = None,
    steps: int | None = None,
    size: int = GIF_WIDTH,
    speed: float = 1.0,
) -> Path:
    """Write a .png, .svg or .pdf picture, a .gif of the first look, or an .html page.

    `measures` adds entropy and coverage to a picture. A .gif shows the first `steps` steps, `size` pixels wide.
    """
    path = check_picture_path(path, FORMATS)
    first, form = looks[0], path.suffix[1:].lower()
    if form == "html":
        from regard.look.views.html import render_html

        write_picture(path, render_html(looks, title=title).encode())
    elif first.over_time is not None:
        from regard.look.views.over_time import save_over_time

        save_over_time(first, path, choice, title=title, font=font, size=size, speed=speed)
    elif form == "gif":
        from regard.look.views.animation import save_animation

        save_animation(first, path, choice, steps=steps, size=size, speed=speed, font=font)
    else:
        from regard.look.views.heatmap import save_heatmap

        save_heatmap(looks, path, choice, measures=measures, title=title, font=font)
    return path

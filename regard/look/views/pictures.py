"""Picture files: checking the format, and writing atomically."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.errors import ConfigError
from regard.storage.files import write_bytes

GIF_WIDTH = 900  # pixels


def check_picture_path(path: str | Path, formats: Sequence[str] = ("png", "svg", "pdf")) -> Path:
    """The path, if its suffix is a supported format; call this before any work."""
    path = Path(path)
    if path.suffix[1:].lower() not in formats:
        *others, last = [f".{name}" for name in formats]
        choice = f"{', '.join(others)} or {last}" if others else last
        raise ConfigError(f"{path}: this picture is drawn as {choice}: let the name end in that.")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: the folder {path.parent} does not exist: make it, or choose another one.")
    return path


def write_picture(path: Path, content: bytes) -> None:
    """Write atomically: a full disk leaves no half picture; symbolic links are followed."""
    write_bytes(path, content)

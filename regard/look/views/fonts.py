"""Fonts for pictures: every script that an installed font has.

Matplotlib takes each character from the first font of a list that has it, joins Arabic letters and writes
right-to-left text from the right. Every glyph is looked up first: a missing letter is an error that names the package
to install; a missing symbol, such as an emoji, is drawn as a box, with a warning.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable
from pathlib import Path

from matplotlib import font_manager
from matplotlib.font_manager import FontProperties
from matplotlib.ft2font import FaceFlags, FT2Font

from regard.errors import DataError

PREFERRED_FONTS = ("DejaVu Sans", "Noto Sans", "Noto Sans CJK", "NanumGothic", "Nanum", "Apple SD Gothic", "Malgun")
# the beginning of a character's Unicode name -> a Debian package with a font that has it
PACKAGES = {
    "HANGUL": "fonts-nanum",
    "CJK": "fonts-noto-cjk",
    "HIRAGANA": "fonts-noto-cjk",
    "KATAKANA": "fonts-noto-cjk",
}
LAST_RESORT = "Last Resort High-Efficiency"  # comes with matplotlib: one box for all characters of a kind
SYMBOLS, OTHERS = "fonts-symbola", "fonts-noto-core"


def fonts_for(texts: Iterable[str], font: str | Path | None = None) -> list[str]:
    """Font families that together have every letter of the texts; symbols that none has become boxes."""
    needed = {character for text in texts for character in text if _has_glyph(character)}
    families: list[str] = []
    if font is not None:
        families.append(_add_font(Path(font)))
        needed -= _glyphs(str(font))
    families.append("DejaVu Sans")  # comes with matplotlib
    needed -= _glyphs(font_manager.findfont("DejaVu Sans"))
    for family, path in _installed_fonts() if needed else ():
        found = needed & _glyphs(path)
        if found:
            families.append(family)
            needed -= found
        if not needed:
            break
    if not needed:
        return families
    missing = "".join(sorted(needed))[:20]
    packages = " and ".join(sorted({_package(character) for character in needed}))
    remedy = f"install one that can (Debian: apt install {packages}), or name a font file with --font"
    if any(unicodedata.category(character)[0] in "LMN" for character in needed):
        raise DataError(f"no installed font can draw {missing!r}: {remedy}; colour fonts cannot be used.")
    warnings.warn(f"no installed font can draw {missing!r}, boxes stand for it: {remedy}.", FontWarning, stacklevel=2)
    return [*families, LAST_RESORT]


class FontWarning(UserWarning):
    """A symbol without a font."""


def _has_glyph(character: str) -> bool:
    return not character.isspace() and unicodedata.category(character) not in ("Cf", "Cc") and character != "\ufe0f"


def _package(character: str) -> str:
    name = unicodedata.name(character, "")
    for beginning, package in PACKAGES.items():
        if name.startswith(beginning):
            return package
    return SYMBOLS if unicodedata.category(character) in ("So", "Sk") else OTHERS


def _installed_fonts() -> list[tuple[str, str]]:
    """(family, file) of the regular upright fonts, the calmest first, also those newer than matplotlib's cache."""
    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:
            try:
                font_manager.fontManager.addfont(path)
            except (OSError, RuntimeError):
                continue  # bitmap and colour fonts that matplotlib cannot read
    entries = [
        entry
        for entry in font_manager.fontManager.ttflist
        if entry.style == "normal" and entry.weight in (400, "normal", "regular", "book") and entry.name != LAST_RESORT
    ]

    def rank(family: str) -> tuple[int, str]:
        near = [place for place, name in enumerate(PREFERRED_FONTS) if family.startswith(name)]
        return (near[0] if near else len(PREFERRED_FONTS), family)

    pairs = {entry.name: entry.fname for entry in entries}
    return sorted(pairs.items(), key=lambda pair: rank(pair[0]))


def _glyphs(path: str) -> set[str]:
    """The characters that a font can draw in one colour."""
    try:
        font = FT2Font(path)
    except (OSError, RuntimeError):
        return set()
    if font.face_flags & FaceFlags.COLOR:
        return set()
    return {chr(code) for code in font.get_charmap()}


def _add_font(path: Path) -> str:
    try:
        font_manager.fontManager.addfont(path)
        return str(FontProperties(fname=path).get_name())
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such font file: check --font.") from None
    except (OSError, RuntimeError):
        raise DataError(
            f"{path}: is not a font that can be used: give a .ttf, .otf or .ttc file, not in colour."
        ) from None

"""Writing systems by which sentence pairs can be filtered, as `text.source_script = "Hangul"`."""

from __future__ import annotations

from functools import cache

from regard.errors import did_you_mean

LEAST_SHARE = 0.5  # of the letters of a sentence

# script -> the word that opens the Unicode names of its letters
_NAMED_ALIKE = (
    "Arabic Armenian Bengali Bopomofo Cherokee Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Hangul "
    "Hebrew Hiragana Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Oriya Sinhala Syriac Tamil Telugu "
    "Thaana Thai Tibetan"
)
SCRIPTS = {**{name: name.upper() for name in _NAMED_ALIKE.split()}, "Han": "CJK"}
WIDTHS = ("FULLWIDTH", "HALFWIDTH")  # stand before that word


@cache
def named_scripts(text: str) -> frozenset[str]:
    """The name words of "Latin", or of several: "Han+Hiragana+Katakana"; raises ValueError for an unknown one."""
    names = [name.strip() for name in text.split("+")]
    for name in names:
        if name not in SCRIPTS:
            raise ValueError(f"script {name!r} is unknown; {did_you_mean(name, tuple(SCRIPTS))}")
    return frozenset(SCRIPTS[name] for name in names)

"""Language codes, and the language pair that the names of training files tell. Needs no torch."""

from __future__ import annotations

import re

Languages = tuple[str, str]
"""Source and target language."""

_ISO_639_1 = """
aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja
jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb
nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq
sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
CODES = frozenset(_ISO_639_1.split())

_FILE = re.compile(r"\.([a-z]{2})(?:\.gz)?$")
_EMBEDDED = re.compile(r"^embedded corpus \S+ ([a-z]{2})-([a-z]{2}),")
_WORD = re.compile(r"(?<![a-z])([a-z]{2})-([a-z]{2})(?![a-z])")


def languages_of_text(description: str) -> Languages | None:
    """The language pair of a training text, `corpus.de, corpus.en.gz` or an embedded corpus; None if unknown."""
    if found := _EMBEDDED.match(description):
        return _known(found[1], found[2])
    files = [_FILE.search(name) for name in description.split(", ")]
    if len(files) == 2 and files[0] and files[1]:
        return _known(files[0][1], files[1][1])
    return None


def languages_in_name(name: str) -> Languages | None:
    """The language pair in a name such as `my-de-en` or `de-en/bahdanau`; None if there is none."""
    pairs = (_known(found[1], found[2]) for found in _WORD.finditer(name))
    return next((pair for pair in pairs if pair is not None), None)


def _known(source: str, target: str) -> Languages | None:
    return (source, target) if source != target and {source, target} <= CODES else None

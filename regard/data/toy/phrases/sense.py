"""What keeps the sentences sensible, unambiguous and apart from the held-out structures."""

import zlib

from regard.data.toy.phrases.trees import Clause, Nominal, NounPhrase

HELD_OUT_ONE_IN = 16


def avoid_ambiguous_read(clause: Clause, missing_object: str = "") -> None:
    """Let "they read" mean the past only: in the present they buy, or write what is not for sale."""
    last, who = clause.phrases[-1], clause.subject
    third_singular = isinstance(who, NounPhrase) and not who.plural and who.head.concept != "I"
    if last.verb.concept == "read" and clause.tense == "present" and not third_singular:
        last.verb.concept = "write" if missing_object in ("poem", "story") else "buy"


def described(nominal: Nominal) -> str:
    """A noun whose adjectives suit a subject: its own, or for names and pronouns any grown person's."""
    return nominal.head.concept if isinstance(nominal, NounPhrase) and nominal.kind == "noun" else "child"


def can_be_denied(nominal: Nominal | None) -> bool:
    """Whether a negation after this subject has one reading only ("every" and "many" have two)."""
    if not isinstance(nominal, NounPhrase) or nominal.determiner is None:
        return True
    return nominal.determiner.concept not in ("every", "many", "some")


def is_held_out(structure: str) -> bool:
    """Whether a clause structure is kept for the split "structures"; stable over machines and versions."""
    return zlib.crc32(structure.encode()) % HELD_OUT_ONE_IN == 0

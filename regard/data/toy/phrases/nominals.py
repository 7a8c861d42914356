"""Random noun phrases: what they may be, from what makes sense."""

from __future__ import annotations

import random
from typing import Literal

from regard.data.toy.phrases.nouns import NOUNS, nouns_tagged
from regard.data.toy.phrases.trees import Coordination, Nominal, NounPhrase, Place, Word
from regard.data.toy.phrases.words import ADJECTIVES, NAMES, NUMBERS, POSSESSIVES, PRONOUNS

Role = Literal["subject", "object", "recipient", "companion", "place"]

NOUNS_BY_TAG: dict[str, tuple[str, ...]] = {
    tag: nouns_tagged(tag) for tag in sorted(set().union(*(noun.tags for noun in NOUNS.values())))
}
COLOURS = ("red", "blue", "yellow", "white", "black")
# Things of paper and gifts are not told apart by their colour.
COLOURLESS = ("newspaper", "magazine", "photo", "letter", "map", "gift")
ADJECTIVES_FOR: dict[str, tuple[str, ...]] = {
    key: tuple(
        name
        for name, adjective in ADJECTIVES.items()
        if noun.tags & set(adjective.tags) and not (key in COLOURLESS and name in COLOURS)
    )
    for key, noun in NOUNS.items()
}
PREDICATES_FOR: dict[str, tuple[str, ...]] = {
    key: tuple(name for name in names if "attributive" not in ADJECTIVES[name].tags)
    for key, names in ADJECTIVES_FOR.items()
}
SIZES = ("big", "small", "new")
_NAMES = tuple(NAMES)
# Wholes whose doors and windows are spoken of.
WHOLES = tuple(key for key, noun in NOUNS.items() if noun.tags & {"building", "room"} and key != "office")


class Source:
    """Random choices and part numbers for one sentence, with the productions that its clauses used."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.random = rng.random
        self.last_part = 0
        self.skeleton: list[str] = []
        self.used: set[str] = set()

    def part(self) -> int:
        """A new part number."""
        self.last_part += 1
        return self.last_part

    def word(self, concept: str) -> Word:
        """A concept with a new part number."""
        self.last_part += 1
        return Word(concept, self.last_part)

    def pick(self, choices: tuple[str, ...]) -> str:
        """One of the choices, each as likely as the others."""
        return choices[int(self.random() * len(choices))]

    def pick_new(self, choices: tuple[str, ...]) -> str:
        """One of the choices that the clause has not used yet, so that nobody meets himself."""
        for _ in range(8):
            choice = self.pick(choices)
            if choice not in self.used:
                break
        self.used.add(choice)
        return choice

    def chance(self, probability: float, production: str) -> bool:
        """Whether an optional production is used; if so the clause remembers it."""
        if self.random() < probability:
            self.skeleton.append(production)
            return True
        return False


def name_phrase(source: Source) -> NounPhrase:
    """A person's name."""
    source.skeleton.append("name")
    return NounPhrase("name", source.word(source.pick_new(_NAMES)))


def pronoun_phrase(source: Source, excluded: tuple[str, ...] = ()) -> NounPhrase:
    """A personal pronoun."""
    source.skeleton.append("pronoun")
    pronoun = source.pick(tuple(name for name in PRONOUNS if name not in excluded))
    return NounPhrase("pronoun", source.word(pronoun), plural=pronoun in ("we", "they"))


def noun_phrase(
    source: Source, nouns: tuple[str, ...], role: Role, definite: bool = False, indefinite: bool = False
) -> NounPhrase:
    """A noun with a determiner and perhaps adjectives, a place or a whole that it belongs to."""
    concept = source.pick_new(nouns)
    tags = NOUNS[concept].tags
    phrase = NounPhrase("noun", source.word(concept))
    phrase.plural = not tags & {"mass", "single"} and role != "place" and source.chance(0.25, "plural")
    add_determiner(source, phrase, role, definite, indefinite)
    draw = source.random()
    if draw < 0.3 and ADJECTIVES_FOR[concept]:
        source.skeleton.append("adjective")
        phrase.adjectives.append(source.word(source.pick(ADJECTIVES_FOR[concept])))
    elif draw < 0.35 and {"thing", "vehicle"} & tags and concept not in COLOURLESS:
        source.skeleton.append("two-adjectives")
        phrase.adjectives += [source.word(source.pick(SIZES)), source.word(source.pick(COLOURS))]
    if "part" in tags and _is_the(phrase) and source.chance(0.5, "whole"):
        phrase.whole_part = source.part()
        phrase.whole = NounPhrase("noun", source.word(source.pick(WHOLES)), determiner=source.word("the"))
    elif (
        role == "subject" and "animate" in tags and can_be_narrowed(phrase) and source.chance(0.06, "place-of-subject")
    ):
        places = NOUNS_BY_TAG["place" if "person" in tags else "outdoor"]
        phrase.place = Place(noun_phrase(source, places, "place", definite=True), source.part())
    return phrase


def _is_the(phrase: NounPhrase) -> bool:
    return phrase.determiner is not None and phrase.determiner.concept == "the"


def can_be_narrowed(phrase: NounPhrase) -> bool:
    """Whether a place or a relative clause may tell which one is meant."""
    word = phrase.determiner
    return word is not None and (word.concept in ("the", "a", "some", "many") or word.concept in NUMBERS)


def add_determiner(source: Source, phrase: NounPhrase, role: Role, definite: bool, indefinite: bool) -> None:
    """Choose the determiner: an article, a demonstrative, a possessive, a quantifier, a number, a name's genitive."""
    tags = NOUNS[phrase.head.concept].tags
    mine = bool(tags & {"own", "kin"}) or not tags & {"person", "place", "part", "scenery", "animal"}
    mine = mine or phrase.head.concept in ("cat", "dog", "horse")
    draw = source.random()
    if indefinite:
        chosen = _indefinite(source, phrase.plural, draw)
    elif "kin" in tags or (mine and draw < 0.22):
        chosen = source.pick((*POSSESSIVES, "owner", "owner"))
    elif definite or "mass" in tags or role == "place":
        chosen = "the" if draw < 0.9 or role == "place" or "mass" in tags else "this"
    elif draw < 0.66:
        chosen = "the"
    elif draw < 0.7:
        chosen = "this"
    elif draw < 0.74 and not phrase.plural and role == "subject":
        chosen = "every"
    else:
        chosen = _indefinite(source, phrase.plural, source.random())
    if chosen == "owner":
        source.skeleton.append("owner")
        phrase.owner = source.word(source.pick_new(_NAMES))
        return
    kind = "number" if chosen in NUMBERS else "possessive" if chosen in POSSESSIVES else chosen
    source.skeleton.append(kind)
    phrase.determiner = source.word(chosen)


def _indefinite(source: Source, plural: bool, draw: float) -> str:
    if not plural:
        return "a"
    return source.pick(NUMBERS) if draw < 0.5 else "some" if draw < 0.75 else "many"


def person_or_noun(
    source: Source, nouns: tuple[str, ...], role: Role, excluded: tuple[str, ...], definite: bool = False
) -> NounPhrase:
    """A phrase for a person: a pronoun, a name or a noun."""
    draw = source.random()
    if draw < 0.22:
        return pronoun_phrase(source, excluded)
    if draw < 0.45:
        return name_phrase(source)
    return noun_phrase(source, nouns, role, definite)


def subject(source: Source, tag: str, definite: bool = False) -> Nominal:
    """A subject of a verb that wants a "person" or something "animate"."""
    source.skeleton.append("subject:")
    nouns = NOUNS_BY_TAG["animal"] if tag == "animate" and source.random() < 0.5 else NOUNS_BY_TAG["person"]
    if nouns is NOUNS_BY_TAG["animal"]:
        return noun_phrase(source, nouns, "subject")
    if source.chance(0.07, "np-coordination"):
        first = name_phrase(source)
        second = noun_phrase(source, nouns, "recipient", definite=True)
        return Coordination(first, second, source.part())
    return person_or_noun(source, nouns, "subject", (), definite)

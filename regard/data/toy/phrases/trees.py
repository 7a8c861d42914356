"""The abstract sentence that all languages share: every part has a number, by which words are linked."""

from dataclasses import dataclass, field
from typing import Literal

Tense = Literal["present", "past", "future"]
Connective = Literal["and", "but", "because", "when", "if", "even though"]
Mood = Literal["statement", "yes-no", "who", "what", "where", "why", "imperative"]


@dataclass(slots=True)
class Word:
    """A concept without inner structure (adjective, adverb, connective …) and its number."""

    concept: str
    part: int


@dataclass(slots=True)
class NounPhrase:
    """A noun with its determiner and modifiers, or a name, or a pronoun."""

    kind: Literal["noun", "name", "pronoun"]
    head: Word
    plural: bool = False
    determiner: Word | None = None
    owner: Word | None = None
    adjectives: list[Word] = field(default_factory=list)
    whole: "NounPhrase | None" = None
    whole_part: int = -1
    place: "Place | None" = None
    relative: "Relative | None" = None

    @property
    def heavy(self) -> bool:
        """Whether the phrase ends in a clause or phrase that would swallow what follows it."""
        return self.relative is not None or self.place is not None


@dataclass(slots=True)
class Coordination:
    """Two noun phrases joined by "and"."""

    first: NounPhrase
    second: NounPhrase
    part: int

    @property
    def heavy(self) -> bool:
        """Whether the last phrase is heavy."""
        return self.second.heavy


Nominal = NounPhrase | Coordination


@dataclass(slots=True)
class Place:
    """Where something is or whither it goes: a preposition, chosen by the noun, and its phrase."""

    phrase: NounPhrase
    part: int
    goal: bool = False


@dataclass(slots=True)
class VerbPhrase:
    """A verb with its complements and its adverb of manner."""

    verb: Word
    modal: Word | None = None
    object: Nominal | None = None
    recipient: NounPhrase | None = None
    recipient_part: int = -1
    place: Place | None = None
    adjective: Word | None = None
    profession: Word | None = None
    profession_part: int = -1
    companion: NounPhrase | None = None
    companion_part: int = -1
    manner: Word | None = None
    complement: "Clause | None" = None
    complement_part: int = -1


@dataclass(slots=True)
class Clause:
    """A subject and one verb phrase, or two joined by "and"; weather and existence have their own kinds."""

    kind: Literal["normal", "weather", "existence"]
    tense: Tense
    phrases: list[VerbPhrase]
    subject: Nominal | None = None
    subject_part: int = -1
    negation: Word | None = None
    frequency: Word | None = None
    time: Word | None = None
    time_first: bool = False
    and_part: int = -1
    aspect: Literal["plain", "after future"] = "plain"


@dataclass(slots=True)
class Relative:
    """A clause that modifies a noun, which is its missing subject or its missing object."""

    gap: Literal["subject", "object"]
    clause: Clause
    part: int


@dataclass(slots=True)
class Complex:
    """A main clause with a subordinate clause before or after it."""

    connective: Word
    main: Clause
    subordinate: Clause
    subordinate_first: bool


Unit = Clause | Complex


@dataclass(slots=True)
class Sentence:
    """Units in a row, each but the first with its connective ("and", "but"); or one question or command."""

    units: list[Unit]
    connectives: list[Word]
    mood: Mood = "statement"
    mood_part: int = -1
    asked_part: int = -1

"""Random clauses: what is said, of whom, when and how.

A clause's *structure* is the list of the productions that it used, without its words. Some structures, chosen by a
stable hash, are held out: they occur in the split "structures" and in no other.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Literal

from regard.data.toy.phrases.nominals import (
    NOUNS_BY_TAG,
    PREDICATES_FOR,
    Source,
    can_be_narrowed,
    name_phrase,
    noun_phrase,
    person_or_noun,
    pronoun_phrase,
    subject,
)
from regard.data.toy.phrases.nouns import NOUNS
from regard.data.toy.phrases.sense import avoid_ambiguous_read, can_be_denied, described, is_held_out
from regard.data.toy.phrases.trees import (
    Clause,
    Coordination,
    Nominal,
    NounPhrase,
    Place,
    Relative,
    Tense,
    VerbPhrase,
)
from regard.data.toy.phrases.verbs import VERBS, verbs_in
from regard.data.toy.phrases.words import adverbs_of

Setting = Literal["main", "after", "subordinate", "relative", "that", "question"]

MANNERS = adverbs_of("manner")
FREQUENCIES = adverbs_of("frequency")
TIMES = {tense: adverbs_of(tense) for tense in ("past", "present", "future")}
WEATHERS = ("rain", "snow", "cold", "hot")
TENSES: tuple[Tense, ...] = ("present", "present", "past", "past", "future")
# Frames with how often they are drawn, out of 100.
FRAMES = (
    ("intransitive", 20),
    ("transitive", 37),
    ("ditransitive", 11),
    ("goal", 7),
    ("located", 5),
    ("adjective", 10),
    ("profession", 3),
    ("complement", 7),
)
_FRAME_TABLE = tuple(name for name, weight in FRAMES for _ in range(weight))
VERBS_BY_FRAME = {
    frame: verbs_in(frame) for frame in ("intransitive", "transitive", "ditransitive", "located", "complement")
}
_OBJECTS = {
    key: tuple(name for name, noun in NOUNS.items() if noun.tags & set(verb.objects)) for key, verb in VERBS.items()
}
_TAKERS = {
    name: tuple(key for key in VERBS_BY_FRAME["transitive"] if key != "have" and noun.tags & set(VERBS[key].objects))
    for name, noun in NOUNS.items()
}
_ACTIONS = tuple(key for key in VERBS_BY_FRAME["transitive"] if "state" not in VERBS[key].flags)
_PLACES = NOUNS_BY_TAG["place"]
_STRANGERS = tuple(key for key in NOUNS_BY_TAG["person"] if not NOUNS[key].tags & {"own", "kin"})
_JOBS = NOUNS_BY_TAG["job"]
_ANIMATE_SUBJECTS = tuple(key for key in VERBS_BY_FRAME["intransitive"] if VERBS[key].subject == "animate")


class ClauseGrammar:
    """Draws clauses; `allow_held_out` decides whether held-out structures may occur."""

    def __init__(self, rng: random.Random, allow_held_out: bool) -> None:
        self.rng = rng
        self.allow_held_out = allow_held_out
        self.source = Source(rng)
        self.structures: list[str] = []
        self.held_out = 0

    def clause(self, setting: Setting, tense: Tense, in_story: bool = True, used: Iterable[str] = ()) -> Clause:
        """A clause whose structure is not held out, unless held-out ones are allowed; it avoids the used words."""
        source = self.source
        outer = source.skeleton
        while True:
            source.used = set(used)
            source.skeleton = [setting, tense]
            marks = len(self.structures), self.held_out
            clause = self.any_clause(setting, tense, in_story)
            if self.keep(marks):
                source.skeleton = outer
                return clause

    def keep(self, marks: tuple[int, int]) -> bool:
        """Record the finished clause's structure, or take it back if it must not occur."""
        structure = " ".join(self.source.skeleton)
        if is_held_out(structure):
            if not self.allow_held_out:
                del self.structures[marks[0] :]
                self.held_out = marks[1]
                return False
            self.held_out += 1
        self.structures.append(structure)
        return True

    def any_clause(self, setting: Setting, tense: Tense, in_story: bool) -> Clause:
        """A clause of any kind."""
        source = self.source
        if setting in ("main", "after", "subordinate"):
            draw = source.random()
            if draw < 0.05 and in_story:
                return self.weather(tense)
            if draw < 0.1 and in_story and tense != "future":
                return self.existence(tense)
        clause = self.bare_clause(setting, tense, in_story=in_story)
        if setting not in ("relative", "question") and len(clause.phrases) == 1:
            self.second_phrase(clause)
        self.add_time(clause, setting)
        return clause

    def weather(self, tense: Tense) -> Clause:
        """It rains; it is cold."""
        source = self.source
        source.skeleton.append("weather")
        verb = VerbPhrase(source.word(source.pick(WEATHERS)))
        clause = Clause("weather", tense, [verb], subject_part=source.part())
        self.add_time(clause, "subordinate")
        return clause

    def existence(self, tense: Tense) -> Clause:
        """There is a cat in the garden."""
        source = self.source
        source.skeleton.append("existence")
        people = source.random() < 0.5
        nouns = _STRANGERS if people else NOUNS_BY_TAG["animal"]
        thing = noun_phrase(source, nouns, "object", indefinite=True)
        place = Place(noun_phrase(source, _PLACES if people else NOUNS_BY_TAG["outdoor"], "place"), source.part())
        phrase = VerbPhrase(source.word("exist"), object=thing, place=place)
        return Clause("existence", tense, [phrase], subject_part=source.part())

    def bare_clause(self, setting: Setting, tense: Tense, in_story: bool) -> Clause:
        """A subject with one verb phrase, its modal or negation or adverb of frequency."""
        source = self.source
        frame = _FRAME_TABLE[int(source.random() * 100)]
        main = setting in ("main", "after", "subordinate")
        # "He says that she sang when it rained": which verb the second clause goes with could not be told.
        if frame == "complement" and not (tense == "present" and main and in_story):
            frame = "transitive"
        if frame == "located" and tense == "future":
            frame = "goal"
        if frame == "profession" and not in_story:
            frame = "adjective"
        source.skeleton.append(frame)
        if frame in ("adjective", "profession"):
            return self.copula(frame, tense, people=not in_story)
        verb = "go" if frame == "goal" else source.pick_new(VERBS_BY_FRAME[frame])
        while tense == "future" and "timeless" in VERBS[verb].flags:
            verb = source.pick_new(VERBS_BY_FRAME[frame])
        clause = Clause("normal", tense, [VerbPhrase(source.word(verb))])
        clause.subject = subject(source, VERBS[verb].subject)
        avoid_ambiguous_read(clause)
        if setting == "main" and frame != "complement":
            self.relative_on_subject(clause.subject)
        self.polarity(clause)
        self.complete(clause, setting)
        return clause

    def copula(self, frame: str, tense: Tense, people: bool) -> Clause:
        """Somebody or something is so, or is of a profession."""
        source = self.source
        phrase = VerbPhrase(source.word("be"))
        clause = Clause("normal", tense, [phrase])
        if frame == "profession":
            source.skeleton.append("subject:")
            clause.subject = name_phrase(source) if source.random() < 0.6 else pronoun_phrase(source, ("we", "they"))
            phrase.profession, phrase.profession_part = source.word(source.pick(_JOBS)), source.part()
        elif people or source.random() < 0.65:
            clause.subject = subject(source, "person", definite=True)
            phrase.adjective = source.word(source.pick(PREDICATES_FOR[described(clause.subject)]))
        else:
            source.skeleton.append("subject:thing")
            things = NOUNS_BY_TAG[source.pick(("thing", "vehicle", "food", "text", "room"))]
            clause.subject = noun_phrase(source, things, "object", definite=True)
            phrase.adjective = source.word(source.pick(PREDICATES_FOR[clause.subject.head.concept]))
        if isinstance(clause.subject, NounPhrase):
            clause.subject.adjectives = []
        if can_be_denied(clause.subject) and source.chance(0.15, "not"):
            clause.negation = source.word("not")
        elif source.chance(0.1, "frequency") and phrase.adjective and tense != "future":
            clause.frequency = source.word(source.pick(FREQUENCIES))
        return clause

    def polarity(self, clause: Clause) -> None:
        """Perhaps a modal, a negation or an adverb of frequency."""
        source, phrase = self.source, clause.phrases[0]
        verb = VERBS[phrase.verb.concept]
        if verb.frame == "complement":
            return
        if clause.tense != "future" and not verb.flags & {"state", "unwilled"} and source.random() < 0.2:
            modal = "want" if clause.tense == "past" else source.pick(("can", "must", "want"))
            source.skeleton.append(modal)
            phrase.modal = source.word(modal)
        deniable = can_be_denied(clause.subject)
        if deniable and source.chance(0.12, "not"):
            clause.negation = source.word("not")
        elif phrase.modal is None and clause.tense != "future" and source.random() < 0.13:
            if "timeless" in verb.flags or (clause.tense == "past" and "unwilled" in verb.flags):
                return
            if deniable and source.skeleton[0] != "subordinate" and source.chance(0.25, "never"):
                clause.negation = source.word("never")
            else:
                source.skeleton.append("frequency")
                clause.frequency = source.word(source.pick(FREQUENCIES))

    def complete(self, clause: Clause, setting: Setting) -> None:
        """Give the verb its complements."""
        source, phrase = self.source, clause.phrases[0]
        verb = VERBS[phrase.verb.concept]
        if verb.frame in ("transitive", "ditransitive"):
            phrase.object = self.object(phrase.verb.concept, clause)
        if verb.frame == "ditransitive":
            phrase.recipient_part = source.part()
            phrase.recipient = self.other_person(clause, "recipient")
        elif verb.frame == "located":
            phrase.place = Place(noun_phrase(source, NOUNS_BY_TAG["home"], "place"), source.part())
        elif verb.frame == "goal":
            phrase.place = Place(noun_phrase(source, _PLACES, "place"), source.part(), goal=True)
        elif verb.frame == "complement":
            phrase.complement_part = source.part()
            tense: Tense = "future" if verb.english == "hope" else TENSES[int(source.random() * 5)]
            phrase.complement = self.clause("that", tense)
            return
        self.adjuncts(clause, setting)
        if phrase.place is None and phrase.manner is None and phrase.companion is None and setting != "relative":
            last = phrase.recipient or phrase.object
            if isinstance(last, NounPhrase) and clause.negation is None:
                self.add_relative(last, 0.14)

    def adjuncts(self, clause: Clause, setting: Setting) -> None:
        """Perhaps an adverb of manner, a companion or a place."""
        source, phrase = self.source, clause.phrases[0]
        verb = VERBS[phrase.verb.concept]
        if clause.negation is not None:
            return
        draw = source.random()
        if draw < 0.15 and "manner" in verb.flags:
            source.skeleton.append("manner")
            phrase.manner = source.word(source.pick(MANNERS))
        elif draw < 0.15 and "well" in verb.flags and phrase.modal is None and clause.frequency is None:
            source.skeleton.append("well")
            phrase.manner = source.word("well")
        elif draw < 0.27 and "with" in verb.flags and setting != "relative":
            source.skeleton.append("companion")
            phrase.companion_part = source.part()
            phrase.companion = self.other_person(clause, "companion")
        elif draw < 0.42 and "somewhere" in verb.flags and phrase.place is None:
            source.skeleton.append("place")
            phrase.place = Place(noun_phrase(source, _PLACES, "place"), source.part())

    def object(self, verb: str, clause: Clause) -> Nominal:
        """An object that the verb may have and the subject is not."""
        source = self.source
        source.skeleton.append("object:")
        nouns = _OBJECTS[verb]
        definite = clause.negation is not None or "definite" in VERBS[verb].flags
        phrase: Nominal
        if "person" in VERBS[verb].objects and source.random() < 0.45:
            return self.other_person(clause, "object")
        phrase = noun_phrase(source, nouns, "object", definite=definite)
        if phrase.whole is None and source.chance(0.05, "np-coordination"):
            second = noun_phrase(source, nouns, "object", definite=definite)
            if second.head.concept != phrase.head.concept:
                return Coordination(phrase, second, source.part())
        return phrase

    def other_person(self, clause: Clause, role: Literal["object", "recipient", "companion"]) -> NounPhrase:
        """A person other than the subject."""
        source, taken = self.source, clause.subject
        first = taken.first if isinstance(taken, Coordination) else taken
        excluded = ("I", "we") if first is not None and first.head.concept in ("I", "we") else ()
        while True:
            definite = clause.negation is not None  # "Not a singer" would be "keinem Sänger", "pas de chanteur".
            phrase = person_or_noun(source, NOUNS_BY_TAG["person"], role, excluded, definite)
            if first is None or phrase.kind == "pronoun" or phrase.head.concept != first.head.concept:
                break
        if role != "object" and phrase.kind == "pronoun":
            # French and German move a dative pronoun; a name keeps recipients where English has them.
            return name_phrase(source)
        return phrase

    def second_phrase(self, clause: Clause) -> None:
        """Perhaps a second verb phrase for the same subject."""
        source, first = self.source, clause.phrases[0]
        verb = VERBS[first.verb.concept]
        last = first.recipient or first.object
        plain = clause.negation is None and clause.frequency is None and first.modal is None
        if not plain or verb.subject != "person" or verb.frame not in ("transitive", "goal", "intransitive"):
            return
        if (last is not None and last.heavy) or not source.chance(0.12, "vp-coordination"):
            return
        clause.and_part = source.part()
        clause.phrases.append(VerbPhrase(source.word(source.pick_new(_ACTIONS))))
        avoid_ambiguous_read(clause)
        second = clause.phrases[1]
        second.object = self.object(second.verb.concept, clause)

    def add_time(self, clause: Clause, setting: Setting) -> None:
        """Perhaps an adverb of time, at the end only where nothing could swallow it."""
        source = self.source
        if setting in ("relative", "question", "that") or (setting == "subordinate" and clause.tense != "past"):
            return
        last = clause.phrases[-1]
        final = last.recipient or last.object
        heavy = (final is not None and final.heavy) or last.complement is not None
        modal = any(phrase.modal for phrase in clause.phrases) or clause.frequency is not None
        if modal or last.complement is not None or source.random() > 0.2:
            return
        state = any("state" in VERBS[phrase.verb.concept].flags for phrase in clause.phrases if clause.kind == "normal")
        first = setting == "main" and (heavy or source.random() < 0.5)
        if (heavy and not first) or state:
            return
        source.skeleton.append("time-first" if first else "time-last")
        times = TIMES[clause.tense] if clause.negation is None else TIMES[clause.tense][:2]
        clause.time = source.word(source.pick(times))
        clause.time_first = first

    def relative_on_subject(self, phrase: Nominal) -> None:
        """Perhaps a relative clause in the middle of the sentence."""
        if isinstance(phrase, NounPhrase):
            self.add_relative(phrase, 0.1)

    def add_relative(self, phrase: NounPhrase, probability: float) -> None:
        """Perhaps a relative clause, if the noun can bear one."""
        source = self.source
        if phrase.kind != "noun" or phrase.heavy or phrase.whole is not None or not can_be_narrowed(phrase):
            return
        if not source.chance(probability, "relative"):
            return
        outer = source.skeleton
        while True:
            source.skeleton = ["relative"]
            marks = len(self.structures), self.held_out
            relative = self.relative(phrase)
            if self.keep(marks):
                break
        source.skeleton = outer
        phrase.relative = relative

    def relative(self, phrase: NounPhrase) -> Relative:
        """A relative clause with a missing subject (of people and animals) or a missing object."""
        source = self.source
        tense: Tense = "present" if source.random() < 0.4 else "past"
        tags = NOUNS[phrase.head.concept].tags
        takers = tuple(key for key in _TAKERS[phrase.head.concept] if key not in source.used)
        if "animate" in tags and (source.random() < 0.55 or not takers):
            source.skeleton += ["subject-gap", tense]
            return Relative("subject", self.gap_subject(phrase, tags, tense), source.part())
        if not takers:
            source.skeleton += ["subject-gap", "be", tense]
            verb = VerbPhrase(source.word("be"))
            verb.adjective = source.word(source.pick(PREDICATES_FOR[phrase.head.concept]))
            return Relative("subject", Clause("normal", tense, [verb]), source.part())
        source.skeleton += ["object-gap", tense]
        verb = VerbPhrase(source.word(source.pick_new(takers)))
        clause = Clause("normal", tense, [verb])
        while True:
            clause.subject = subject(source, "person")
            head = clause.subject.first if isinstance(clause.subject, Coordination) else clause.subject
            if head.head.concept != phrase.head.concept and not head.heavy:
                break
        avoid_ambiguous_read(clause, phrase.head.concept)
        self.polarity(clause)
        return Relative("object", clause, source.part())

    def gap_subject(self, phrase: NounPhrase, tags: frozenset[str], tense: Tense) -> Clause:
        """The rest of a clause whose subject is the noun before it."""
        source = self.source
        if "person" not in tags:
            concept = source.pick(_ANIMATE_SUBJECTS)
        else:
            frame = source.pick(("intransitive", "transitive", "transitive", "located"))
            concept = source.pick_new(VERBS_BY_FRAME[frame])
        clause = Clause("normal", tense, [VerbPhrase(source.word(concept))])
        clause.subject = phrase
        avoid_ambiguous_read(clause)
        self.polarity(clause)
        self.complete(clause, "relative")
        clause.subject = None
        return clause

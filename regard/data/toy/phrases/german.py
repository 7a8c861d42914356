"""German words for a tree: verb second, verb last in subordinate clauses, separable verbs, four cases."""

from dataclasses import dataclass, field

from regard.data.toy.phrases.german_forms import (
    CONTRACTIONS,
    DEFINITE,
    PRETERITE,
    PRONOUNS,
    RELATIVE_DATIVE_PLURAL,
    Case,
    adjective_form,
    column,
    determiner_form,
    genitive_name,
    noun_form,
    present,
)
from regard.data.toy.phrases.nouns import NOUNS
from regard.data.toy.phrases.tokens import Token, capitalise, punctuate
from regard.data.toy.phrases.trees import (
    Clause,
    Complex,
    Coordination,
    Nominal,
    NounPhrase,
    Place,
    Sentence,
    Unit,
    VerbPhrase,
    Word,
)
from regard.data.toy.phrases.verbs import VERBS, Verb
from regard.data.toy.phrases.words import ADJECTIVES, ADVERBS, NAMES

Person = int  # ich 0, er 1, wir and sie 2
MODALS = {"can": "können", "must": "müssen", "want": "wollen"}
DATIVE_VERBS = ("help", "follow")
CONNECTIVES = {"because": "weil", "if": "wenn", "even though": "obwohl"}
COORDINATORS = {"and": "und", "but": "aber"}
NEGATIONS = {"not": "nicht", "never": "nie"}
WEATHER = {
    "rain": ("regnen", "regnet", "geregnet", ""),
    "snow": ("schneien", "schneit", "geschneit", ""),
    "cold": ("sein", "ist", "gewesen", "kalt"),
    "hot": ("sein", "ist", "gewesen", "heiß"),
}
# Prepositions of place, and of the way there with their case; all others are "in".
LOCATIONS = {"station": "an", "market": "auf", "island": "auf", "beach": "an"}
GOALS: dict[str, tuple[str, Case]] = {
    "station": ("zu", "dative"),
    "market": ("auf", "accusative"),
    "island": ("auf", "accusative"),
    "beach": ("an", "accusative"),
}
FEMININE_JOBS = {"doctor": "Ärztin", "farmer": "Bäuerin", "student": "Studentin", "lawyer": "Anwältin"}


@dataclass(slots=True)
class Field:
    """A predicate in the German order: finite verb, middle field, verbs at the end, clauses after them."""

    finite: Token
    middle: list[Token] = field(default_factory=list)
    end: list[Token] = field(default_factory=list)
    tail: list[Token] = field(default_factory=list)
    prefix: str = ""

    def verb_first(self, subject: list[Token]) -> list[Token]:
        """The finite verb, the subject if it comes after it, and the rest."""
        prefix = [Token(self.prefix, self.finite.sure)] if self.prefix else []
        return closed([self.finite, *subject, *self.middle, *self.end, *prefix], self.tail)

    def verb_last(self) -> list[Token]:
        """The finite verb after everything else, joined to its prefix."""
        self.finite.text = self.prefix + self.finite.text
        return closed([*self.middle, *self.end, self.finite], self.tail)

    def without_finite(self) -> list[Token]:
        """All but the finite verb, where the other predicate's serves both."""
        return closed([*self.middle, *self.end], self.tail)

    def shares_finite(self, other: "Field") -> bool:
        """Whether one auxiliary serves both predicates: hat gelesen und geschlafen."""
        return bool(self.end and other.end) and self.finite.text == other.finite.text


def closed(tokens: list[Token], tail: list[Token]) -> list[Token]:
    """A clause and what follows its verb, parted by a comma."""
    return [*punctuate(tokens, ","), *tail] if tail else tokens


def gender_of(phrase: NounPhrase) -> str:
    """Grammatical gender of a noun or name."""
    if phrase.kind == "noun":
        return NOUNS[phrase.head.concept].german_gender
    return NAMES[phrase.head.concept].gender if phrase.kind == "name" else "m"


def person_of(nominal: Nominal | None) -> Person:
    """Which verb form goes with a subject."""
    if nominal is None:
        return 1
    if isinstance(nominal, Coordination) or nominal.plural:
        return 2
    return 0 if nominal.head.concept == "I" else 1


def adverb(word: Word) -> list[Token]:
    """An adverb's words, all of one part."""
    return [Token(text, [word.part]) for text in ADVERBS[word.concept].german]


def nominal(phrase: Nominal, case: Case) -> list[Token]:
    """A noun phrase or two, without relative clauses."""
    if isinstance(phrase, Coordination):
        return [*nominal(phrase.first, case), Token("und", [phrase.part]), *nominal(phrase.second, case)]
    head = phrase.head
    if phrase.kind == "name":
        return [Token(head.concept, [head.part])]
    if phrase.kind == "pronoun":
        return [Token(PRONOUNS[case][head.concept], [head.part])]
    gender, declension = gender_of(phrase), "strong"
    tokens: list[Token] = []
    if phrase.owner is not None:
        tokens.append(Token(genitive_name(phrase.owner.concept), [phrase.owner.part]))
    elif phrase.determiner is not None:
        text, declension = determiner_form(phrase.determiner.concept, case, gender, phrase.plural)
        tokens.append(Token(text, [phrase.determiner.part]))
    for word in phrase.adjectives:
        form = adjective_form(ADJECTIVES[word.concept].german, declension, case, gender, phrase.plural)
        tokens.append(Token(form, [word.part]))
    tokens.append(Token(noun_form(head.concept, NOUNS[head.concept], case, phrase.plural), [head.part]))
    if phrase.whole is not None:
        whole = nominal(phrase.whole, "genitive")
        whole[0].possible += (phrase.whole_part,)
        tokens += whole
    if phrase.place is not None:
        tokens += place(phrase.place)
    return tokens


def with_relative(phrase: Nominal, case: Case) -> list[Token]:
    """A noun phrase with its relative clause between commas."""
    tokens = nominal(phrase, case)
    relative = relative_of(phrase)
    return punctuate(closed(tokens, relative), ",") if relative else tokens


def relative_of(phrase: Nominal | None) -> list[Token]:
    """The relative clause of a phrase, if it has one: der schläft; das Anna gekauft hat."""
    if not isinstance(phrase, NounPhrase) or phrase.relative is None:
        return []
    inner = phrase.relative
    tree, verb = inner.clause, inner.clause.phrases[0]
    case: Case = "nominative"
    if inner.gap == "object":
        case = "dative" if verb.verb.concept in DATIVE_VERBS else "accusative"
    text = DEFINITE[case][column(gender_of(phrase), phrase.plural)]
    pronoun = Token(RELATIVE_DATIVE_PLURAL if case == "dative" and phrase.plural else text, [inner.part])
    if inner.gap == "subject":
        return [pronoun, *predicate(tree, verb, person_of(phrase), gender_of(phrase)).verb_last()]
    return [pronoun, *verb_last(tree)]


def place(where: Place) -> list[Token]:
    """Im Garten, am Bahnhof; in den Garten, zum Bahnhof."""
    concept = where.phrase.head.concept
    preposition, case = LOCATIONS.get(concept, "in"), "dative"
    if where.goal:
        preposition, case = GOALS.get(concept, ("in", "accusative"))
    tokens = nominal(where.phrase, "dative" if case == "dative" else "accusative")
    contracted = CONTRACTIONS.get(f"{preposition} {tokens[0].text}")
    if contracted is None:
        return [Token(preposition, [where.part]), *tokens]
    return [Token(contracted, [where.part], tokens[0].sure), *tokens[1:]]


def finite_field(tree: Clause, phrase: VerbPhrase, verb: Verb, who: Person) -> Field:
    """The verb forms: simple, perfect, future or modal."""
    part, infinitive = phrase.verb.part, verb.german_prefix + verb.german
    if phrase.modal is not None:
        modal = MODALS[phrase.modal.concept]
        if modal == "müssen" and tree.negation is not None:
            modal = "dürfen"  # "must not" forbids.
        text = PRETERITE[modal][who] if tree.tense == "past" else present(modal, modal, who)
        return Field(Token(text, [phrase.modal.part]), end=[Token(infinitive, [part])])
    if tree.tense == "future":
        return Field(Token(present("werden", "", who), [], [part]), end=[Token(infinitive, [part])])
    if tree.tense == "present":
        return Field(Token(present(verb.german, verb.german_present, who), [part]), prefix=verb.german_prefix)
    if "state" in verb.flags:
        return Field(Token(PRETERITE[verb.german][who], [part]))
    auxiliary = present(verb.german_auxiliary, "", who)
    return Field(Token(auxiliary, [], [part]), end=[Token(verb.german_participle, [part])])


def predicate(tree: Clause, phrase: VerbPhrase, who: Person, gender: str = "m") -> Field:
    """The verb and all that goes with it."""
    result = finite_field(tree, phrase, VERBS[phrase.verb.concept], who)
    fill_middle(result, tree, phrase, gender)
    if phrase.complement is not None:
        result.tail = [Token("dass", [phrase.complement_part]), *verb_last(phrase.complement)]
    else:
        result.tail = relative_of(phrase.recipient or phrase.object)
    return result


def fill_middle(result: Field, tree: Clause, phrase: VerbPhrase, gender: str) -> None:
    """Pronoun, time, frequency, dative, accusative, negation, manner, company, place, predicate."""
    middle = result.middle
    case: Case = "dative" if phrase.verb.concept in DATIVE_VERBS else "accusative"
    thing = [] if phrase.object is None else nominal(phrase.object, case)
    if isinstance(phrase.object, NounPhrase) and phrase.object.kind == "pronoun":
        middle += thing
        thing = []
    if tree.time is not None and not tree.time_first and phrase is tree.phrases[0]:
        middle += adverb(tree.time)
    if tree.frequency is not None:
        middle += adverb(tree.frequency)
    middle += recipient_and(phrase, thing)
    if tree.negation is not None and phrase.profession is None:
        middle.append(Token(NEGATIONS[tree.negation.concept], [tree.negation.part]))
    if phrase.manner is not None:
        middle += adverb(phrase.manner)
    if phrase.companion is not None:
        middle += [Token("mit", [phrase.companion_part]), *nominal(phrase.companion, "dative")]
    if phrase.place is not None:
        middle += place(phrase.place)
    if phrase.adjective is not None:
        middle.append(Token(ADJECTIVES[phrase.adjective.concept].german, [phrase.adjective.part]))
    middle += profession(phrase, tree.negation, gender)


def recipient_and(phrase: VerbPhrase, thing: list[Token]) -> list[Token]:
    """The dative before the accusative, unless a relative clause follows the dative."""
    if phrase.recipient is None:
        return thing
    dative = nominal(phrase.recipient, "dative")
    # German says "to" by the case alone, so the first word of the phrase carries it.
    dative[0].possible += (phrase.recipient_part,)
    return [*thing, *dative] if phrase.recipient.heavy else [*dative, *thing]


def profession(phrase: VerbPhrase, negation: Word | None, gender: str) -> list[Token]:
    """Arzt, Ärztin; kein Arzt, keine Ärztin."""
    if phrase.profession is None:
        return []
    concept = phrase.profession.concept
    text = NOUNS[concept].german
    if gender == "f":
        text = FEMININE_JOBS.get(concept, text + "in")
    if negation is None:
        return [Token(text, [phrase.profession.part], [phrase.profession_part])]
    none = Token("keine" if gender == "f" else "kein", [negation.part], [phrase.profession_part])
    return [none, Token(text, [phrase.profession.part])]


def fields(tree: Clause) -> tuple[list[Token], list[Field]]:
    """The subject's words and the predicates."""
    if tree.kind == "weather":
        return [Token("es", [tree.subject_part])], [weather(tree)]
    if tree.kind == "existence":
        phrase = tree.phrases[0]
        text = "gab" if tree.tense == "past" else "gibt"
        result = Field(Token(text, [phrase.verb.part]))
        fill_middle(result, tree, phrase, "m")
        return [Token("es", [tree.subject_part])], [result]
    who = person_of(tree.subject)
    gender = "m"
    if isinstance(tree.subject, NounPhrase):
        gender = "f" if tree.subject.head.concept == "she" else gender_of(tree.subject)
    subject = with_relative(tree.subject, "nominative") if tree.subject is not None else []
    return subject, [predicate(tree, phrase, who, gender) for phrase in tree.phrases]


def weather(tree: Clause) -> Field:
    """Es regnet; es war kalt."""
    part = tree.phrases[0].verb.part
    infinitive, third, participle, adjective = WEATHER[tree.phrases[0].verb.concept]
    sure, possible = ([], [part, tree.subject_part]) if adjective else ([part], [])
    result = Field(Token(third, sure, possible))
    if tree.time is not None and not tree.time_first:
        result.middle += adverb(tree.time)
    if adjective:
        result.middle.append(Token(adjective, [part]))
    if tree.tense == "future":
        result.finite = Token("wird", [], [part])
        result.end = [Token(infinitive, sure, possible)]
    elif tree.tense == "past" and adjective:
        result.finite.text = "war"
    elif tree.tense == "past":
        result.finite = Token("hat", [], [part])
        result.end = [Token(participle, [part])]
    return result


def verb_second(tree: Clause, something_before: bool = False) -> list[Token]:
    """A main clause: one part, then the finite verb; the subject moves behind it if it is not the first part."""
    subject, predicates = fields(tree)
    if tree.time is not None and tree.time_first:
        tokens = [*adverb(tree.time), *predicates[0].verb_first(subject)]
    elif something_before:
        tokens = predicates[0].verb_first(subject)
    else:
        tokens = [*subject, *predicates[0].verb_first([])]
    for extra in predicates[1:]:
        shared = extra.shares_finite(predicates[0])
        tokens += [Token("und", [tree.and_part]), *(extra.without_finite() if shared else extra.verb_first([]))]
    return tokens


def verb_last(tree: Clause) -> list[Token]:
    """A subordinate clause, without its connective."""
    subject, predicates = fields(tree)
    first, *others = predicates
    shared = bool(others) and first.shares_finite(others[0])
    tokens = [*subject, *(first.without_finite() if shared else first.verb_last())]
    for extra in others:
        tokens += [Token("und", [tree.and_part]), *extra.verb_last()]
    return tokens


def connective(tree: Complex) -> Token:
    """The connective: "when" is "als" for the past and "wenn" otherwise."""
    concept = tree.connective.concept
    when = "als" if tree.subordinate.tense == "past" else "wenn"
    return Token(CONNECTIVES.get(concept, when), [tree.connective.part])


def unit(tree: Unit) -> list[Token]:
    """A clause, or two with a subordinating connective."""
    if isinstance(tree, Clause):
        return verb_second(tree)
    inner = [connective(tree), *verb_last(tree.subordinate)]
    if tree.subordinate_first:
        return [*punctuate(inner, ","), *verb_second(tree.main, something_before=True)]
    return [*punctuate(verb_second(tree.main), ","), *inner]


def question(tree: Sentence) -> list[Token]:
    """Liest Anna das Buch? Wer liest das Buch? Wohin geht Anna?"""
    asked = tree.units[0]
    assert isinstance(asked, Clause)
    subject, predicates = fields(asked)
    goal = VERBS[asked.phrases[0].verb.concept].frame == "goal"
    words = {"who": "wer", "what": "was", "where": "wohin" if goal else "wo", "why": "warum"}
    word = [Token(words[tree.mood], [tree.asked_part])] if tree.mood in words else []
    predicates[0].finite.possible += (tree.mood_part,)
    return [*word, *predicates[0].verb_first(subject)]


def command(tree: Sentence) -> list[Token]:
    """Machen Sie die Tür auf. Machen Sie die Tür nicht auf."""
    told = tree.units[0]
    assert isinstance(told, Clause)
    told_predicate = predicate(told, told.phrases[0], 2)
    return told_predicate.verb_first([Token("Sie", [], [told.phrases[0].verb.part])])


def sentence(tree: Sentence) -> list[Token]:
    """A whole sentence with capital letter and full stop."""
    if tree.mood == "imperative":
        return capitalise(punctuate(command(tree), "."))
    if tree.mood != "statement":
        return capitalise(punctuate(question(tree), "?"))
    tokens = unit(tree.units[0])
    for word, next_unit in zip(tree.connectives, tree.units[1:], strict=True):
        punctuate(tokens, ",")
        tokens += [Token(COORDINATORS[word.concept], [word.part]), *unit(next_unit)]
    return capitalise(punctuate(tokens, "."))

"""English words for a tree."""

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
    Tense,
    Unit,
    VerbPhrase,
    Word,
)
from regard.data.toy.phrases.verbs import VERBS
from regard.data.toy.phrases.words import ADJECTIVES, ADVERBS

# First or third person, and plural.
Agreement = tuple[int, bool]
OBJECT_PRONOUNS = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
PLACE_PREPOSITIONS = {"station": "at", "market": "at", "island": "on", "beach": "on"}
WEATHER = {"rain": ("rains", "rained", "rain"), "snow": ("snows", "snowed", "snow")}


def third_person(base: str) -> str:
    """He sleeps, goes, carries, has."""
    if base == "have":
        return "has"
    if base.endswith(("s", "x", "ch", "sh", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ies"
    return base + "s"


def agreement(nominal: Nominal | None) -> Agreement:
    """Person and number of a subject; a missing one is a singular third person."""
    if nominal is None:
        return 3, False
    if isinstance(nominal, Coordination):
        return 3, True
    return (1 if nominal.head.concept in ("I", "we") else 3), nominal.plural


def adverb(word: Word) -> list[Token]:
    """An adverb's words, all of one part."""
    return [Token(text, [word.part]) for text in ADVERBS[word.concept].english]


def nominal(phrase: Nominal, is_object: bool = False) -> list[Token]:
    """A noun phrase or two."""
    if isinstance(phrase, Coordination):
        return [*nominal(phrase.first), Token("and", [phrase.part]), *nominal(phrase.second)]
    head = phrase.head
    if phrase.kind == "name":
        return [Token(head.concept, [head.part])]
    if phrase.kind == "pronoun":
        return [Token(OBJECT_PRONOUNS[head.concept] if is_object else head.concept, [head.part])]
    noun = NOUNS[head.concept]
    tokens = [Token(ADJECTIVES[adjective.concept].english, [adjective.part]) for adjective in phrase.adjectives]
    tokens.append(Token(noun.english_plural if phrase.plural else noun.english, [head.part]))
    if phrase.owner is not None:
        tokens.insert(0, Token(phrase.owner.concept + "'s", [phrase.owner.part]))
    elif phrase.determiner is not None:
        tokens.insert(0, determiner(phrase.determiner, phrase.plural, tokens[0].text))
    if phrase.whole is not None:
        tokens += [Token("of", [phrase.whole_part]), *nominal(phrase.whole)]
    if phrase.place is not None:
        tokens += place(phrase.place)
    if phrase.relative is not None:
        tokens += relative(phrase)
    return tokens


def determiner(word: Word, plural: bool, following: str) -> Token:
    """The determiner before a word."""
    text = word.concept
    if text == "a" and following[0] in "aeiou":
        text = "an"
    elif text == "this" and plural:
        text = "these"
    return Token(text, [word.part])


def place(where: Place) -> list[Token]:
    """In the garden, at the station, to the market."""
    preposition = "to" if where.goal else PLACE_PREPOSITIONS.get(where.phrase.head.concept, "in")
    return [Token(preposition, [where.part]), *nominal(where.phrase)]


def relative(phrase: NounPhrase) -> list[Token]:
    """Who sleeps; that Anna bought."""
    assert phrase.relative is not None
    inner = phrase.relative
    person = "person" in NOUNS[phrase.head.concept].tags
    pronoun = Token("who" if person and inner.gap == "subject" else "that", [inner.part])
    if inner.gap == "subject":
        return [pronoun, *predicate(inner.clause, inner.clause.phrases[0], (3, phrase.plural))]
    return [pronoun, *clause(inner.clause)]


def be(tense: Tense, who: Agreement) -> str:
    """The finite form of "be", except the future."""
    if tense == "past":
        return "were" if who[1] else "was"
    return "are" if who[1] else "am" if who[0] == 1 else "is"


def inflected(base: str, past: str, tense: Tense, who: Agreement) -> str:
    """A finite form without auxiliary."""
    if tense == "past":
        return past
    return third_person(base) if who == (3, False) else base


def verb_group(clause: Clause, phrase: VerbPhrase, who: Agreement, inverted: bool) -> tuple[list[Token], list[Token]]:
    """The auxiliary, if there is one, and the rest: (does, read); the adverbs and the negation stand between."""
    verb, part = phrase.verb, phrase.verb.part
    between = [Token(word.concept, [word.part]) for word in (clause.negation, clause.frequency) if word]
    if verb.concept == "be" and clause.tense != "future":
        return [Token(be(clause.tense, who), [part])], between
    base = VERBS[verb.concept].english
    particles = [Token(VERBS[verb.concept].english_particle, [part])] if VERBS[verb.concept].english_particle else []
    main = [Token(base, [part]), *particles]
    modal = phrase.modal
    past = VERBS[verb.concept].english_past
    if modal is not None and modal.concept == "want":
        base, past, part = "want", "wanted", modal.part
        main = [Token("to", [], [modal.part, verb.part]), *main]
        particles = main
        main = [Token("want", [part]), *main]
    elif modal is not None:
        if modal.concept == "can" and clause.negation is not None:
            return [Token("cannot", [modal.part, clause.negation.part])], main
        return [Token(modal.concept, [modal.part])], [*between, *main]
    if clause.tense == "future":
        return [Token("will", [], [part])], [*between, *main]
    if inverted or (clause.negation is not None and clause.negation.concept == "not"):
        support = "did" if clause.tense == "past" else "does" if who == (3, False) else "do"
        negation = [clause.negation.part] if clause.negation else []
        return [Token(support, [], [part, *negation])], [*between, *main]
    return [], [*between, Token(inflected(base, past, clause.tense, who), [part]), *particles]


def complements(phrase: VerbPhrase) -> list[Token]:
    """What follows the verb."""
    tokens: list[Token] = []
    if phrase.adjective is not None:
        tokens.append(Token(ADJECTIVES[phrase.adjective.concept].english, [phrase.adjective.part]))
    if phrase.profession is not None:
        noun = NOUNS[phrase.profession.concept].english
        tokens.append(Token("an" if noun[0] in "aeiou" else "a", [phrase.profession_part]))
        tokens.append(Token(noun, [phrase.profession.part]))
    if phrase.object is not None:
        tokens += nominal(phrase.object, is_object=True)
    if phrase.recipient is not None:
        tokens += [Token("to", [phrase.recipient_part]), *nominal(phrase.recipient, is_object=True)]
    if phrase.manner is not None:
        tokens += adverb(phrase.manner)
    if phrase.place is not None:
        tokens += place(phrase.place)
    if phrase.companion is not None:
        tokens += [Token("with", [phrase.companion_part]), *nominal(phrase.companion, is_object=True)]
    if phrase.complement is not None:
        tokens += [Token("that", [phrase.complement_part]), *clause(phrase.complement)]
    return tokens


def predicate(clause: Clause, phrase: VerbPhrase, who: Agreement) -> list[Token]:
    """A verb phrase with its finite verb."""
    auxiliary, rest = verb_group(clause, phrase, who, inverted=False)
    return [*auxiliary, *rest, *complements(phrase)]


def core(clause: Clause) -> list[Token]:
    """Subject and predicate, without the adverb of time."""
    if clause.kind == "weather":
        return weather(clause)
    if clause.kind == "existence":
        return existence(clause)
    who = agreement(clause.subject)
    tokens = nominal(clause.subject) if clause.subject is not None else []
    tokens += predicate(clause, clause.phrases[0], who)
    for phrase in clause.phrases[1:]:
        tokens += [Token("and", [clause.and_part]), *predicate(clause, phrase, who)]
    return tokens


def clause(tree: Clause) -> list[Token]:
    """A clause with its adverb of time before or after it."""
    tokens = core(tree)
    if tree.time is None:
        return tokens
    time = adverb(tree.time)
    return [*punctuate(time, ","), *tokens] if tree.time_first else [*tokens, *time]


def weather(tree: Clause) -> list[Token]:
    """It rains; it was cold."""
    kind = tree.phrases[0].verb
    it = Token("it", [tree.subject_part])
    will = [Token("will", [], [kind.part])] if tree.tense == "future" else []
    if kind.concept in WEATHER:
        present, past, base = WEATHER[kind.concept]
        form = base if will else past if tree.tense == "past" else present
        return [it, *will, Token(form, [kind.part])]
    form = "be" if will else be(tree.tense, (3, False))
    return [it, *will, Token(form, [], [kind.part, tree.subject_part]), Token(kind.concept, [kind.part])]


def existence(tree: Clause) -> list[Token]:
    """There is a cat in the garden."""
    phrase = tree.phrases[0]
    assert isinstance(phrase.object, NounPhrase)
    there = Token("there", [tree.subject_part])
    is_ = Token(be(tree.tense, (3, phrase.object.plural)), [phrase.verb.part])
    return [there, is_, *complements(phrase)]


def unit(tree: Unit) -> list[Token]:
    """A clause, or two with a subordinating connective."""
    if isinstance(tree, Clause):
        return clause(tree)
    words = tree.connective.concept.split()
    inner = [*(Token(text, [tree.connective.part]) for text in words), *clause(tree.subordinate)]
    return order(tree, clause(tree.main), inner)


def order(tree: Complex, main: list[Token], inner: list[Token]) -> list[Token]:
    """The clauses in their order, with a comma if the subordinate one comes first."""
    return [*punctuate(inner, ","), *main] if tree.subordinate_first else [*main, *inner]


def question(tree: Sentence) -> list[Token]:
    """Does Anna read the book? Who reads it? What does Anna read?"""
    asked = tree.units[0]
    assert isinstance(asked, Clause)
    phrase = asked.phrases[0]
    word = [] if tree.mood == "yes-no" else [Token(tree.mood, [tree.asked_part])]
    if tree.mood == "who":
        return [*word, *predicate(asked, phrase, (3, False))]
    assert asked.subject is not None
    auxiliary, rest = verb_group(asked, phrase, agreement(asked.subject), inverted=True)
    if not auxiliary[0].sure:
        auxiliary[0].possible += (tree.mood_part,)
    return [*word, *auxiliary, *nominal(asked.subject), *rest, *complements(phrase)]


def command(tree: Sentence) -> list[Token]:
    """Open the door. Do not open the door."""
    told = tree.units[0]
    assert isinstance(told, Clause)
    phrase, negation = told.phrases[0], told.negation
    verb = VERBS[phrase.verb.concept]
    tokens = [Token(verb.english, [phrase.verb.part])]
    if verb.english_particle:
        tokens.append(Token(verb.english_particle, [phrase.verb.part]))
    if negation is not None:
        do = Token("do", [], [phrase.verb.part, negation.part])
        tokens = [do, Token("not", [negation.part]), *tokens]
    return [*tokens, *complements(phrase)]


def sentence(tree: Sentence) -> list[Token]:
    """A whole sentence with capital letter and full stop."""
    if tree.mood == "imperative":
        return capitalise(punctuate(command(tree), "."))
    if tree.mood != "statement":
        return capitalise(punctuate(question(tree), "?"))
    tokens = unit(tree.units[0])
    for connective, next_unit in zip(tree.connectives, tree.units[1:], strict=True):
        punctuate(tokens, ",")
        tokens += [Token(connective.concept, [connective.part]), *unit(next_unit)]
    return capitalise(punctuate(tokens, "."))

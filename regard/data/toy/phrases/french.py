"""French words for a tree: agreement, elision, contraction, adjectives after most nouns, clitics, ne … pas."""

from regard.data.toy.phrases.french_forms import (
    CLITICS,
    NUMBERS,
    POSSESSIVES,
    STRESSED,
    SUBJECTS,
    Conjugation,
    adjective_form,
    conjugation,
    elide,
    participle_form,
    starts_with_vowel,
)
from regard.data.toy.phrases.nouns import NOUNS
from regard.data.toy.phrases.tokens import Token, capitalise, punctuate
from regard.data.toy.phrases.trees import (
    Clause,
    Coordination,
    Nominal,
    NounPhrase,
    Place,
    Sentence,
    Unit,
    VerbPhrase,
    Word,
)
from regard.data.toy.phrases.verbs import VERBS
from regard.data.toy.phrases.words import ADJECTIVES, ADVERBS, NAMES

Agreement = tuple[int, str, bool]  # the index into (je, il, nous, vous, ils), gender, plural
THIRD: Agreement = (1, "m", False)
MODALS = {"can": "pouvoir", "must": "devoir", "want": "vouloir"}
NEGATIONS = {"not": "pas", "never": "jamais"}
CONNECTIVES = {"because": ("parce", "que"), "when": ("quand",), "if": ("si",), "even though": ("même", "si")}
COORDINATORS = {"and": "et", "but": "mais"}
# "à la gare", but "dans le jardin".
AT = ("school", "market", "station", "museum", "restaurant", "library", "hospital", "hotel", "church")
INTO = ("kitchen", "room", "forest", "garden", "house", "city")
FEMININE_JOBS = {
    "student": "étudiante",
    "farmer": "agricultrice",
    "baker": "boulangère",
    "singer": "chanteuse",
    "writer": "écrivaine",
    "lawyer": "avocate",
    "soldier": "soldate",
    "teacher": "professeure",
}


def gender_of(phrase: NounPhrase) -> str:
    """Grammatical gender; a pronoun is masculine except "she"."""
    if phrase.kind == "noun":
        return NOUNS[phrase.head.concept].french_gender
    if phrase.kind == "name":
        return NAMES[phrase.head.concept].gender
    return "f" if phrase.head.concept == "she" else "m"


def agreement(nominal: Nominal) -> Agreement:
    """Person, gender and number of a subject or of an object."""
    if isinstance(nominal, Coordination):
        both_feminine = gender_of(nominal.first) == gender_of(nominal.second) == "f"
        return 4, "f" if both_feminine else "m", True
    first = nominal.head.concept in ("I", "we") and nominal.kind == "pronoun"
    index = (2 if nominal.plural else 0) if first else (4 if nominal.plural else 1)
    return index, gender_of(nominal), nominal.plural


def adverb(word: Word) -> list[Token]:
    """An adverb's words, all of one part."""
    return [Token(text, [word.part]) for text in ADVERBS[word.concept].french]


def nominal(phrase: Nominal, stressed: bool = False) -> list[Token]:
    """A noun phrase or two."""
    if isinstance(phrase, Coordination):
        return [*nominal(phrase.first), Token("et", [phrase.part]), *nominal(phrase.second)]
    head = phrase.head
    if phrase.kind == "name":
        return [Token(head.concept, [head.part])]
    if phrase.kind == "pronoun":
        return [Token((STRESSED if stressed else SUBJECTS)[head.concept], [head.part])]
    tokens = adjectives_and_noun(phrase)
    if phrase.owner is not None:
        tokens.insert(0, Token(article(phrase), [], [phrase.owner.part, head.part]))
        tokens += [Token("de", [], [phrase.owner.part]), Token(phrase.owner.concept, [phrase.owner.part])]
    elif phrase.determiner is not None:
        tokens = [*determiner(phrase, phrase.determiner, tokens[0].text), *tokens]
    if phrase.whole is not None:
        tokens += with_preposition(Token("de", [phrase.whole_part]), nominal(phrase.whole))
    if phrase.place is not None:
        tokens += place(phrase.place)
    if phrase.relative is not None:
        tokens += relative(phrase)
    return tokens


def adjectives_and_noun(phrase: NounPhrase) -> list[Token]:
    """The prenominal adjectives, the noun, and the other adjectives."""
    noun = NOUNS[phrase.head.concept]
    gender, plural = noun.french_gender, phrase.plural
    tokens = [Token(noun.french_plural if plural else noun.french, [phrase.head.part])]
    for word in phrase.adjectives:
        adjective = ADJECTIVES[word.concept]
        following = tokens[0].text if adjective.french_before else None
        form = adjective_form(adjective.french, adjective.french_feminine, gender, plural, following)
        tokens.insert(0 if adjective.french_before else len(tokens), Token(form, [word.part]))
    return tokens


def article(phrase: NounPhrase) -> str:
    """The definite article, before elision."""
    return "les" if phrase.plural else "la" if gender_of(phrase) == "f" else "le"


def determiner(phrase: NounPhrase, word: Word, following: str) -> list[Token]:
    """The determiner before a word."""
    feminine, sure = gender_of(phrase) == "f", [word.part]
    concept = word.concept
    if concept == "the":
        return [Token(article(phrase), sure)]
    if concept == "a":
        return [Token("une" if feminine else "un", sure)]
    if concept in NUMBERS:
        return [Token(NUMBERS[concept], sure)]
    if concept == "many":
        return [Token("beaucoup", sure), Token("de", [], sure)]
    if concept == "this":
        before_vowel = "cet" if starts_with_vowel(following) else "ce"
        return [Token("ces" if phrase.plural else "cette" if feminine else before_vowel, sure)]
    if concept in POSSESSIVES:
        masculine_form, feminine_form, plural_form = POSSESSIVES[concept]
        if phrase.plural:
            return [Token(plural_form, sure)]
        return [Token(feminine_form if feminine and not starts_with_vowel(following) else masculine_form, sure)]
    return [Token({"every": "chaque", "some": "quelques"}[concept], sure)]


def with_preposition(preposition: Token, phrase: list[Token]) -> list[Token]:
    """A preposition before a phrase, contracted with its article: du, des, au, aux."""
    text, first = preposition.text, phrase[0]
    if text not in ("de", "à") or first.text not in ("le", "les"):
        return [preposition, *phrase]
    if first.text == "le" and starts_with_vowel(phrase[1].text):
        return [preposition, *phrase]
    contracted = {"dele": "du", "deles": "des", "àle": "au", "àles": "aux"}[text + first.text]
    token = Token(contracted, preposition.sure, preposition.possible + first.sure + first.possible)
    return [token, *phrase[1:]]


def place(where: Place) -> list[Token]:
    """Where, or whither, with the noun's own preposition."""
    concept, word = where.phrase.head.concept, where.phrase.determiner
    definite = word is not None and word.concept == "the"
    if concept == "island":
        preposition = "sur"
    elif concept == "beach":
        preposition = "à" if where.goal else "sur"
    elif where.goal:
        preposition = "à" if definite and concept not in INTO else "dans"
    else:
        preposition = "à" if definite and concept in AT and not where.phrase.adjectives else "dans"
    return with_preposition(Token(preposition, [where.part]), nominal(where.phrase))


def relative(phrase: NounPhrase) -> list[Token]:
    """Qui dort; qu'Anna a achetée."""
    assert phrase.relative is not None
    inner, features = phrase.relative, agreement(phrase)
    if inner.gap == "subject":
        return [Token("qui", [inner.part]), *predicate(inner.clause, inner.clause.phrases[0], features)]
    return [Token("que", [inner.part]), *clause(inner.clause, extracted=features)]


def finite(tree: Clause, forms: Conjugation, who: Agreement, state: bool) -> tuple[str, str | None]:
    """The finite verb and, in the compound past, the participle, which agrees with the subject of "être"."""
    index = who[0]
    if tree.tense == "future" or tree.aspect == "after future":
        return forms.future[index], None
    if tree.tense == "present":
        return forms.present[index], None
    if state:
        return forms.imperfect[index], None
    auxiliary = conjugation("être" if forms.with_etre else "avoir").present[index]
    return auxiliary, participle_form(forms.participle, who[1], who[2]) if forms.with_etre else forms.participle


def verb_group(tree: Clause, phrase: VerbPhrase, who: Agreement, extracted: Agreement | None = None) -> list[Token]:
    """(ne) (clitic) finite (pas) (souvent) (participle or infinitive); `extracted` is an object gone before."""
    verb, part = VERBS[phrase.verb.concept], phrase.verb.part
    reflexive, _, infinitive = verb.french.rpartition("_")
    forms = conjugation(infinitive)
    clitic, moved = clitics(phrase, who, bool(reflexive))
    if phrase.modal is None:
        main, participle = finite(tree, forms, who, "state" in verb.flags)
        if participle is not None and not forms.with_etre and (moved or extracted):
            _, gender, plural = moved or extracted or who
            participle = participle_form(participle, gender, plural)
        modal_or_verb = part
        tail = [] if participle is None else [Token(participle, [part])]
        head = [*clitic, Token(main, [] if participle else [part], [part] if participle else [])]
    else:
        main, _ = finite(tree, conjugation(MODALS[phrase.modal.concept]), who, state=True)
        modal_or_verb = phrase.modal.part
        head = [Token(main, [modal_or_verb])]
        tail = [*clitic, Token(forms.infinitive, [part])]
    middle = [] if tree.frequency is None else adverb(tree.frequency)
    if phrase.manner is not None and phrase.manner.concept == "well":
        middle += adverb(phrase.manner)
    if tree.negation is not None:
        head.insert(0, Token("ne", [], [tree.negation.part]))
        middle.insert(0, Token(NEGATIONS[tree.negation.concept], [tree.negation.part]))
    return [*head, *middle, *tail]


def clitics(phrase: VerbPhrase, who: Agreement, reflexive: bool) -> tuple[list[Token], Agreement | None]:
    """The pronoun before the verb, and the agreement that a moved object asks of a participle."""
    if reflexive:
        return [Token(("me", "se", "nous", "vous", "se")[who[0]], [], [phrase.verb.part])], None
    thing = phrase.object
    if isinstance(thing, NounPhrase) and thing.kind == "pronoun":
        return [Token(CLITICS[thing.head.concept], [thing.head.part])], agreement(thing)
    return [], None


def complements(phrase: VerbPhrase, who: Agreement) -> list[Token]:
    """What follows the verb."""
    tokens: list[Token] = []
    _, gender, plural = who
    if phrase.adjective is not None:
        adjective = ADJECTIVES[phrase.adjective.concept]
        form = adjective_form(adjective.french, adjective.french_feminine, gender, plural, None)
        tokens.append(Token(form, [phrase.adjective.part]))
    if phrase.profession is not None:
        job = phrase.profession.concept
        text = FEMININE_JOBS.get(job, NOUNS[job].french) if gender == "f" else NOUNS[job].french
        tokens.append(Token(text, [phrase.profession.part], [phrase.profession_part]))
    if phrase.manner is not None and phrase.manner.concept != "well":
        tokens += adverb(phrase.manner)
    thing = phrase.object
    if thing is not None and not (isinstance(thing, NounPhrase) and thing.kind == "pronoun"):
        tokens += nominal(thing)
    if phrase.recipient is not None:
        tokens += with_preposition(Token("à", [phrase.recipient_part]), nominal(phrase.recipient))
    if phrase.place is not None:
        tokens += place(phrase.place)
    if phrase.companion is not None:
        tokens += [Token("avec", [phrase.companion_part]), *nominal(phrase.companion, stressed=True)]
    if phrase.complement is not None:
        tokens += [Token("que", [phrase.complement_part]), *clause(phrase.complement)]
    return tokens


def predicate(tree: Clause, phrase: VerbPhrase, who: Agreement, extracted: Agreement | None = None) -> list[Token]:
    """A verb phrase with its finite verb."""
    return [*verb_group(tree, phrase, who, extracted), *complements(phrase, who)]


def clause(tree: Clause, extracted: Agreement | None = None) -> list[Token]:
    """A clause with its adverb of time before or after it."""
    tokens = core(tree, extracted)
    if tree.time is None:
        return tokens
    time = adverb(tree.time)
    return [*punctuate(time, ","), *tokens] if tree.time_first else [*tokens, *time]


def core(tree: Clause, extracted: Agreement | None = None) -> list[Token]:
    """Subject and predicate, without the adverb of time."""
    if tree.kind == "weather":
        return weather(tree)
    if tree.kind == "existence":
        return existence(tree)
    who = agreement(tree.subject) if tree.subject is not None else THIRD
    tokens = nominal(tree.subject) if tree.subject is not None else []
    tokens += predicate(tree, tree.phrases[0], who, extracted)
    for phrase in tree.phrases[1:]:
        second = predicate(tree, phrase, who)
        if shares_auxiliary(tree, phrase):
            del second[0]
        tokens += [Token("et", [tree.and_part]), *second]
    return tokens


def shares_auxiliary(tree: Clause, second: VerbPhrase) -> bool:
    """Whether the first verb's auxiliary serves the second as well: elle a lu et vendu le livre."""
    objects = (tree.phrases[0].object, second.object)
    pronoun = any(isinstance(thing, NounPhrase) and thing.kind == "pronoun" for thing in objects)
    if tree.tense != "past" or pronoun:
        return False
    verbs = [VERBS[phrase.verb.concept] for phrase in (tree.phrases[0], second)]
    if any("state" in verb.flags or "_" in verb.french for verb in verbs):
        return False
    return conjugation(verbs[0].french).with_etre == conjugation(verbs[1].french).with_etre


def weather(tree: Clause) -> list[Token]:
    """Il pleut; il faisait froid."""
    kind = tree.phrases[0].verb
    adjective = {"cold": "froid", "hot": "chaud"}.get(kind.concept)
    forms = conjugation("faire" if adjective else {"rain": "pleuvoir", "snow": "neiger"}[kind.concept])
    main, participle = finite(tree, forms, THIRD, state=adjective is not None)
    tokens = [Token("il", [tree.subject_part])]
    if adjective is not None:
        return [*tokens, Token(main, [], [kind.part, tree.subject_part]), Token(adjective, [kind.part])]
    if participle is None:
        return [*tokens, Token(main, [kind.part])]
    return [*tokens, Token(main, [], [kind.part]), Token(participle, [kind.part])]


def existence(tree: Clause) -> list[Token]:
    """Il y a un chat dans le jardin."""
    phrase = tree.phrases[0]
    main, _ = finite(tree, conjugation("avoir"), THIRD, state=True)
    there, exists = tree.subject_part, phrase.verb.part
    # "il y a" renders "there is" as a whole, so any of its words may be linked to either of the two
    idiom = [Token("il", [], [there, exists]), Token("y", [there], [exists]), Token(main, [exists], [there])]
    return [*idiom, *complements(phrase, THIRD)]


def unit(tree: Unit) -> list[Token]:
    """A clause, or two with a subordinating connective."""
    if isinstance(tree, Clause):
        return clause(tree)
    words = CONNECTIVES[tree.connective.concept]
    inner = [*(Token(text, [tree.connective.part]) for text in words), *clause(tree.subordinate)]
    main = clause(tree.main)
    return [*punctuate(inner, ","), *main] if tree.subordinate_first else [*main, *inner]


def question(tree: Sentence) -> list[Token]:
    """Est-ce qu'Anna lit le livre? Qui lit le livre? Où est-ce qu'Anna habite?"""
    asked = tree.units[0]
    assert isinstance(asked, Clause)
    possible = [tree.mood_part, asked.phrases[0].verb.part]
    est_ce = [Token("est-ce", [], possible), Token("que", [], possible)]
    if tree.mood == "who":
        return [Token("qui", [tree.asked_part]), *predicate(asked, asked.phrases[0], THIRD)]
    if tree.mood == "yes-no":
        return [*est_ce, *clause(asked)]
    if tree.mood == "what":
        what = [Token("qu'est-ce", [tree.asked_part]), Token("que", [], [tree.asked_part])]
        return [*what, *clause(asked)]
    word = Token({"where": "où", "why": "pourquoi"}[tree.mood], [tree.asked_part])
    return [word, *est_ce, *clause(asked)]


def command(tree: Sentence) -> list[Token]:
    """Ouvrez la porte. N'ouvrez pas la porte."""
    told = tree.units[0]
    assert isinstance(told, Clause)
    return predicate(told, told.phrases[0], (3, "m", True))


def sentence(tree: Sentence) -> list[Token]:
    """A whole sentence with capital letter and full stop."""
    if tree.mood == "imperative":
        return capitalise(elide(punctuate(command(tree), ".")))
    if tree.mood != "statement":
        return capitalise(elide(punctuate(question(tree), "?")))
    tokens = unit(tree.units[0])
    for connective, next_unit in zip(tree.connectives, tree.units[1:], strict=True):
        punctuate(tokens, ",")
        tokens += [Token(COORDINATORS[connective.concept], [connective.part]), *unit(next_unit)]
    return capitalise(elide(punctuate(tokens, ".")))

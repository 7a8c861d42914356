"""Korean words for a tree: verb last, particles, clauses before their nouns, endings that connect."""

from regard.data.toy.phrases.korean_forms import Stem, final_consonant, particle
from regard.data.toy.phrases.korean_verbs import (
    Ending,
    adjective_stem,
    ended,
    profession_tokens,
    stem_of,
    verb_tokens,
)
from regard.data.toy.phrases.nouns import NOUNS
from regard.data.toy.phrases.tokens import Token, punctuate
from regard.data.toy.phrases.trees import (
    Clause,
    Coordination,
    Nominal,
    NounPhrase,
    Sentence,
    Unit,
    VerbPhrase,
    Word,
)
from regard.data.toy.phrases.verbs import VERBS
from regard.data.toy.phrases.words import ADJECTIVES, ADVERBS, NAMES

PRONOUNS = {"I": "저", "he": "그", "she": "그녀", "we": "우리", "they": "그들"}
DETERMINERS = {
    "this": "이",
    "every": "모든",
    "some": "몇몇",
    "many": "많은",
    "my": "제",
    "his": "그의",
    "her": "그녀의",
    "our": "우리",
    "their": "그들의",
}
NUMBERS = {
    "two": "두",
    "three": "세",
    "four": "네",
    "five": "다섯",
    "six": "여섯",
    "seven": "일곱",
    "eight": "여덟",
    "nine": "아홉",
    "ten": "열",
}
WEATHER = {
    "rain": ("비가", Stem("오")),
    "snow": ("눈이", Stem("오")),
    "cold": ("날씨가", Stem("춥", "adjective", "ㅂ")),
    "hot": ("날씨가", Stem("덥", "adjective", "ㅂ")),
}
COMPLEMENT_ENDINGS: dict[str, Ending] = {"것": "fact", "기": "wish"}
# Verbs of staying take 에 where those of doing take 에서.
STAYING = ("live", "stay", "exist")


def adverb(word: Word) -> list[Token]:
    """An adverb's words, all of one part."""
    return [Token(text, [word.part]) for text in ADVERBS[word.concept].korean]


def attributive(word: Word) -> list[Token]:
    """An adjective before its noun."""
    if "attributive" in ADJECTIVES[word.concept].tags and not ADJECTIVES[word.concept].korean.endswith("다"):
        return [Token(ADJECTIVES[word.concept].korean, [word.part])]
    before, stem = adjective_stem(word.concept)
    return [Token(text, [word.part]) for text in [*before, stem.adnominal()]]


def nominal(phrase: Nominal, role: str) -> list[Token]:
    """A noun phrase or two with a particle; what modifies a noun stands before it."""
    if isinstance(phrase, Coordination):
        first = nominal(phrase.first, "and")
        first[-1].possible += (phrase.part,)
        return [*first, *nominal(phrase.second, role)]
    head = phrase.head
    if phrase.kind == "pronoun":
        text = PRONOUNS[head.concept]
        text = "제가" if (text, role) == ("저", "subject") else text + particle(text, role)
        return [Token(text, [head.part])]
    if phrase.kind == "name":
        text = NAMES[head.concept].korean
        return [Token(text + particle(text, role), [head.part])]
    return [*modifiers(phrase), *counted_noun(phrase, role)]


def counted_noun(phrase: NounPhrase, role: str) -> list[Token]:
    """The noun with its particle; a number and its counter follow the noun."""
    noun, head, word = NOUNS[phrase.head.concept], phrase.head, phrase.determiner
    if word is not None and word.concept in NUMBERS:
        counter = noun.korean_counter
        return [
            Token(noun.korean, [head.part]),
            Token(NUMBERS[word.concept], [word.part]),
            Token(counter + particle(counter, role), [], [head.part, word.part]),
        ]
    text = noun.korean + ("들" if phrase.plural and "animate" in noun.tags else "")
    silent = [word.part] if word is not None and word.concept in ("the", "a") else []
    return [Token(text + particle(text, role), [head.part], silent)]


def modifiers(phrase: NounPhrase) -> list[Token]:
    """Relative clause, place, owner, determiner, adjectives: in this order, before the noun."""
    tokens: list[Token] = []
    if phrase.relative is not None:
        inner = phrase.relative
        tokens += clause(inner.clause, "noun")
        tokens[-1].possible += (inner.part,)
    if phrase.place is not None:
        where = nominal(phrase.place.phrase, "at")
        where[-1].possible += (phrase.place.part,)
        tokens += [*where, Token("있는", [], [phrase.place.part])]
    if phrase.whole is not None:
        whole = nominal(phrase.whole, "of")
        whole[-1].possible += (phrase.whole_part,)
        tokens += whole
    if phrase.owner is not None:
        tokens.append(Token(NAMES[phrase.owner.concept].korean + "의", [phrase.owner.part]))
    elif phrase.determiner is not None and phrase.determiner.concept in DETERMINERS:
        text = DETERMINERS[phrase.determiner.concept]
        text = "우리의" if text == "우리" and phrase.adjectives else text
        tokens.append(Token(text, [phrase.determiner.part]))
    for word in phrase.adjectives:
        tokens += attributive(word)
    return tokens


def subject_role(nominal: Nominal, ending: Ending) -> str:
    """Topic for what is known in a main clause, subject for what is new and in subordinate clauses."""
    if ending not in ("formal", "question", "and", "but"):
        return "subject"
    word = nominal.determiner if isinstance(nominal, NounPhrase) else None
    new = word is not None and (word.concept in ("a", "some", "many") or word.concept in NUMBERS)
    return "subject" if new else "topic"


def complements(tree: Clause, phrase: VerbPhrase) -> list[Token]:
    """Company, place, frequency, recipient, object, manner, and the reported clause."""
    tokens: list[Token] = []
    if phrase.companion is not None:
        tokens += [*nominal(phrase.companion, "and"), Token("함께", [phrase.companion_part])]
    if phrase.place is not None:
        staying = phrase.place.goal or phrase.verb.concept in STAYING
        where = nominal(phrase.place.phrase, "at" if staying else "in")
        where[-1].possible += (phrase.place.part,)
        tokens += where
    if tree.frequency is not None:
        tokens += adverb(tree.frequency)
    if tree.negation is not None and tree.negation.concept == "never":
        tokens.append(Token("결코", [tree.negation.part]))
    if phrase.recipient is not None:
        recipient = nominal(phrase.recipient, "to")
        recipient[-1].possible += (phrase.recipient_part,)
        tokens += recipient
    if phrase.object is not None:
        tokens += nominal(phrase.object, object_role(phrase))
    if phrase.manner is not None:
        tokens += adverb(phrase.manner)
    if phrase.complement is not None:
        tokens += reported(phrase)
    return tokens


def object_role(phrase: VerbPhrase) -> str:
    """The role of the object, which some verbs take as a recipient and existence as a subject."""
    if phrase.verb.concept == "exist":
        return "subject"
    return "to" if VERBS[phrase.verb.concept].korean_class == "에게" else "object"


def reported(phrase: VerbPhrase) -> list[Token]:
    """A clause that somebody thinks, knows or hopes."""
    assert phrase.complement is not None
    ending = COMPLEMENT_ENDINGS.get(VERBS[phrase.verb.concept].korean_class, "quote")
    tokens = clause(phrase.complement, ending)
    tokens[-1].possible += (phrase.complement_part,)
    return tokens


def clause(tree: Clause, ending: Ending, asked: Token | None = None) -> list[Token]:
    """A clause with its ending; a question's word stands after the subject."""
    tokens: list[Token] = []
    time = adverb(tree.time) if tree.time is not None else []
    first_person = False
    if tree.subject is not None:
        tokens += nominal(tree.subject, subject_role(tree.subject, ending))
        first_person = isinstance(tree.subject, NounPhrase) and tree.subject.head.concept in ("I", "we")
    tokens = [*time, *tokens] if tree.time_first else [*tokens, *time]
    if asked is not None:
        tokens.append(asked)
    if tree.kind == "weather":
        return [*tokens, *weather(tree, ending)]
    for index, phrase in enumerate(tree.phrases):
        is_last = index == len(tree.phrases) - 1
        tokens += complements(tree, phrase)
        if phrase.profession is not None:
            tokens += profession_tokens(tree, phrase, ending)
        elif is_last:
            tokens += verb_tokens(tree, phrase, ending, first_person)
        else:
            before, stem = stem_of(phrase)
            tokens += [*before, Token(stem.text + "고", [phrase.verb.part], [tree.and_part])]
    if tree.kind == "existence":
        tokens[-1].possible += (tree.subject_part,)
    return tokens


def weather(tree: Clause, ending: Ending) -> list[Token]:
    """비가 옵니다; 날씨가 춥습니다."""
    part = tree.phrases[0].verb.part
    noun, stem = WEATHER[tree.phrases[0].verb.concept]
    words = ended(tree, stem, ending, durative=False)
    falls = final_consonant(stem.text) == " "
    first = Token(noun, [part] if falls else [], [tree.subject_part, *([] if falls else [part])])
    return [first, Token(words[0], [part], [tree.subject_part]), *(Token(text, [], [part]) for text in words[1:])]


def connective_links(tokens: list[Token], part: int, own_word: bool) -> list[Token]:
    """Link a connective to its own word, or to the verb that its ending is part of."""
    if own_word:
        tokens[-1].sure += (part,)
        tokens[-2].possible += (part,)
    else:
        tokens[-1].possible += (part,)
    return tokens


def unit(tree: Unit, ending: Ending) -> list[Token]:
    """A clause, or two of which the subordinate one always comes first."""
    if isinstance(tree, Clause):
        return clause(tree, ending)
    concept = tree.connective.concept
    assert concept in ("because", "when", "if", "even though")
    inner_ending: Ending = concept  # type: ignore[assignment]
    inner = clause(tree.subordinate, inner_ending)
    connective_links(inner, tree.connective.part, own_word=concept in ("because", "when"))
    return [*inner, *clause(tree.main, ending)]


def question(tree: Sentence) -> list[Token]:
    """안나는 책을 읽습니까? 누가 책을 읽습니까? 안나는 어디에 삽니까?"""
    asked = tree.units[0]
    assert isinstance(asked, Clause)
    phrase = asked.phrases[0]
    staying = VERBS[phrase.verb.concept].frame in ("goal", "located")
    words = {"who": "누가", "what": "무엇을", "where": "어디에" if staying else "어디에서", "why": "왜"}
    word = Token(words.get(tree.mood, ""), [tree.asked_part])
    if tree.mood == "who":
        tokens = [word, *clause(asked, "question")]
    elif tree.mood == "yes-no":
        tokens = clause(asked, "question")
    else:
        tokens = clause(asked, "question", asked=word)
    tokens[-1].possible += (tree.mood_part,)
    return tokens


def command(tree: Sentence) -> list[Token]:
    """문을 여십시오. 문을 열지 마십시오."""
    told = tree.units[0]
    assert isinstance(told, Clause)
    phrase = told.phrases[0]
    tokens = complements(told, phrase)
    before, stem = stem_of(phrase)
    part = phrase.verb.part
    if told.negation is None:
        return [*tokens, *before, Token(stem.command(), [part])]
    stop = Token("마십시오", [told.negation.part], [part])
    return [*tokens, *before, Token(stem.text + "지", [part]), stop]


def sentence(tree: Sentence) -> list[Token]:
    """A whole sentence with its full stop."""
    if tree.mood == "imperative":
        return punctuate(command(tree), ".")
    if tree.mood != "statement":
        return punctuate(question(tree), "?")
    tokens: list[Token] = []
    for word, next_unit in zip(tree.connectives, tree.units[:-1], strict=True):
        joined = unit(next_unit, "and" if word.concept == "and" else "but")
        tokens += punctuate(connective_links(joined, word.part, own_word=False), ",")
    return punctuate([*tokens, *unit(tree.units[-1], "formal")], ".")

"""Korean predicates: modals and negations as chains of stems, of which the last takes tense and ending."""

from typing import Literal

from regard.data.toy.phrases.korean_forms import Kind, Stem, particle
from regard.data.toy.phrases.nouns import NOUNS
from regard.data.toy.phrases.tokens import Token
from regard.data.toy.phrases.trees import Clause, VerbPhrase, Word
from regard.data.toy.phrases.verbs import VERBS
from regard.data.toy.phrases.words import ADJECTIVES

Ending = Literal[
    "formal",
    "question",
    "command",
    "and",
    "but",
    "because",
    "when",
    "if",
    "even though",
    "quote",
    "fact",
    "wish",
    "noun",
]


def adjective_stem(concept: str) -> tuple[list[str], Stem]:
    """The words before an adjective's stem (힘이 세다), and the stem."""
    adjective = ADJECTIVES[concept]
    *before, last = adjective.korean.split("_")
    return before, Stem(last.removesuffix("다"), "adjective", adjective.korean_class)


def stem_of(phrase: VerbPhrase) -> tuple[list[Token], Stem]:
    """The words of a predicate before its stem, and the stem."""
    part = phrase.verb.part
    if phrase.adjective is not None:
        before, stem = adjective_stem(phrase.adjective.concept)
        return [Token(text, [phrase.adjective.part]) for text in before], stem
    if phrase.verb.concept == "exist":
        return [], Stem("있", "existence")
    verb = VERBS[phrase.verb.concept]
    *words, last = verb.korean.split("_")
    stem = Stem(last.removesuffix("다"), "verb", verb.korean_class if verb.korean_class in "ㄷㅂ르" else "")
    tokens = [Token(text, [part]) for text in words]
    if verb.korean_class == "고_있다":
        return [*tokens, Token(stem.text + "고", [part])], Stem("있", "existence")
    return tokens, stem


def with_modal(tree: Clause, phrase: VerbPhrase, first_person: bool) -> tuple[list[Token], Stem]:
    """The predicate's words with its modal and its negation; the last stem takes the ending."""
    tokens, stem = stem_of(phrase)
    negative, modal = tree.negation, phrase.modal
    part = phrase.verb.part
    if modal is None:
        return (tokens, stem) if negative is None else denied(tokens, stem, phrase, negative)
    if modal.concept == "can":
        tokens += [Token(stem.prospective(), [part]), Token("수", [], [modal.part])]
        return tokens, Stem("있" if negative is None else "없", "existence")
    if modal.concept == "must" and negative is None:
        return [*tokens, Token(stem.infinitive() + "야", [part], [modal.part])], Stem("하")
    if modal.concept == "must":
        assert negative is not None
        forbidden = [Token(stem.conditional(), [part]), Token("안", [negative.part])]
        return [*tokens, *forbidden], Stem("되")
    tokens.append(Token(stem.text + "고", [part]))
    if not first_person:
        tokens.append(Token("싶어", [modal.part]))
    wish = Stem("싶", "adjective") if first_person else Stem("하")
    if negative is None:
        return tokens, wish
    return [*tokens, Token(wish.text + "지", [modal.part])], Stem("않", wish.kind)


def denied(tokens: list[Token], stem: Stem, phrase: VerbPhrase, negative: Word) -> tuple[list[Token], Stem]:
    """먹지 않-, for "not" and "never"."""
    part = phrase.verb.part if phrase.adjective is None else phrase.adjective.part
    possible = [] if phrase.adjective is None else [phrase.verb.part]
    if phrase.verb.concept == "know":
        return tokens, Stem("모르", "verb", "르")  # Not to know has its own verb.
    kind: Kind = "adjective" if stem.kind == "adjective" else "verb"
    return [*tokens, Token(stem.text + "지", [part], possible)], Stem("않", kind)


def ended(tree: Clause, stem: Stem, ending: Ending, durative: bool) -> list[str]:
    """The last stem with its tense and its ending, as one word or more."""
    if ending == "noun":
        return [stem.adnominal_past(durative) if tree.tense == "past" else stem.adnominal()]
    if ending == "wish":
        return [stem.text + "기를"]
    if ending == "command":
        return [stem.command()]
    before: list[str] = []
    if tree.tense == "future":
        before, stem = [stem.prospective()], Stem("것이", "copula")
    elif tree.tense == "past":
        stem = stem.past()
    return [*before, *connected(stem, ending)]


def connected(stem: Stem, ending: Ending) -> list[str]:
    """A stem with the ending that closes or connects its clause."""
    if ending in ("formal", "question"):
        return [stem.formal(question=ending == "question")]
    if ending == "and":
        return [stem.text + "고"]
    if ending == "but":
        return [stem.text + "지만"]
    if ending == "because":
        return [stem.text + "기", "때문에"]
    if ending == "when":
        return [stem.prospective(), "때"]
    if ending == "if":
        return [stem.conditional()]
    if ending == "fact":
        return [stem.quoted().removesuffix("고") + "는", "것을"]
    return [stem.quoted() if ending == "quote" else stem.although()]


def verb_tokens(tree: Clause, phrase: VerbPhrase, ending: Ending, first_person: bool) -> list[Token]:
    """All the words of the predicate; those of the ending are possible for every part that it carries."""
    tokens, stem = with_modal(tree, phrase, first_person)
    durative = phrase.modal is not None or is_state(phrase)
    words = ended(tree, stem, ending, durative)
    content = phrase.adjective or phrase.verb
    carried = [phrase.verb.part] if phrase.adjective is not None else []
    sure = [content.part]
    if phrase.modal is not None:
        sure, carried = [phrase.modal.part], [content.part]
    if tree.negation is not None:
        if phrase.modal is None:
            sure, carried = [tree.negation.part], [content.part, *carried]
        else:
            carried = [*carried, tree.negation.part]
    last = [Token(text, [], [*sure, *carried]) for text in words]
    last[0].sure, last[0].possible = tuple(sure), tuple(carried)
    return [*tokens, *last]


def profession_tokens(tree: Clause, phrase: VerbPhrase, ending: Ending) -> list[Token]:
    """의사입니다; 의사가 아닙니다."""
    assert phrase.profession is not None
    noun, job = NOUNS[phrase.profession.concept].korean, phrase.profession.part
    silent = [phrase.profession_part, phrase.verb.part]
    if tree.negation is None:
        words = ended(tree, Stem(noun + "이", "copula"), ending, durative=True)
        first = Token(words[0], [job], silent)
        return [first, *(Token(text, [], [phrase.verb.part]) for text in words[1:])]
    words = ended(tree, Stem("아니", "adjective"), ending, durative=True)
    first = Token(noun + particle(noun, "subject"), [job], [phrase.profession_part])
    last = [Token(text, [], [tree.negation.part, phrase.verb.part]) for text in words]
    last[0].sure, last[0].possible = (tree.negation.part,), (phrase.verb.part,)
    return [first, *last]


def is_state(phrase: VerbPhrase) -> bool:
    """Whether the verb tells what lasts, not what happens."""
    return phrase.verb.concept == "exist" or "state" in VERBS[phrase.verb.concept].flags

"""The phrases: size, splits, and the grammar of each language, checked by rules of its own."""

import re
import time
from pathlib import Path

import pytest

from regard.data.toy import AlignedPair, toy_corpus
from regard.data.toy.__main__ import COVER_FACTOR, covering, main
from regard.data.toy.phrases import PAIRS, productions
from regard.data.toy.phrases.korean_forms import Stem, final_consonant, particle
from regard.data.toy.phrases.nouns import NOUNS
from regard.data.toy.phrases.sense import is_held_out
from regard.data.toy.phrases.verbs import VERBS
from regard.data.toy.phrases.words import ADJECTIVES, ADVERBS, NAMES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module", params=PAIRS)
def examples(request: pytest.FixtureRequest) -> tuple[str, list[AlignedPair]]:
    return request.param, list(toy_corpus("phrases", request.param).generate("train", 3000, seed=11))


def pairs_of(pair: str, count: int = 2500) -> list[AlignedPair]:
    return list(toy_corpus("phrases", pair).generate("train", count, seed=12))


def test_the_lexicon_and_the_grammar_are_large_enough(examples: tuple[str, list[AlignedPair]]) -> None:
    _, pairs = examples
    concepts = {**NOUNS, **VERBS, **ADJECTIVES, **ADVERBS, **NAMES}
    assert len(concepts) >= 200
    for side in ("source", "target"):
        words = {word.strip(".,?").lower() for pair in pairs for word in getattr(pair, side).split()}
        assert len(words) >= 300
    assert len(set.union(*map(productions, pairs))) >= 50


def test_the_samples_in_the_docs_are_what_the_program_prints(
    examples: tuple[str, list[AlignedPair]], capsys: pytest.CaptureFixture[str]
) -> None:
    pair, _pairs = examples
    assert main(["phrases", "--pair", pair, "--cover"]) == 0
    printed = capsys.readouterr().out
    assert printed == (DOCS / "samples" / f"phrases.{pair}.tsv").read_text(encoding="utf-8")
    assert printed.count("\n") == 50


def test_the_samples_show_every_production() -> None:
    corpus = toy_corpus("phrases")
    shown = covering(corpus.generate("train", 50 * COVER_FACTOR), 50)
    everything = set.union(*map(productions, corpus.generate("train", 3000, seed=5)))
    assert everything == set.union(*map(productions, shown))


def test_one_english_sentence_has_one_translation(examples: tuple[str, list[AlignedPair]]) -> None:
    translations: dict[str, set[str]] = {}
    for pair in examples[1]:
        translations.setdefault(pair.source, set()).add(pair.target)
    assert all(len(targets) == 1 for targets in translations.values())


def test_english_is_the_same_for_all_languages() -> None:
    first, second, third = (list(toy_corpus("phrases", pair).generate("valid", 20)) for pair in PAIRS)
    assert [p.source for p in first] == [p.source for p in second] == [p.source for p in third]


def test_lengths_are_mostly_short_with_a_tail_to_sixty(examples: tuple[str, list[AlignedPair]]) -> None:
    lengths = sorted(len(pair.source.split()) for pair in examples[1])
    assert lengths[0] >= 3
    assert lengths[-1] <= 60
    assert lengths[len(lengths) // 2] <= 12
    assert 0.02 <= sum(length >= 40 for length in lengths) / len(lengths) <= 0.1
    assert all(40 <= len(p.source.split()) <= 60 for p in toy_corpus("phrases").generate("long", 30))


def test_held_out_structures_occur_in_their_own_split_only() -> None:
    corpus = toy_corpus("phrases")
    for split in ("train", "valid", "test", "long"):
        for pair in corpus.generate(split, 100):
            assert pair.structure is not None
            assert not any(map(is_held_out, clause_structures(pair.structure)))
    for pair in corpus.generate("structures", 100):
        assert pair.structure is not None
        assert any(map(is_held_out, clause_structures(pair.structure)))


def clause_structures(structure: str) -> list[str]:
    return [part for part in structure.split(" / ") if " " in part]


def test_fifty_thousand_pairs_are_a_matter_of_seconds() -> None:
    start = time.process_time()
    assert sum(1 for _ in toy_corpus("phrases").generate("train", 3000)) == 3000
    assert time.process_time() - start < 3000 / 50000 * 30  # Thirty seconds for 50,000 on a slow machine.


def test_sentences_begin_with_a_capital_and_end_with_one_mark(examples: tuple[str, list[AlignedPair]]) -> None:
    for pair in examples[1]:
        for text in (pair.source, pair.target):
            assert re.fullmatch(r"[^.?]+[.?]", text)
            assert ",," not in text
            assert ",." not in text
            assert "  " not in text
            assert not text[0].islower()
        assert pair.source[-1] == pair.target[-1]


def test_english_articles_and_pronouns() -> None:
    for pair in pairs_of("en-fr"):
        assert not re.search(r"\b[Aa] [aeiou]", pair.source), pair.source
        assert not re.search(r"\b[Aa]n [^aeiou]", pair.source), pair.source
        assert not re.search(r"\b(I|we|they) (is|has|does|goes)\b", pair.source), pair.source
        assert (
            not re.search(r"\b(he|she) (are|were|have|do|go)\b", pair.source.replace("Does", "")) or "?" in pair.source
        )


def test_french_elides_and_contracts() -> None:
    vowel = "aeiouyàâéèêîôœ"
    for pair in pairs_of("en-fr"):
        text = pair.target.lower()
        assert not re.search(rf"\b(le|la|de|que|ne|je|me|se) [{vowel}h](?!uit)", text), text
        assert not re.search(r"\b(de les?|à les?)\b", text), text
        assert not re.search(rf"\b(ce|ma|sa|beau|vieux|nouveau) [{vowel}h]\w*[^sx]\b", singular(text)), text
        assert not re.search(r"\bsi ils?\b", text), text
        assert not re.search(r"'(?![a-zàâéèêîôœ])", text), text


def singular(text: str) -> str:
    return re.sub(
        r"\b(les|des|aux|ces|mes|ses|nos|leurs|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|quelques) .*", "", text
    )


def test_french_determiners_agree_with_their_nouns() -> None:
    gender = {noun.french: noun.french_gender for noun in NOUNS.values()}
    for pair in pairs_of("en-fr"):
        for determiner, noun in re.findall(r"\b(le|la|un|une|cette|du|au) (\w+)", pair.target.lower()):
            if noun in gender:
                feminine = determiner in ("la", "une", "cette")
                assert gender[noun] == ("f" if feminine else "m"), pair.target


def test_french_negation_is_whole() -> None:
    for pair in pairs_of("en-fr"):
        text = pair.target.lower()
        ne = len(re.findall(r"\bne\b|\bn'", text))
        assert ne == len(re.findall(r"\b(pas|jamais)\b", text)), text
        assert ne == len(re.findall(r"\b(not|cannot|never)\b", pair.source.lower())), text


def test_french_past_participles_agree() -> None:
    for pair in pairs_of("en-fr", 5000):
        text = pair.target
        assert not re.search(
            r"(^Elle|^Anna|, elle|^Julia|^Emma) (s')?est (allé|arrivé|parti|revenu|resté|levé)\b", text
        ), text
        assert not re.search(r"\b([Nn]ous|[Ii]ls) (sommes|sont) (allé|arrivé|parti|revenu|resté)\b", text), text


def test_german_subordinate_clauses_end_with_their_verb() -> None:
    finite = {verb.german_prefix + verb.german_present for verb in VERBS.values()} | {
        verb.german_prefix + verb.german for verb in VERBS.values()
    }
    finite |= {
        "bin",
        "ist",
        "sind",
        "war",
        "waren",
        "hat",
        "habe",
        "haben",
        "hatte",
        "hatten",
        "wird",
        "werde",
        "werden",
        "kann",
        "können",
        "muss",
        "müssen",
    }
    finite |= {
        "will",
        "wollen",
        "wollte",
        "wollten",
        "darf",
        "dürfen",
        "mag",
        "mochte",
        "mochten",
        "kannte",
        "kannten",
        "gibt",
        "gab",
        "weiß",
    }
    finite |= {"wohnte", "wohnten", "liebte", "liebten", "trug", "trugen", "regnet", "schneit"}
    first = {verb.german_prefix + verb.german[:-2] + "e" for verb in VERBS.values()}
    for pair in pairs_of("en-de"):
        for inner in re.findall(r"\b(?:weil|obwohl|dass) ([^,.?]+)", pair.target):
            last = inner.split()[-1]
            clause_goes_on = re.search(re.escape(inner) + r", (der|die|das|den|dem|denen|dass)\b", pair.target)
            assert last in finite or last in first or clause_goes_on, pair.target


def test_german_verbs_are_second_after_a_fronted_adverb() -> None:
    checked = 0
    for pair in pairs_of("en-de"):
        match = re.match(r"(Gestern|Heute|Jetzt|Morgen|Bald) (\w+)", pair.target)
        if match and match[2] not in ("Morgen", "Abend"):
            checked += 1
            assert match[2][0].islower(), pair.target
            assert match[2] not in ("der", "die", "das", "ein", "eine", "ich", "er", "sie", "wir"), pair.target
    assert checked > 10


def test_german_articles_suit_gender_and_case() -> None:
    gender = {noun.german: noun.german_gender for noun in NOUNS.values() if noun.german != noun.german_plural}
    allowed = {"der": "mf", "die": "f", "das": "n", "den": "m", "dem": "mn", "des": "mn", "im": "mn", "zum": "mn"}
    plurals = {noun.german_plural for noun in NOUNS.values()}
    for pair in pairs_of("en-de"):
        for article, noun in re.findall(r"\b(der|die|das|den|dem|im|zum) ([A-ZÄÖÜ]\w+)", pair.target):
            if noun in gender and noun not in plurals:
                assert gender[noun] in allowed[article], pair.target


def test_german_separable_prefixes_are_not_lost() -> None:
    for pair in pairs_of("en-de"):
        if re.match(r"(He|She|Anna|Paul) (opens|closes) the door\.", pair.source):
            assert pair.target.endswith((" auf.", " zu."))
    assert any(re.search(r"\b(auf|zu|an|ein|mit|zurück)[.,]", pair.target) for pair in pairs_of("en-de", 500))


def test_korean_particles_suit_the_final_consonant() -> None:
    nouns = [noun.korean for noun in NOUNS.values()] + [noun.korean_counter for noun in NOUNS.values()]
    words = {*nouns, *(name.korean for name in NAMES.values()), "그", "그녀", "그들", "우리"}
    words |= {noun.korean + "들" for noun in NOUNS.values() if "animate" in noun.tags}
    right = {word + particle(word, role) for word in words for role in ("topic", "subject", "object", "and")}
    wrong = {word + p for word in words for p in ("은", "는", "이", "가", "을", "를", "과", "와")} - right - words
    checked = 0
    for pair in pairs_of("en-ko"):
        for word in pair.target.split():
            assert word.strip(".,?") not in wrong, pair.target
            checked += word in right
    assert checked > 5000


def test_korean_ends_with_a_formal_verb() -> None:
    for pair in pairs_of("en-ko"):
        ending = "니까?" if pair.target.endswith("?") else ("니다.", "십시오.")
        assert pair.target.endswith(ending), pair.target
        assert "저가" not in pair.target.split()
        assert "누구가" not in pair.target


@pytest.mark.parametrize(
    ("stem", "forms"),
    [
        (Stem("먹"), "먹습니다 먹었 먹는 먹은 먹을 먹으면 먹는다고 먹으십시오"),
        (Stem("가"), "갑니다 갔 가는 간 갈 가면 간다고 가십시오"),
        (Stem("살"), "삽니다 살았 사는 산 살 살면 산다고 사십시오"),
        (Stem("듣", "verb", "ㄷ"), "듣습니다 들었 듣는 들은 들을 들으면 듣는다고 들으십시오"),
        (Stem("돕", "verb", "ㅂ"), "돕습니다 도왔 돕는 도운 도울 도우면 돕는다고 도우십시오"),
        (Stem("모르", "verb", "르"), "모릅니다 몰랐 모르는 모른 모를 모르면 모른다고 모르십시오"),
        (Stem("쓰"), "씁니다 썼 쓰는 쓴 쓸 쓰면 쓴다고 쓰십시오"),
        (Stem("노래하"), "노래합니다 노래했 노래하는 노래한 노래할 노래하면 노래한다고 노래하십시오"),
        (Stem("마시"), "마십니다 마셨 마시는 마신 마실 마시면 마신다고 마시십시오"),
    ],
)
def test_korean_verbs_are_conjugated(stem: Stem, forms: str) -> None:
    made = [stem.formal(), stem.past().text, stem.adnominal(), stem.adnominal_past(False), stem.prospective()]
    assert [*made, stem.conditional(), stem.quoted(), stem.command()] == forms.split()


@pytest.mark.parametrize(
    ("stem", "forms"),
    [
        (Stem("크", "adjective"), "큽니다 컸 큰 컸던 크다고 큰데도"),
        (Stem("아름답", "adjective", "ㅂ"), "아름답습니다 아름다웠 아름다운 아름다웠던 아름답다고 아름다운데도"),
        (Stem("빨갛", "adjective", "ㅎ"), "빨갛습니다 빨갰 빨간 빨갰던 빨갛다고 빨간데도"),
        (Stem("길", "adjective"), "깁니다 길었 긴 길었던 길다고 긴데도"),
        (Stem("아프", "adjective"), "아픕니다 아팠 아픈 아팠던 아프다고 아픈데도"),
        (Stem("의사이", "copula"), "의사입니다 의사였 의사인 의사였던 의사라고 의사인데도"),
        (Stem("학생이", "copula"), "학생입니다 학생이었 학생인 학생이었던 학생이라고 학생인데도"),
        (Stem("있", "existence"), "있습니다 있었 있는 있었던 있다고 있는데도"),
    ],
)
def test_korean_states_are_conjugated(stem: Stem, forms: str) -> None:
    made = [stem.formal(), stem.past().text, stem.adnominal(), stem.adnominal_past(False)]
    assert [*made, stem.quoted(), stem.although()] == forms.split()


def test_final_consonants() -> None:
    assert [final_consonant(word) for word in ("책", "개", "딸")] == ["ㄱ", " ", "ㄹ"]


def test_links_join_words_that_translate_each_other() -> None:
    lexicon = {noun.english: noun for noun in NOUNS.values()}
    for pair in PAIRS:
        language = {"fr": "french", "de": "german", "ko": "korean"}[pair[3:]]
        for example in pairs_of(pair, 600):
            source, target = example.source.split(), example.target.split()
            for index, word in enumerate(source):
                noun = lexicon.get(word.strip(".,?"))
                if noun is None or word in ("watch", "cook"):
                    continue
                linked = [target[j].strip(".,?") for i, j in example.sure if i == index]
                assert any(stem_in(getattr(noun, language), text) for text in linked), (example, word)


def stem_in(noun: str, text: str) -> bool:
    plain = str.maketrans("äöüáéè", "aouaee")
    return noun[:2].lower().translate(plain) in text.lower().translate(plain)

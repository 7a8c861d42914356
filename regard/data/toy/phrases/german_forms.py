"""German forms: declension of determiners, adjectives and nouns, and finite verbs."""

from typing import Literal

from regard.data.toy.phrases.nouns import Noun

Case = Literal["nominative", "accusative", "dative", "genitive"]

# Rows: case; columns: masculine, feminine, neuter, plural.
_COLUMN = {"m": 0, "f": 1, "n": 2, "p": 3}
DEFINITE: dict[Case, tuple[str, ...]] = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "den"),
    "genitive": ("des", "der", "des", "der"),
}
# The relative pronoun is the article, but for one form.
RELATIVE_DATIVE_PLURAL = "denen"
_EIN: dict[Case, tuple[str, ...]] = {
    "nominative": ("", "e", "", "e"),
    "accusative": ("en", "e", "", "e"),
    "dative": ("em", "er", "em", "en"),
    "genitive": ("es", "er", "es", "er"),
}
_STRONG_DETERMINER: dict[Case, tuple[str, ...]] = {
    "nominative": ("er", "e", "es", "e"),
    "accusative": ("en", "e", "es", "e"),
    "dative": ("em", "er", "em", "en"),
    "genitive": ("es", "er", "es", "er"),
}
# Adjective endings after der-words, after ein-words, and after a word without ending.
_WEAK: dict[Case, tuple[str, ...]] = {
    "nominative": ("e", "e", "e", "en"),
    "accusative": ("en", "e", "e", "en"),
    "dative": ("en", "en", "en", "en"),
    "genitive": ("en", "en", "en", "en"),
}
_MIXED: dict[Case, tuple[str, ...]] = {
    "nominative": ("er", "e", "es", "en"),
    "accusative": ("en", "e", "es", "en"),
    "dative": ("en", "en", "en", "en"),
    "genitive": ("en", "en", "en", "en"),
}
_STRONG: dict[Case, tuple[str, ...]] = {
    "nominative": ("er", "e", "es", "e"),
    "accusative": ("en", "e", "es", "e"),
    "dative": ("em", "er", "em", "en"),
    "genitive": ("en", "er", "en", "er"),
}
_ADJECTIVE_TABLES = {"weak": _WEAK, "mixed": _MIXED, "strong": _STRONG}
EIN_WORDS = {"a": "ein", "my": "mein", "his": "sein", "her": "ihr", "our": "unser", "their": "ihr"}
DER_WORDS = {"this": "dies", "every": "jed"}
PLURAL_WORDS = {"some": "einig", "many": "viel"}
NUMBERS = {
    "two": "zwei",
    "three": "drei",
    "four": "vier",
    "five": "fünf",
    "six": "sechs",
    "seven": "sieben",
    "eight": "acht",
    "nine": "neun",
    "ten": "zehn",
}
PRONOUNS: dict[Case, dict[str, str]] = {
    "nominative": {"I": "ich", "he": "er", "she": "sie", "we": "wir", "they": "sie"},
    "accusative": {"I": "mich", "he": "ihn", "she": "sie", "we": "uns", "they": "sie"},
    "dative": {"I": "mir", "he": "ihm", "she": "ihr", "we": "uns", "they": "ihnen"},
}
# The genitives of wholes: masculine and neuter nouns of which a part is named.
GENITIVES = {"house": "Hauses", "room": "Zimmers", "hotel": "Hotels", "castle": "Schlosses"}
CONTRACTIONS = {
    "in dem": "im",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "in das": "ins",
    "an das": "ans",
}
# ich, er, wir/sie
IRREGULAR_PRESENT = {
    "sein": ("bin", "ist", "sind"),
    "haben": ("habe", "hat", "haben"),
    "werden": ("werde", "wird", "werden"),
    "können": ("kann", "kann", "können"),
    "müssen": ("muss", "muss", "müssen"),
    "dürfen": ("darf", "darf", "dürfen"),
    "wollen": ("will", "will", "wollen"),
    "mögen": ("mag", "mag", "mögen"),
    "wissen": ("weiß", "weiß", "wissen"),
}
PRETERITE = {
    "sein": ("war", "war", "waren"),
    "haben": ("hatte", "hatte", "hatten"),
    "wollen": ("wollte", "wollte", "wollten"),
    "mögen": ("mochte", "mochte", "mochten"),
    "kennen": ("kannte", "kannte", "kannten"),
    "wohnen": ("wohnte", "wohnte", "wohnten"),
    "lieben": ("liebte", "liebte", "liebten"),
    "tragen": ("trug", "trug", "trugen"),
    "geben": ("gab", "gab", "gaben"),
}


def column(gender: str, plural: bool) -> int:
    """The column of the tables above."""
    return 3 if plural else _COLUMN[gender]


def determiner_form(concept: str, case: Case, gender: str, plural: bool) -> tuple[str, str]:
    """The determiner, and the declension of the adjectives after it."""
    index = column(gender, plural)
    if concept == "the":
        return DEFINITE[case][index], "weak"
    if concept in EIN_WORDS:
        return EIN_WORDS[concept] + _EIN[case][index], "mixed"
    if concept in DER_WORDS:
        return DER_WORDS[concept] + _STRONG_DETERMINER[case][index], "weak"
    if concept in PLURAL_WORDS:
        return PLURAL_WORDS[concept] + _STRONG[case][index], "strong"
    return NUMBERS[concept], "strong"


def adjective_form(stem: str, declension: str, case: Case, gender: str, plural: bool) -> str:
    """An adjective before a noun: teuer loses its e, müde does not double it."""
    stem = "teur" if stem == "teuer" else stem.removesuffix("e")
    return stem + _ADJECTIVE_TABLES[declension][case][column(gender, plural)]


def noun_form(concept: str, noun: Noun, case: Case, plural: bool) -> str:
    """A noun in its case."""
    if plural:
        ending = "n" if case == "dative" and noun.german_plural[-1] not in "ns" else ""
        return noun.german_plural + ending
    if noun.german_weak and case != "nominative":
        return noun.german_plural
    return GENITIVES.get(concept, noun.german) if case == "genitive" else noun.german


def present(infinitive: str, third: str, index: int) -> str:
    """The present tense for ich (0), er (1), wir or sie (2)."""
    if infinitive in IRREGULAR_PRESENT:
        return IRREGULAR_PRESENT[infinitive][index]
    return (infinitive[:-2] + "e", third, infinitive)[index]


def genitive_name(name: str) -> str:
    """Annas, Thomas'."""
    return name + ("'" if name[-1] in "sxzß" else "s")

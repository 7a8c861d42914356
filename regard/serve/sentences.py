"""Sentence splitting and joining: line breaks, spaces and placeholders between sentences are kept.

document = Document(text)
document.lines                     sentences for the model
document.accept(translations)      returns further lines where a translation lost a placeholder
document.accept_parts(further)     takes the translations of those lines
document.text()                    the whole translated text
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

LONGEST_SENTENCE = 500
"""Characters; longer sentences are split at a comma, else at a space. It bounds the decoding time of a sentence."""

_ABBREVIATIONS = """
    mr mrs ms dr prof st sr jr vs etc no nr vol fig eq ca approx inc ltd dept est gen col sgt capt
    hr fr hrn bzw usw evtl ggf inkl exkl str tel abs art bd mme mlle mm av cf env ex p pp sec chap
"""
_SHORT_WORDS = frozenset(_ABBREVIATIONS.split())

# A mark that ends a sentence, with the quotation marks and brackets that close after it. The lookbehind and the
# possessive quantifiers keep it linear: a run of marks is tried once, from its start.
_END = re.compile(
    r"""(?<![.!?…])(?P<mark>[.!?…]++)["'”’»)\]]*+(?P<space>\s++)|[。！？｡]++[」』”’）)\]]*+(?P<no_space>\s*+)"""
)
_MARKS = frozenset(",;:.!?…，、；：。！？)]»”’")
_CLAUSE_END = re.compile(r"[,;:，、；：]\s*")
_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"\S+")

# every repetition is bounded or possessive: the search is linear
PLACEHOLDER = re.compile(
    r"""
      https?://[^\s<>"'{}|\\^`]*[^\s<>"'{}|\\^`.,;:!?)\]]     # an address
    | [\w.+-]{1,64}+@[\w-]++(?:\.[\w-]++)++                    # of mail
    | \{\{[^{}]{0,80}\}\} | \$?\{[^{}\s]{0,80}\}              # {{ name }}, {name}, ${name}
    | %\(\w{1,80}\)[sdifgr] | %(?:\d{1,2}\$)?(?:\.\d)?[sdifg@](?![^\W\d_])   # %(name)s, %s, %1$s, %.2f
    | </?[a-zA-Z0-9][^<>]{0,80}>                              # <b>, </0>
    | &(?:\w{2,10}|\#\d{1,7});                                # &nbsp;
    | (?<!\w)__\w{1,80}?__(?!\w)                              # __NAME__
    """,
    re.VERBOSE,
)


Links = AbstractSet[tuple[int, int]]
"""(source word, target word), both counted from 0."""


@dataclass(frozen=True)
class Part:
    """A span of a text: a sentence to translate, or text to keep."""

    text: str
    translate: bool


def split_text(text: str) -> list[Part]:
    """The sentences of a text and the text between them; joined they are the text."""
    return [part for line in text.splitlines(keepends=True) for part in split_line(line)]


def split_line(line: str) -> list[Part]:
    """The sentences of a line and the white space around them."""
    parts: list[Part] = []
    for sentence in _sentences(line):
        before, bare, after = stripped(sentence)
        parts += [Part(before, False), *_bounded(bare), Part(after, False)]
    return [part for part in parts if part.text]


def stripped(text: str) -> tuple[str, str, str]:
    """The white space before a text, the text, and the white space behind it."""
    bare = text.lstrip()
    before = text[: len(text) - len(bare)]
    end = len(bare.rstrip())
    return before, bare[:end], bare[end:]


def _sentences(line: str) -> Iterator[str]:
    """The line split after each sentence and its trailing space."""
    start = 0
    for found in _END.finditer(line):
        if found["mark"] is None or _ends_sentence(line, start, found):
            yield line[start : found.end()]
            start = found.end()
    if start < len(line):
        yield line[start:]


def _ends_sentence(line: str, start: int, found: re.Match[str]) -> bool:
    """Whether the punctuation mark ends a sentence, not an abbreviation or an ordinal number."""
    following = line[found.end() : found.end() + 1]
    if not following:
        return True
    if found.start() > start and line[found.start() - 1].isspace():  # tokenised text, with separate punctuation
        return True
    if following.islower():
        return False
    if found["mark"] != ".":
        return True
    word = _word_before(line, start, found.start()).lstrip("\"'“‘«([")
    is_initial = len(word) == 1 and word.isalpha() and word.isascii()
    return not (is_initial or word.isdecimal() or "." in word or word.lower() in _SHORT_WORDS)


def _word_before(line: str, start: int, end: int) -> str:
    """The white-space word that ends at `end`."""
    first = end
    while first > start and not line[first - 1].isspace():
        first -= 1
    return line[first:end]


def _bounded(sentence: str) -> Iterator[Part]:
    """A sentence without space around it, in pieces of at most LONGEST_SENTENCE characters."""
    start = 0
    while len(sentence) - start > LONGEST_SENTENCE:
        head = sentence[start : start + LONGEST_SENTENCE]
        clauses = [found.end() for found in _CLAUSE_END.finditer(head)]
        cut = next((end for end in reversed(clauses) if end > LONGEST_SENTENCE // 4), head.rfind(" ") + 1)
        cut = cut or LONGEST_SENTENCE
        yield from _spaced(head[:cut])
        start += cut
        spaces = _SPACES.match(sentence, start)
        if spaces:
            yield Part(spaces.group(), False)
            start = spaces.end()
    yield from _spaced(sentence[start:])


def _spaced(text: str) -> Iterator[Part]:
    """The text stripped, and the space around it; text without letters and digits is kept untranslated."""
    before, bare, after = stripped(text)
    worth = bool(bare) and any(character.isalnum() for character in PLACEHOLDER.sub("", bare))
    yield from (Part(before, False), Part(bare, worth), Part(after, False))


def around_placeholders(sentence: str) -> list[Part]:
    """The sentence split at its placeholders, which are kept together with the punctuation after them."""
    parts: list[Part] = []
    start = 0
    for found in PLACEHOLDER.finditer(sentence):
        parts += [*_spaced(sentence[start : found.start()]), Part(found.group(), False)]
        start = found.end()
        while start < len(sentence) and sentence[start] in _MARKS:
            parts.append(Part(sentence[start], False))
            start += 1
    parts += _spaced(sentence[start:])
    return [part for part in parts if part.text]


def keeps_placeholders(sentence: str, translation: str) -> bool:
    """Whether the translation contains each placeholder as often as the sentence."""
    wanted = Counter(PLACEHOLDER.findall(sentence))
    return all(translation.count(each) == count for each, count in wanted.items())


@dataclass(frozen=True)
class LinkedText:
    """A translation of a sentence, with its word alignment."""

    text: str
    links: Links = frozenset()


def joined(pairs: Sequence[tuple[str, str]]) -> LinkedText:
    """The joined translation of a sentence that was split; words of a part are aligned to the part's first and last."""
    source, target = "".join(each for each, _ in pairs), "".join(each for _, each in pairs)
    words, others = [found.end() for found in _WORD.finditer(source)], [found.end() for found in _WORD.finditer(target)]
    links: set[tuple[int, int]] = set()
    start = target_start = 0
    for each, other in pairs:
        end, target_end = start + len(each.rstrip()), target_start + len(other.rstrip())
        if each.strip() and other.strip():  # words that overlap the part
            first, last = bisect_right(words, start), bisect_left(words, end)
            ends = {bisect_right(others, target_start), bisect_left(others, target_end)}
            links.update((word, end) for word in range(first, last + 1) for end in ends)
        start, target_start = start + len(each), target_start + len(other)
    return LinkedText(target, links)


@dataclass
class Document:
    """A text with the translations of its sentences; each sentence has an n-best list."""

    parts: list[Part]
    _said: dict[int, list[LinkedText]] = field(default_factory=dict)  # index of a part to its n-best list
    _cut: dict[int, list[Part]] = field(default_factory=dict)  # sentences split at placeholders

    @classmethod
    def of(cls, text: str) -> Document:
        """The document of a plain text."""
        return cls(split_text(text))

    @property
    def lines(self) -> list[str]:
        """The sentences to translate."""
        return [part.text for part in self.parts if part.translate]

    @property
    def needs_links(self) -> bool:
        """Whether `accept` needs word alignments."""
        return False

    def accept(self, translations: Sequence[list[str]], links: Sequence[list[Links]] | None = None) -> list[str]:
        """Take the translations of `lines`; returns further lines where a placeholder was lost.

        `links` are the word alignments of each translation, from attention, where needed.
        """
        places = [place for place, part in enumerate(self.parts) if part.translate]
        nothing: Links = frozenset()
        known = links or [[nothing] * len(found) for found in translations]
        for place, found, linked in zip(places, translations, known, strict=True):
            part = self.parts[place]
            said = [
                LinkedText(*pair) for pair in zip(found, linked, strict=True) if keeps_placeholders(part.text, pair[0])
            ]
            if said:
                self._said[place] = said
            else:
                self._cut[place] = around_placeholders(part.text)
        return [part.text for parts in self._cut.values() for part in parts if part.translate]

    def accept_parts(self, translations: Sequence[list[str]]) -> None:
        """Take the translations of the lines that `accept` returned."""
        stream, linked = iter(translations), self.needs_links
        for place, parts in self._cut.items():
            pairs = [(part.text, next(stream)[0] if part.translate else part.text) for part in parts]
            self._said[place] = [joined(pairs) if linked else LinkedText("".join(said for _, said in pairs))]

    def said(self, place: int, choice: int = 0) -> LinkedText:
        """The translation of a part, or the part itself; `choice` 1 is the second one, if there is one."""
        found = self._said.get(place)
        return LinkedText(self.parts[place].text) if found is None else found[min(choice, len(found) - 1)]

    def text(self, choice: int = 0) -> str:
        """The whole text; `choice` 1 takes the second translation of each sentence that has one, and so on."""
        return "".join(self.said(place, choice).text for place in range(len(self.parts)))

    def alternatives(self, count: int) -> list[str]:
        """At most `count` alternative translations, all different."""
        texts = dict.fromkeys(self.text(choice) for choice in range(count + 1))
        return list(texts)[1:]

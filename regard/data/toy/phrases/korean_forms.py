"""Korean forms: syllable arithmetic, particles by the final consonant, and verb endings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["verb", "adjective", "existence", "copula", "past"]

_FIRST_SYLLABLE = 0xAC00
_FINALS = " ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"
_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
# A stem's last vowel together with 아 or 어.
_CONTRACTED = {
    "ㅏ": "ㅏ",
    "ㅓ": "ㅓ",
    "ㅐ": "ㅐ",
    "ㅔ": "ㅔ",
    "ㅕ": "ㅕ",
    "ㅗ": "ㅘ",
    "ㅜ": "ㅝ",
    "ㅣ": "ㅕ",
    "ㅚ": "ㅙ",
}
_BRIGHT = "ㅏㅗㅑ"
PARTICLES = {
    "topic": ("은", "는"),
    "subject": ("이", "가"),
    "object": ("을", "를"),
    "and": ("과", "와"),
    "to": ("에게", "에게"),
    "at": ("에", "에"),
    "in": ("에서", "에서"),
    "of": ("의", "의"),
}


def _split(syllable: str) -> tuple[int, int, int]:
    code = ord(syllable) - _FIRST_SYLLABLE
    return code // 588, code % 588 // 28, code % 28


def _join(initial: int, vowel: int, final: int) -> str:
    return chr(_FIRST_SYLLABLE + initial * 588 + vowel * 28 + final)


def final_consonant(text: str) -> str:
    """The final consonant of the last syllable, or a blank."""
    return _FINALS[_split(text[-1])[2]]


def with_final(text: str, consonant: str) -> str:
    """The text with another final consonant (a blank takes it away)."""
    initial, vowel, _ = _split(text[-1])
    return text[:-1] + _join(initial, vowel, _FINALS.index(consonant))


def with_vowel(text: str, vowel: str) -> str:
    """The text with another vowel in its last, open syllable."""
    initial, _, final = _split(text[-1])
    return text[:-1] + _join(initial, _VOWELS.index(vowel), final)


def vowel_of(text: str) -> str:
    """The vowel of the last syllable."""
    return _VOWELS[_split(text[-1])[1]]


def particle(text: str, role: str) -> str:
    """The particle that suits the word's last syllable."""
    after_consonant, after_vowel = PARTICLES[role]
    return after_vowel if final_consonant(text) == " " else after_consonant


@dataclass(frozen=True, slots=True)
class Stem:
    """What a Korean ending is added to; `irregular` names the class by its consonant."""

    text: str
    kind: Kind = "verb"
    irregular: str = ""

    def _open(self) -> str:
        """The stem before endings in (으): 먹으, 가, 들으, 도우, 빨가, 만들."""
        if self.irregular == "ㄷ":
            return with_final(self.text, "ㄹ") + "으"
        if self.irregular == "ㅂ":
            return with_final(self.text, " ") + "우"
        if self.irregular == "ㅎ":
            return with_final(self.text, " ")
        return self.text if final_consonant(self.text) in " ㄹ" else self.text + "으"

    def _without_l(self) -> str:
        """The stem before ㄴ, ㅂ and ㅅ, where a final ㄹ falls away."""
        return with_final(self.text, " ") if final_consonant(self.text) == "ㄹ" else self.text

    def infinitive(self) -> str:
        """The form in 아 or 어: 먹어, 가, 들어, 도와, 아름다워, 빨개, 써, 해."""
        text = self.text
        if text.endswith("하"):
            return text[:-1] + "해"
        if self.irregular == "ㅂ":
            return with_final(text, " ") + ("와" if text == "돕" else "워")
        if self.irregular == "ㅎ":
            bare = with_final(text, " ")
            return with_vowel(bare, "ㅒ" if vowel_of(bare) == "ㅑ" else "ㅐ")
        if self.irregular == "르":
            return with_final(text[:-1], "ㄹ") + ("라" if vowel_of(text[:-1]) in _BRIGHT else "러")
        if final_consonant(text) != " ":
            base = with_final(text, "ㄹ") if self.irregular == "ㄷ" else text
            return base + ("아" if vowel_of(text) in _BRIGHT else "어")
        if vowel_of(text) == "ㅡ":
            bright = len(text) > 1 and vowel_of(text[:-1]) in _BRIGHT
            return with_vowel(text, "ㅏ" if bright else "ㅓ")
        return with_vowel(text, _CONTRACTED[vowel_of(text)])

    def past(self) -> Stem:
        """The stem of the past: 먹었, 갔, 의사였, 학생이었."""
        if self.kind == "copula":
            noun = self.text[:-1]
            return Stem(noun + ("였" if final_consonant(noun) == " " else "이었"), "past")
        if self.text.endswith("아니"):
            return Stem(self.text + "었", "past")
        return Stem(with_final(self.infinitive(), "ㅆ"), "past")

    def formal(self, question: bool = False) -> str:
        """The ending of a sentence: 먹습니다, 갑니까."""
        ending = "니까" if question else "니다"
        base = self._without_l()
        return with_final(base, "ㅂ") + ending if final_consonant(base) == " " else base + "습" + ending

    def command(self) -> str:
        """A polite command: 가십시오, 여십시오."""
        base = self._without_l()
        return (base if final_consonant(self.text) == "ㄹ" else self._open()) + "십시오"

    def prospective(self) -> str:
        """The form in (으)ㄹ."""
        base = self._open()
        return base if final_consonant(base) == "ㄹ" else with_final(base, "ㄹ")

    def conditional(self) -> str:
        """The form in (으)면."""
        return self._open() + "면"

    def _adnominal_n(self) -> str:
        """The form in (으)ㄴ."""
        return with_final(self._open(), "ㄴ")

    def adnominal(self) -> str:
        """The present before a noun: 먹는, 큰, 있는, 의사인."""
        if self.kind in ("verb", "existence"):
            return self._without_l() + "는"
        return self._adnominal_n()

    def adnominal_past(self, durative: bool) -> str:
        """The past before a noun: 먹은; states and adjectives 살았던, 컸던."""
        if self.kind == "verb" and not durative:
            return self._adnominal_n()
        return self.past().text + "던"

    def although(self) -> str:
        """The form in (으)ㄴ데도 or 는데도."""
        if self.kind in ("verb", "existence", "past"):
            return self._without_l() + "는데도"
        return self._adnominal_n() + "데도"

    def quoted(self) -> str:
        """Reported speech: 먹는다고, 간다고, 크다고, 의사라고."""
        if self.kind == "copula":
            noun = self.text[:-1]
            return noun + ("라고" if final_consonant(noun) == " " else "이라고")
        if self.text.endswith("아니"):
            return self.text + "라고"
        if self.kind != "verb":
            return self.text + "다고"
        base = self._without_l()
        return with_final(base, "ㄴ") + "다고" if final_consonant(base) == " " else base + "는다고"

"""Words that remember which part of the derivation they come from, and the gold links that follow from it."""

from collections.abc import Iterable

from regard.data.toy.pairs import Links


class Token:
    """A white-space word with the numbers of the tree parts it renders, surely or possibly."""

    __slots__ = ("possible", "sure", "text")

    def __init__(self, text: str, sure: Iterable[int] = (), possible: Iterable[int] = ()) -> None:
        self.text = text
        self.sure = tuple(sure)
        self.possible = tuple(possible)

    def __repr__(self) -> str:
        return f"Token({self.text!r}, {self.sure}, {self.possible})"


def punctuate(tokens: list[Token], mark: str) -> list[Token]:
    """Glue a punctuation mark to the last word, which replaces a comma that stands there already."""
    tokens[-1].text = tokens[-1].text.rstrip(",") + mark
    return tokens


def capitalise(tokens: list[Token]) -> list[Token]:
    """Give the first word of a sentence its capital letter."""
    first = tokens[0]
    first.text = first.text[0].upper() + first.text[1:]
    return tokens


def link(source: list[Token], target: list[Token]) -> tuple[Links, Links]:
    """Sure and possible links (possible contains sure): words are linked if they render the same tree part."""
    places: dict[int, list[tuple[int, bool]]] = {}
    for index, token in enumerate(source):
        for part in token.sure:
            places.setdefault(part, []).append((index, True))
        for part in token.possible:
            places.setdefault(part, []).append((index, False))
    sure: set[tuple[int, int]] = set()
    possible: set[tuple[int, int]] = set()
    for index, token in enumerate(target):
        for part in token.sure:
            for position, certain in places.get(part, ()):
                possible.add((position, index))
                if certain:
                    sure.add((position, index))
        for part in token.possible:
            possible.update((position, index) for position, _ in places.get(part, ()))
    return tuple(sorted(sure)), tuple(sorted(possible))

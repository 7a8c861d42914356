"""Links of words from the attention of a translation."""

from __future__ import annotations

import numpy as np

from regard.data.text.tokenizer import Token
from regard.inference.translation import Attended, Translation
from regard.serve.service import _links


def translation(weights: list[list[float]] | None) -> Translation:
    source = [Token(5, word, place, 0, 0) for place, word in enumerate(["a", "red", "car"])]
    target = [Token(5, word, place, 0, 0) for place, word in enumerate(["voiture", "rouge"])]
    alignment = None if weights is None else np.array(weights)
    return Translation("a red car", "voiture rouge", source, target, recorded=Attended(alignment=alignment))


def test_every_target_word_has_a_link_and_source_words_that_are_attended_to() -> None:
    assert _links(translation([[0.3, 0, 0.7], [0, 1, 0]])) == {(2, 0), (1, 1), (0, 0)}
    assert _links(translation([[0.05, 0, 0.95], [0, 1, 0]])) == {(2, 0), (1, 1)}
    assert _links(translation(None)) == frozenset()

"""Ribbons for a notebook: the strongest links, the candidates, every kind of model, and nothing of a user's runs."""

from __future__ import annotations

import itertools
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from look_help import black_cat, look_of, side, translator_of

from regard.look.views.ribbons import HEIGHT, ribbons_html


def svg(html: str) -> ElementTree.Element:
    found = re.search(r"<svg.*</svg>", html, re.DOTALL)
    assert found is not None
    return ElementTree.fromstring(found[0])


def titles(html: str) -> list[str]:
    return [each.text or "" for each in svg(html).iter() if each.tag.endswith("title")]


def test_each_word_has_its_strongest_ribbon_and_no_faint_one() -> None:
    found = titles(ribbons_html(black_cat()))
    assert found == ["chat → cat 0.95", "noir → black 1.00"]


def test_a_notebook_shows_it_and_its_candidates_without_script() -> None:
    translator = translator_of({"kind": "bahdanau"})
    shown = translator.translate("the cat saw a dog.")._repr_html_()
    look = translator.look("the cat saw a dog.")
    assert shown == look._repr_html_() == ribbons_html(look)
    assert "<script" not in shown
    assert float(svg(shown).attrib["height"]) == HEIGHT <= 260
    assert f"{look.steps[0].candidates[0].probability:.2f}</text>" in shown
    assert f"mean probability per word {look.mean_probability:.2f}" in shown
    assert translator.translate("  ")._repr_html_() is None


@pytest.mark.parametrize("kind", ["seq2seq", "transformer", "luong"])
def test_every_architecture_is_drawn(kind: str) -> None:
    more: dict[str, Any] = {"heads": 2} if kind == "transformer" else {}
    shown = translator_of({"kind": kind, **more}).look("작은 고양이 <b>&", reference="a <script>")._repr_html_()
    words = [each.text for each in svg(shown).iter() if each.tag.endswith("text") and each.text]
    assert "고양이" in words
    assert "<script>" not in shown
    if kind == "seq2seq":
        assert any("one vector of" in title for title in titles(shown))


def test_words_of_both_lines_stay_inside_and_apart() -> None:
    source = side("an extraordinarily long word", ("an", 0), ("extraordinarily", 1), ("long", 2), ("word", 3))
    look = look_of(source, side("x y", ("x", 0), ("y", 1)), [[0.2] * 5] * 3)
    drawn = svg(ribbons_html(look))
    width = float(drawn.attrib["width"])
    for y in {each.attrib["y"] for each in drawn.iter() if each.tag.endswith("text")}:
        places = [float(each.attrib["x"]) for each in drawn.iter() if each.attrib.get("y") == y and each.text]
        assert all(10 < place < width - 10 for place in places)
        assert all(other - one > 20 for one, other in itertools.pairwise(places))

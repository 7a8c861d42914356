"""The text of --train, --valid and --back-translated, and --mix."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.cli.texts import BETWEEN, has_one_file, one_text, training_text
from regard.data.text.parallel import TabbedFile
from regard.data.text.sources import BackTranslated, Mix
from regard.errors import ConfigError


def two(source: str, target: str) -> str:
    return f"{source}{BETWEEN}{target}"


def test_one_corpus_in_each_of_its_forms() -> None:
    assert training_text(None, None, None, None) is None
    assert training_text([two("a.de", "a.en")], None, None, None) == ("a.de", "a.en")
    assert training_text(["a.de", "a.en"], None, None, None) == ("a.de", "a.en")
    assert training_text(["a.tsv"], None, None, (1, 3)) == TabbedFile(Path("a.tsv"), (1, 3))
    assert training_text(["toy:copy"], None, None, None) == "toy:copy"
    assert one_text("--valid", ["none"], (1, 2)) == "none"
    assert one_text("--valid", ["c", "d"], None) == ("c", "d")


def test_several_corpora() -> None:
    pairs = [two("a.de", "a.en"), two("b.de", "b.en")]
    both = [("a.de", "a.en"), ("b.de", "b.en")]
    assert training_text(pairs, None, None, None) == Mix(both)
    assert training_text(pairs, None, "3,1", None) == Mix(both, [3.0, 1.0])
    assert training_text(["a.tsv", "b.tsv"], None, "1,1", None) == Mix(["a.tsv", "b.tsv"], [1.0, 1.0])
    assert training_text(["a.tsv", pairs[1]], None, None, None) == Mix(["a.tsv", both[1]])
    tagged = training_text([pairs[0]], [two("bt.de", "mono.en")], "1,0.5", None)
    assert tagged == Mix([both[0], BackTranslated(("bt.de", "mono.en"))], [1.0, 0.5])
    assert not has_one_file(tagged)
    assert has_one_file(training_text([pairs[0]], ["bt.tsv"], None, (1, 2)))


@pytest.mark.parametrize(
    ("train", "tagged", "mix", "message"),
    [
        (["a", "b", "c"], None, None, r"--train a --train b --train c: two sides or 3 corpora\? .* or --mix 1,1,1 if"),
        (["toy:copy", "b.tsv"], None, None, r"two sides or 2 corpora"),
        (["a", "b"], None, "3", r"--mix 3: 1 weights for 2 corpora: give one for each --train"),
        ([two("a", "b")], None, "3,x", r"--mix 3,x: give a weight above 0 for each corpus"),
        ([two("a", "b"), "c"], None, "3,0", r"--mix 3,0: give a weight above 0"),
        ([two("a", "b"), "c"], None, "3,nan", r"--mix 3,nan: give a weight above 0"),
        (None, ["bt.tsv"], None, r"--back-translated: goes with --train"),
        (None, None, "1,1", r"--mix: goes with --train"),
    ],
)
def test_what_is_ambiguous_or_wrong_is_refused(
    train: list[str] | None, tagged: list[str] | None, mix: str | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        training_text(train, tagged, mix, None)
    with pytest.raises(ConfigError, match="at most two files"):
        one_text("--valid", [two("a", "b"), "c"], None)


def test_wrong_mixes_from_python_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 weights for 1 texts"):
        Mix([("a", "b")], [1, 2])
    with pytest.raises(ConfigError, match="each must be a number above 0"):
        Mix(["a", "b"], [1, -2])
    with pytest.raises(ConfigError, match="a mix of no texts"):
        Mix([])

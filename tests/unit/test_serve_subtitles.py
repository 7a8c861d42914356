"""Subtitles: numbers and times stay, tags go with their words, lines are broken again."""

from __future__ import annotations

import pytest

from regard.serve.subtitles import SubtitleDocument, line_breaks


def translated(text: str) -> str:
    """Every sentence backwards, in capitals."""
    document = SubtitleDocument.of(text)
    said = [[" ".join(reversed(line.upper().split()))] for line in document.lines]
    links = [
        [{(place, len(line.split()) - 1 - place) for place in range(len(line.split()))}] for line in document.lines
    ]
    document.accept_parts([[line.upper()] for line in document.accept(said, links)])
    return document.text()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("a small\nhouse", "HOUSE\nSMALL A"),  # one sentence in two lines
        ("- who?\n- you do", "WHO? -\nDO YOU -"),  # two speakers
        ("<i>a small</i> house", "HOUSE <i>SMALL A</i>"),
        ("fish & chips < all", "ALL < CHIPS & FISH"),
        ("{\\an8}42", "{\\an8}42"),
        ("1984", "1984"),
        ("...", "..."),
    ],
)
def test_a_subtitle_is_translated_whole(lines: str, expected: str) -> None:
    frame = "\ufeff1\n00:00:01,000 --> 00:00:02,000 X1:1\n{}\n\n2\n00:00:03,000 --> 00:00:04,000\nend\n"
    assert translated(frame.format(lines)) == frame.format(expected).replace("end", "END")
    windows = frame.format(lines).replace("\n", "\r\n")
    assert translated(windows) == frame.format(expected).replace("end", "END").replace("\n", "\r\n")


def test_text_without_times_is_text() -> None:
    assert translated("") == ""
    assert translated("one\n\n\ntwo three") == "ONE\n\n\nTHREE TWO"


def test_lines_are_broken_at_spaces_into_similar_lengths() -> None:
    assert list(line_breaks("aaa bbb ccc ddd", 2)) == [7]
    assert list(line_breaks("aaa bbb ccc ddd", 4)) == [3, 7, 11]
    assert list(line_breaks("aaa bbb", 9)) == [3]
    assert list(line_breaks("aaa", 2)) == []

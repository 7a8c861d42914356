"""The endurance test itself: its requests are what they claim, and it fails when a server does not hold."""

import json

import pytest

from benchmarks.endurance import KINDS, QUARTERS, Kind, Tally, parts, verdict


def test_every_kind_is_a_whole_request_but_the_one_that_lies_about_its_length():
    for kind in KINDS:
        head, _, body = kind.request("word7").partition(b"\r\n\r\n")
        assert head.startswith(b"GET /" if kind.body is None else b"POST /")
        assert b"WORD" not in head + body
        if kind.length is None and kind.body is not None:
            assert f"Content-Length: {len(body)}".encode() in head
    good = next(kind for kind in KINDS if kind.name == "good")
    assert json.loads(good.request("word7").partition(b"\r\n\r\n")[2])["q"] == "word7"


@pytest.mark.parametrize(("statuses", "memory", "expected"), [
    ([200, 200, 503], [100.0, 110.0], 0),
    ([200, 500], [100.0, 100.0], 1),
    ([200, 0], [100.0, 100.0], 1),
    ([200, 404], [100.0, 100.0], 1),
    ([200], [100.0, 140.0], 1),
    ([200], [140.0, 180.0, 141.0], 0),
])  # fmt: skip
def test_a_fault_a_silence_or_growth_fails(statuses, memory, expected):
    tally = Tally(0)
    for status in statuses:
        tally.count(Kind("good", 1, 200), status)
    assert verdict(tally, memory, 32) == expected


def test_all_requests_are_sent_in_quarters():
    assert list(parts(10)) == [2, 3, 2, 3]
    assert len(list(parts(1_000_000))) == QUARTERS
    tally = Tally(2)
    assert [tally.take() for _ in range(3)] == [True, True, False]

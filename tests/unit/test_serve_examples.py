"""Example sentences of the page: written for some languages, else from the model's last validation."""

import json
from pathlib import Path

from regard.serve.examples import examples_of, validation_samples


def test_written_languages_have_six_kinds_of_examples() -> None:
    for language in ("en", "de", "fr", "ko"):
        examples = examples_of(language, ["not this one"])
        assert [each["kind"] for each in examples] == [
            "reordering", "agreement", "negation", "question", "long", "unseen",
        ]  # fmt: skip
        assert len({each["text"] for each in examples}) == 6
        assert max(len(each["text"]) for each in examples) <= 400  # as many characters as can be looked at


def test_other_languages_have_sentences_of_the_last_validation(tmp_path: Path) -> None:
    old, new = ([{"source": f"{name} {n}", "translation": "x"} for n in range(9)] for name in ("old", "new"))
    lines = [{"event": "validation", "samples": old}, {"event": "train"}, {"event": "validation", "samples": new}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    samples = validation_samples(tmp_path)
    assert samples[0] == "new 0"
    assert examples_of("und", samples) == [{"kind": "sample", "text": f"new {n}"} for n in range(6)]


def test_a_missing_or_damaged_log_gives_none(tmp_path: Path) -> None:
    assert validation_samples(tmp_path) == ()
    for text in ('{"event": "validation", ', '["validation"]', '{"event": "validation", "samples": [1]}', "\xff"):
        (tmp_path / "log.jsonl").write_bytes(text.encode("latin-1") + b"\n")
        assert validation_samples(tmp_path) == ()
    assert examples_of("und") == []

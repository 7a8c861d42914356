"""`regard compare`: entrants, the resumable queue, significance, the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_train_classifier import folder_of_classes

from regard.cli import main
from regard.comparison import compare
from regard.comparison.entrants import labels, parse_entrants, slug
from regard.errors import ConfigError, ModelFolderError
from regard.evaluation.significance import paired_bootstrap
from regard.inference.translator import Translator
from regard.training import Interrupted
from regard.training import loop as loop_module

SMALL = ["model.embedding_size=8", "model.hidden_size=8", "training.batch_tokens=200", "training.warmup=2"]
TOY = "toy:phrases:en-fr:60"


def test_entrants_are_recipes_variants_and_models(tmp_path: Path) -> None:
    plain, variant = parse_entrants(["luong", "luong:model.score=dot,training.betas=[0.9,0.999]"], [])
    assert (plain.name, plain.task, variant.name[:6]) == ("luong", "translation", "luong:")
    assert variant.recipe is not None
    assert variant.recipe.model_dump()["model"]["score"] == "dot"
    assert variant.recipe.model_dump()["training"]["betas"] == (0.9, 0.999)
    assert slug("luong:model.score=dot") == "luong-model.score=dot"
    assert labels(["luong:model.score=dot,model.layers=1", "luong:model.score=general,model.layers=1", "bahdanau"]) == [
        "luong score=dot",
        "luong score=general",
        "bahdanau",
    ]
    assert labels(["luong:model.score=dot"]) == ["luong score=dot"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "nothing to compare"),
        (["luong", "luong"], "luong: is named twice"),
        (["luong", "bam"], "different tasks"),
        (["luogn"], "did you mean 'luong'?"),
        (["luong:score"], "'score' is no setting"),
    ],
)
def test_wrong_entrants_are_refused(words: list[str], line: str) -> None:
    with pytest.raises(ConfigError, match=line.replace("?", r"\?")):
        parse_entrants(words, [])


def test_paired_bootstrap_tells_a_better_system_from_an_equal_one() -> None:
    references = [f"the {word} cat sat on mat {n}" for n, word in enumerate(["old", "new", "big"] * 20)]
    worse = [line if "old" in line else line.replace("sat on", "is in") for line in references]
    found = paired_bootstrap({"same": references, "copy": references, "worse": worse}, [references], samples=200)
    assert found["same"]["bleu"].score == pytest.approx(100)
    assert found["same"]["bleu"].p_value is None
    assert found["copy"]["bleu"].p_value == 1
    assert found["worse"]["bleu"].p_value is not None
    assert found["worse"]["bleu"].p_value < 0.05
    assert found["worse"]["bleu"].half_width > 0
    alone = paired_bootstrap({"worse": worse}, [references], samples=200)["worse"]
    assert alone["chrf"].score == found["worse"]["chrf"].score


def test_text_models_are_compared_on_the_same_pieces_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "runs"

    def run() -> str:
        found = compare(
            ["luong", "attention"],
            train=TOY,
            out=out,
            epochs=1,
            vocabulary=400,
            beam=2,
            overrides=SMALL,
            sentences=["The cat sleeps."],
            threads=1,
            progress=False,
        )
        return found.text()

    real, calls = loop_module.seed_of, [0]

    def dies(seed: int, number: int) -> int:
        calls[0] += 1
        if len(list(out.glob("attention-1/training/run.json"))):
            raise Interrupted("stopped", True)
        return real(seed, number)

    with monkeypatch.context() as patch:
        patch.setattr(loop_module, "seed_of", dies)
        with pytest.raises(Interrupted):
            run()
    done = json.loads((out / "results.json").read_text())["runs"]
    assert list(done) == ["luong#1"]
    text = run()
    after = json.loads((out / "results.json").read_text())["runs"]
    assert after["luong#1"] == done["luong#1"]
    assert list(after) == ["luong#1", "attention#1"]
    pieces = [(out / f"{name}-1" / "tokenizer.json").read_bytes() for name in ("luong", "attention")]
    assert pieces[0] == pieces[1]
    for title in ("parameters", "minutes", "tokens/s", "BLEU", "| p ", "chrF", "AER", "sentences/s"):
        assert title in text
    page = (out / "comparison.html").read_text("utf-8")
    assert page.count("<svg") >= 3  # loss curves, and attention of two models
    assert "The cat sleeps." in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")
    with pytest.raises(ModelFolderError, match="holds a comparison with epochs 1, not 2"):
        compare(["luong"], train=TOY, out=out, epochs=2, vocabulary=400, beam=2, overrides=SMALL, progress=False)

    ready = compare([str(out / "luong-1")], test="toy:phrases:en-fr", out=tmp_path / "ready", beam=2, progress=False)
    assert ready.entries[0].mean("bleu") == pytest.approx(after["luong#1"]["bleu"])
    assert isinstance(Translator.load(out / "luong-1"), Translator)


def test_image_classifiers_are_compared_by_the_same_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = folder_of_classes(tmp_path / "data")
    small = ["training.updates=2", "training.batch_images=8", "model.channels=[8,8]", "training.budget=none"]
    options = [word for change in small for word in ("--set", change)]
    command = ["compare", "resnet", "bam", "--train", str(data), "--out", str(tmp_path / "runs"), "--seeds", "2"]
    assert main([*command, *options, "--threads", "1"]) == 0
    told = capsys.readouterr().out
    runs = json.loads((tmp_path / "runs" / "results.json").read_text())["runs"]
    assert list(runs) == ["resnet#1", "bam#1", "resnet#2", "bam#2"]
    assert f"({runs['bam#1']['parameters'] / runs['resnet#1']['parameters'] - 1:+.2%})" in told
    assert "accuracy, %" in told
    assert not list((tmp_path / "runs").glob("*/training"))
    assert "<svg" in (tmp_path / "runs" / "comparison.html").read_text("utf-8")


def test_a_wrong_call_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "x")]
    assert main(["compare", "luong", *out]) == 2
    assert "recipes need training data" in capsys.readouterr().err
    assert main(["compare", "luong", "--train", "a.de", "a.en", *out]) == 2
    assert "there is no test set" in capsys.readouterr().err
    assert main(["compare", "luong", "--train", TOY, "--budget", "1m", "--epochs", "1", *out]) == 2
    assert "give one" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()

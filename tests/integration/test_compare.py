"""`regard compare`: entrants, the resumable queue, significance, the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_train_classifier import folder_of_classes
from training_help import pairs, recipe

from regard.cli import main
from regard.comparison import Comparison, compare, measure, queue
from regard.comparison.entrants import SkippedVariant, parse_entrants, slug, with_one_precision
from regard.comparison.grid import grid_tables, labels, variants
from regard.comparison.results import Entry, precisions
from regard.errors import ConfigError, ModelFolderError
from regard.evaluation import test_set
from regard.evaluation.significance import paired_bootstrap, welch_p
from regard.inference.translator import Translator
from regard.training import Interrupted, train
from regard.training import loop as loop_module

SMALL = ["model.embedding_size=8", "model.hidden_size=8", "training.batch_tokens=200", "training.warmup=2"]
TOY = "toy:phrases:en-fr:60"


def test_entrants_are_recipes_variants_and_models(tmp_path: Path) -> None:
    plain, variant = parse_entrants(["luong", "luong:model.score=dot,training.betas=[0.9,0.999]"], [])
    assert (plain.name, plain.task, variant.name[:6]) == ("luong", "translation", "luong:")
    assert variant.recipe is not None
    assert variant.recipe.model_dump()["model"]["score"] == "dot"
    assert variant.recipe.model_dump()["training"]["betas"] == (0.9, 0.999)
    assert labels(["luong:model.score=dot,model.layers=1", "luong:model.score=general,model.layers=1", "bahdanau"]) == [
        "luong score=dot",
        "luong score=general",
        "bahdanau",
    ]
    assert labels(["luong:model.score=dot"]) == ["luong score=dot"]


def test_different_names_have_different_files() -> None:
    assert slug("luong") == "luong"
    assert slug("luong:model.score=dot").startswith("luong-model.score=dot-")
    names = ["de-en/luong", "de-en-luong", "runs/a", "../runs/a", "runs/a-", "a.toml", "../a.toml", "a.toml:x=[1,2]"]
    assert len({slug(name) for name in names}) == len(names)
    assert not any("/" in slug(name) for name in names)
    searched = parse_entrants(["luong:search.beam={1,3}", "luong:model.score=dot,search.beam=1"], [])
    assert [entrant.training for entrant in searched] == ["luong", "luong", slug("luong:model.score=dot")]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "nothing to compare"),
        (["luong", "luong"], "luong: is named twice"),
        (["luong", "bam"], "different tasks"),
        (["luogn"], "did you mean 'luong'?"),
        (["luong:score"], "'score' is no setting"),
        (["luong:search.beam=0"], "search.beam=0"),
        (["bam:search.beam=2"], "only translation models"),
    ],
)
def test_wrong_entrants_are_refused(words: list[str], line: str) -> None:
    with pytest.raises(ConfigError, match=line.replace("?", r"\?")):
        parse_entrants(words, [])


def test_braces_make_a_grid() -> None:
    assert variants("a:x={1,2},y={[3,4],5}") == ["a:x=1,y=[3,4]", "a:x=1,y=5", "a:x=2,y=[3,4]", "a:x=2,y=5"]
    names = [each.name for each in parse_entrants(["{luong,attention}:model.reverse_source={true,false}"], [])]
    assert names == [
        f"{name}:model.reverse_source={way}" for name in ("luong", "attention") for way in ("true", "false")
    ]
    with pytest.raises(ConfigError, match="a brace has no partner"):
        variants("luong:model.score={dot,general")


def test_a_combination_that_contradicts_itself_is_skipped_and_a_wrong_value_refused() -> None:
    word = "luong:model.query={current,previous},model.context_to={step,output}"
    with pytest.warns(SkippedVariant, match='query=current,model.context_to=output is skipped: .*needs query = "prev'):
        assert len(parse_entrants([word], [])) == 3
    with pytest.raises(ConfigError, match="genral"):
        parse_entrants(["luong:model.score={dot,genral}"], [])
    with pytest.raises(ConfigError, match="context_to"):
        parse_entrants(["luong:model.context_to=output"], [])


def test_sizes_that_do_not_fit_are_told_before_anything_is_trained(tmp_path: Path) -> None:
    word = "bahdanau:model.score={dot,general},model.encoder_size={160,192}"  # dot needs 2 x 160, the decoder's 320
    with pytest.warns(SkippedVariant, match="dot,model.encoder_size=192 is skipped: bahdanau: the Dot score needs"):
        assert len(parse_entrants([word], [])) == 3
    with pytest.raises(ConfigError, match=r"^fast: model\.tie_embeddings = 'target' needs an output layer"):
        compare(["luong", "fast"], train=TOY, overrides=["model.embedding_size=48"], out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_grid_is_a_table_of_its_factors() -> None:
    names = variants("luong:model.cell=gru,model.score={dot,general},model.window={global,local-p},model.layers={0,1}")
    (table,) = grid_tables({name: str(place) for place, name in enumerate(names)})
    assert table == [
        ["score \\ window, layers", "global, 0", "global, 1", "local-p, 0", "local-p, 1"],
        ["dot", "0", "1", "2", "3"],
        ["general", "4", "5", "6", "7"],
    ]
    (mixed,) = grid_tables(dict.fromkeys(variants("a:model.{layer_norm,batch_norm}=true,training.epochs={1,2}"), "x"))
    assert mixed[0] == ["setting \\ epochs", "1", "2"]
    assert [row[0] for row in mixed[1:]] == ["layer_norm=true", "batch_norm=true"]
    assert not grid_tables({"luong:model.score=dot": "1", "bahdanau:model.dropout=0": "2", "luong": "3"})


def test_welchs_test_over_seeds() -> None:
    # the values are those of scipy.stats.ttest_ind(equal_var=False)
    assert welch_p([30.1, 30.5, 29.8], [31.0, 31.9, 31.2]) == pytest.approx(0.0254438, abs=1e-6)
    assert welch_p([1.0, 2.0], [1.0, 2.0, 3.0]) == pytest.approx(0.5611509, abs=1e-6)
    assert welch_p([1.0, 1.0], [1.0, 1.0]) == 1
    assert welch_p([1.0], [2.0, 3.0]) is None


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


def test_equal_translations_have_p_1_and_only_the_first_has_none(tmp_path: Path) -> None:
    lines = [f"the cat sat on mat {number}" for number in range(5)]
    (tmp_path / "translations").mkdir()
    for name in ("a", "b"):
        (tmp_path / "translations" / f"{name}-1.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    record = {"runs": {name: {"entrant": name} for name in ("a", "b")}, "task": "translation", "asked": {}}
    held_out = measure.Test(text=test_set.TestSet("test", lines, [lines]))
    first, second = Comparison.read(record, tmp_path, held_out).entries
    assert first.intervals["bleu"].p_value is None
    assert second.intervals["bleu"].p_value == 1


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
    for title in (
        "parameters",
        "minutes",
        "tokens/s",
        "BLEU",
        "| p ",
        "chrF",
        "AER",
        "sentences/s",
        "Trained in float32.",
    ):
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


def test_search_settings_are_compared_without_another_training(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    word = "luong:search.length_penalty={0,5},search.beam={1,3}"
    found = compare(
        [word],
        train=TOY,
        test="toy:phrases:en-fr:40",
        out=out,
        epochs=1,
        vocabulary=400,
        overrides=[*SMALL, "training.log_every=4", "training.validate_every=4", "training.validation_sentences=5"],
        sentences=["The cat sleeps."],
        threads=1,
        progress=False,
    )
    assert sorted(path.name for path in out.glob("luong*")) == ["luong-1"]
    assert [entry.label for entry in found.entries][:2] == [
        "luong length_penalty=0, beam=1",
        "luong length_penalty=0, beam=3",
    ]
    texts = [(out / "translations" / f"{slug(entry.name)}-1.txt").read_text() for entry in found.entries]
    assert texts[0] == texts[2]  # greedy search does not depend on the penalty
    assert texts[1] != texts[3]
    told = found.text()
    for part in ("BLEU by setting:", "| length_penalty \\ beam", "Validation BLEU after minutes"):
        assert part in told
    page = (out / "comparison.html").read_text("utf-8")
    for title in ("Validation loss", "Validation BLEU", "Training loss"):
        assert f"<!-- {title} -->" in page

    ready = compare(
        [f"{out}/luong-1:search.beam={{1,3}}"], test="toy:phrases:en-fr", out=tmp_path / "b", progress=False
    )
    assert len(ready.entries) == 2
    with pytest.raises(ConfigError, match=r"is trained, model\.score=dot cannot change it"):
        parse_entrants([f"{out}/luong-1:model.score=dot"], [])


def test_one_precision_for_all_trainings_of_a_comparison() -> None:
    words = ["luong", "seq2seq:training.precision=auto", "luong:training.precision=bfloat16"]
    chosen = with_one_precision(parse_entrants(words, []))
    settled = [entrant.recipe.training.precision for entrant in chosen if entrant.recipe is not None]
    assert settled == ["float32", "float32", "bfloat16"]


def test_the_report_names_the_precision_of_each_model() -> None:
    def told(*found: str | None) -> list[str]:
        runs = [{} if each is None else {"precision": each} for each in found]
        return precisions([Entry(name, name, (run,), {}) for name, run in zip("abc", runs, strict=False)])

    assert told("float32", "float32") == ["Trained in float32."]
    assert told("float32", "bfloat16", "float32") == ["Trained in float32: a, c; in bfloat16: b."]
    assert told("float32", None) == ["Trained in float32: a."]
    assert told("auto", None) == []


def test_trained_models_are_measured_with_the_threads_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "ready"
    train(recipe(updates=2), train=pairs(20), valid=pairs(4), out=ready, progress=False)
    before, seen = torch.get_num_threads(), []

    def measured(*given: Any) -> dict[str, Any]:
        seen.append(torch.get_num_threads())
        return {}

    monkeypatch.setattr(queue, "measure", measured)
    torch.set_num_threads(2)
    try:
        compare([str(ready)], test=TOY, out=tmp_path / "runs", threads=1, progress=False)
    finally:
        torch.set_num_threads(before)
    assert seen == [1]


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
    assert {run["precision"] for run in runs.values()} == {"float32"}
    for part in ("accuracy, %", "p (seeds)", "Welch", "receptive field", "Trained in float32."):
        assert part in told
    assert not list((tmp_path / "runs").glob("*/training"))
    assert "<svg" in (tmp_path / "runs" / "comparison.html").read_text("utf-8")


def test_a_report_of_others_is_kept(tmp_path: Path) -> None:
    (tmp_path / "comparison.md").write_text("mine")
    with pytest.raises(ModelFolderError, match=r"comparison\.md: was not written by `regard compare`"):
        compare(["seq2seq"], out=tmp_path, train="toy:copy:50", epochs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["comparison.md"]


def test_a_wrong_call_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "x")]
    assert main(["compare", "luong", *out]) == 2
    assert "recipes need training data" in capsys.readouterr().err
    assert main(["compare", "luong", "--train", "a.de", "a.en", *out]) == 2
    assert "there is no test set" in capsys.readouterr().err
    assert main(["compare", "luong", "--train", TOY, "--budget", "1m", "--epochs", "1", *out]) == 2
    assert "give one" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()

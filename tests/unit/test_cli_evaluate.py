"""`regard evaluate`: its figures on stdout, its remarks on stderr, and a line for each mistake."""

import gzip
import json

import pytest
import torch

from regard.cli import main
from regard.config.recipes import check_recipe
from regard.data.text.hashes import fingerprint
from regard.data.text.tokenizer import Tokenizer
from regard.inference.folder import write_folder
from regard.models import build_model
from regard.storage.weights import model_tensors

SOURCES = ["the cat sees a dog", "a dog", "", "the dog sees the cat"]
TARGETS = ["le chat voit un chien", "un chien", "", "le chien voit le chat"]
LINKS = ["1-1 2-2 3-3 4p4 5-5", "1-1 2-2", "", "1-1 2-2 3-3 4-4 5-5"]


@pytest.fixture(autouse=True)
def _untuned(monkeypatch):
    """Leave memory and arithmetic of the test process alone."""
    monkeypatch.setattr("regard.process.tune_process", lambda threads=None: None)


def write_model(path, kind):
    """A folder with a tiny untrained model that knows the words above."""
    small = {"kind": kind, "hidden_size": 8, "embedding_size": 8}
    text = {"tokenizer": "word", "min_frequency": 1}
    search = {"beam": 2, "max_length_extra": 1, "max_length_ratio": 1.0}
    recipe = check_recipe({"model": small, "text": text, "training": {"updates": 1}, "search": search}, "test")
    source, target = (Tokenizer.train(lines, recipe.text) for lines in (SOURCES, TARGETS))
    torch.manual_seed(0)
    model = build_model(recipe.model, source.size, target.size)
    write_folder(
        path,
        recipe=recipe,
        source_tokenizer=source,
        target_tokenizer=target,
        weights=model_tensors(model),
        metrics={},
        card="",
        fingerprint=fingerprint(["a dog", "something else"]),
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """One model with attention and one without."""
    folder = tmp_path_factory.mktemp("models")
    for kind in ("bahdanau", "seq2seq"):
        write_model(folder / kind, kind)
    return folder


@pytest.fixture
def files(tmp_path):
    """A test set with gold links that count from 1."""
    for name, lines in (("en", SOURCES), ("fr", TARGETS), ("talp", LINKS), ("short", TARGETS[:3])):
        (tmp_path / f"test.{name}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def words(models, files, *more, kind="bahdanau", reference="fr"):
    """A command line with the test set."""
    named = ["--source", str(files / "test.en"), "--reference", str(files / f"test.{reference}")]
    return ["evaluate", str(models / kind), *named, *map(str, more)]


def one_line(capsys):
    """The error, which must be all that was printed."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("regard: error: ")
    assert err.count("\n") == 1
    return err


def figures(capsys, arguments):
    """The report as JSON."""
    assert main([*arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_text_has_every_part(capsys, models, files):
    gold = ["--gold-alignments", files / "test.talp", "--one-based"]
    assert main(words(models, files, *gold)) == 0
    out, err = capsys.readouterr()
    for part in ("BLEU", "chrF2", "TER", "perplexity", "nrefs:1|case:mixed", "source words", "sentences/s"):
        assert part in out
    rows = {line.split("  ")[0]: line.split() for line in out.splitlines()}
    assert rows["reading"][1:] == ["AER", "precision", "recall", "links"]
    assert float(rows["this step"][2]) <= 1
    assert float(rows["shifted"][1]) <= 1
    assert err == (
        "regard: warning: 1 of 4 test sentences occur in the training text, "
        "so the scores are optimistic for new text.\n"
    )


def test_a_model_without_attention_is_scored_and_says_why_it_has_no_links(capsys, models, files):
    gold = ["--gold-alignments", files / "test.talp", "--one-based"]
    assert main(words(models, files, *gold, kind="seq2seq")) == 0
    out = capsys.readouterr().out
    assert "BLEU" in out
    assert "AER" not in out
    assert [line for line in out.splitlines() if line.startswith("no word alignment: Seq2Seq has no attention")]
    report = figures(capsys, words(models, files, *gold, kind="seq2seq"))
    assert report["alignment"] is None
    assert "no attention" in report["no_alignment"]


def test_output_plot_and_scoring_the_output_again(capsys, models, files):
    output, plot = files / "out.txt", files / "by-length.png"
    first = figures(capsys, words(models, files, "--output", output, "--plot", plot))
    assert plot.read_bytes()[:4] == b"\x89PNG"
    assert len(output.read_text("utf-8").splitlines()) == len(SOURCES)
    again = figures(capsys, words(models, files, "--hypotheses", output))
    assert again["bleu"] == first["bleu"]
    assert again["likelihood"] == first["likelihood"]
    assert again["speed"] is None
    alone = figures(capsys, [*words(models, files, "--hypotheses", output)[:1], *words(models, files)[2:],
                             "--hypotheses", str(output)])  # fmt: skip
    assert alone["ter"] == first["ter"]
    assert alone["likelihood"] is None


def test_perfect_translations_with_several_references_and_other_case(capsys, models, files):
    shouted = files / "shouted"
    shouted.write_text("".join(f"{line.upper()}\n" for line in TARGETS), encoding="utf-8")
    more = ["--reference", files / "test.en", "--hypotheses", shouted]
    report = figures(capsys, words(models, files, *more, "--lowercase", "--tokenize", "none", "--no-perplexity"))
    assert report["bleu"]["value"] == pytest.approx(100)
    assert report["bleu"]["signature"].startswith("nrefs:2|case:lc|eff:no|tok:none")
    assert report["likelihood"] is None
    assert figures(capsys, words(models, files, *more))["bleu"]["value"] < 10


def test_search_settings_change(capsys, models, files):
    report = figures(capsys, words(models, files, "--beam", 3, "--set", "search.length_penalty=0.5"))
    assert report["search"]["beam"] == 3
    assert report["search"]["length_penalty"] == 0.5
    assert report["search"]["max_length_extra"] == 1  # the recipe's


def test_a_tsv_and_gzip(capsys, models, files):
    table = files / "test.tsv.gz"
    lines = "".join(f"{source}\t{target}\n" for source, target in zip(SOURCES, TARGETS, strict=True))
    table.write_bytes(gzip.compress(lines.encode()))
    report = figures(capsys, ["evaluate", str(models / "bahdanau"), "--source", str(table)])
    assert report["bleu"] == figures(capsys, words(models, files))["bleu"]


def test_an_embedded_corpus_brings_its_gold_links(capsys, models):
    model = str(models / "bahdanau")
    report = figures(capsys, ["evaluate", model, "--toy", "phrases:en-fr", "--split", "valid", "--count", "3"])
    assert report["sentences"] == 3
    assert set(report["alignment"]) == {"method", "this_step", "shifted", "both_directions"}
    assert report["test"] == "embedded corpus phrases en-fr, valid"


def test_chinese_is_told_how_to_count_words(capsys, models, files):
    (files / "test.fr").write_text("猫看见狗\n狗\n\n狗看见猫\n", encoding="utf-8")
    assert main(words(models, files)) == 0
    assert "--tokenize zh fits better" in capsys.readouterr().err
    assert main(words(models, files, "--tokenize", "zh")) == 0
    assert "fits better" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--gold-alignments", "test.fr"], "'le' is not a link"),
        (["--gold-alignments", "test.talp"], "whether the file counts from 1"),
        (["--gold-alignments", "nowhere"], "no such file"),
        (["--reference", "test.short"], "3 lines"),
        (["--hypotheses", "test.short"], "has 3 lines but the test set has 4"),
        (["--hypotheses", "test.fr", "--beam", "3"], "nothing is translated"),
        (["--one-based"], "goes with --gold-alignments"),
        (["--split", "long"], "goes with --toy"),
        (["--toy", "phrases"], "--source: --toy has it"),
        (["--tokenize", "13b"], "did you mean '13a'"),
        (["--links", "argmin"], "did you mean 'argmax'"),
        (["--plot", "x.bmp"], ".png"),
        (["--plot", "nowhere/x.png"], "no folder"),
        (["--output", "."], "is a folder"),
        (["--set", "training.seed=1"], "only search settings can change"),
        (["--set", "search.baem=1"], "did you mean search.beam?"),
        (["--beam", "0"], "search.beam = 0"),
        (["--device", "abacus"], "abacus"),
    ],
)
def test_a_mistake_is_one_line(capsys, monkeypatch, models, files, more, message):
    monkeypatch.chdir(files)
    before = sorted(files.iterdir())
    assert main(words(models, files, *more)) == 2
    assert message in one_line(capsys)
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "test.en", "--reference", "test.short"], "test.en has 4 lines but test.short has 3"),
        (["--source", "test.en", "--reference", "test.fr"], "there is no model to evaluate"),
        (["nowhere", "--source", "test.en", "--reference", "test.fr"], "there is no such model folder"),
        (["--source", "nowhere", "--reference", "test.fr"], "nowhere: no such file"),
        (["--source", ".", "--reference", "test.fr"], "directory"),
        ([], "there is no test set"),
        (["--toy", "phrase"], "did you mean 'phrases'"),
        (["--toy", "phrases:en-xx"], "en-xx"),
        (["--toy", "phrases", "--split", "tset"], "did you mean 'test'"),
        (
            ["--source", "test.en", "--reference", "test.fr", "--hypotheses", "test.fr",
             "--gold-alignments", "test.talp", "--one-based"],
            "--gold-alignments needs a model",
        ),
    ],
)  # fmt: skip
def test_a_missing_piece_is_one_line(capsys, monkeypatch, files, arguments, message):
    monkeypatch.chdir(files)
    assert main(["evaluate", *arguments]) == 2
    assert message in one_line(capsys)


def test_text_that_is_not_utf8_names_file_and_line(capsys, models, files):
    (files / "test.fr").write_bytes(b"le chat\nun \xff chien\n\n\n")
    assert main(words(models, files)) == 2
    err = one_line(capsys)
    assert "test.fr" in err
    assert "2" in err


def test_figures_of_image_models_are_shares_with_names_of_their_own() -> None:
    from regard.cli.evaluate import _figures

    scenes = {"captions": 500, "valid": 0.914, "bleu": 40.0, "pointing_accuracy": 0.79, "mass_in_box": 0.742}
    lines = _figures(scenes | {"by_chance": 0.0863})
    assert [" ".join(line.split()) for line in lines] == [
        "captions 500",
        "valid captions 91.4 %",
        "BLEU 40.0",
        "pointing accuracy 79.0 %",
        "mass in box 74.2 %",
        "by chance 8.6 %",
    ]
    lines = _figures({"loss": 0.25, "accuracy": 0.5, "by_class": {"a_b": 1.0}, "confusions": [[1]]})
    assert [" ".join(line.split()) for line in lines] == ["loss 0.2500", "accuracy 50.0 %", "by class", "a_b 100.0 %"]

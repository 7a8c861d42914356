"""What a Python user sees and calls: reprs, plots and files, scores of pairs, evaluation, types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from look_help import translator_of
from matplotlib.figure import Figure
from PIL import Image

from regard.cli import main
from regard.data.text.parallel import Pair
from regard.data.toy import toy_corpus
from regard.errors import ConfigError, DataError
from regard.evaluation.alignment import GoldLinks
from regard.inference.representation import short_number
from regard.inference.translation import Translation
from regard.inference.translator import Translator

SENTENCE = "the black cat"


@pytest.fixture(scope="module")
def translator() -> Translator:
    return translator_of({"kind": "bahdanau", "hidden_size": 16, "embedding_size": 12, "attention_size": 8})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("text")
    source, reference = folder / "test.en", folder / "test.fr"
    source.write_text("the black cat\na black dog\n")
    reference.write_text("le chat noir\nun chien noir\n")
    return source, reference


# --- repr ---------------------------------------------------------------------------------------------------------


def test_a_translator_is_one_line_that_says_what_it_is(translator: Translator) -> None:
    parameters = sum(each.numel() for each in translator.model.parameters())
    vocabularies = f"{translator.source_tokenizer.size:,} → {translator.target_tokenizer.size:,}"
    assert repr(translator) == (
        f"<Translator tiny: bahdanau, {short_number(parameters)} parameters, vocabularies {vocabularies}, "
        "cpu, engine torch>"
    )
    both = Translator.ensemble([translator, translator])
    assert "ensemble of 2" in repr(both)
    search = translator.recipe.search.model_copy(update={"int8": True})
    quick = Translator(
        translator.model,
        translator.recipe.model_copy(update={"search": search}),
        translator.source_tokenizer,
        translator.target_tokenizer,
    )
    assert "engine torch int8" in repr(quick)


@pytest.mark.parametrize(
    ("number", "shown"), [(12, "12"), (1_000, "1K"), (65_200, "65.2K"), (74_123_456, "74.1M"), (999_900, "1M")]
)
def test_numbers_have_three_digits(number: int, shown: str) -> None:
    assert short_number(number) == shown


def test_a_translation_is_one_short_line(translator: Translator) -> None:
    translation = Translation("word " * 200, "le chat", score=-0.126)
    assert repr(translation) == f"<Translation '{'word ' * 11}word…' → 'le chat', score -0.13>"
    assert repr(Translation("a\nb", "c", finished=False)) == r"<Translation 'a\nb' → 'c', score 0.00, unfinished>"
    assert "n_best 3" in repr(translator.translate(SENTENCE, n_best=3))


# --- pictures -----------------------------------------------------------------------------------------------------


def test_plot_is_a_figure_that_a_notebook_shows(translator: Translator) -> None:
    figure = translator.translate(SENTENCE).plot(entropy=True, title="a title")
    assert isinstance(figure, Figure)
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == SENTENCE.split()
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]  # for notebooks without pyplot


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf", "a.gif", "a.html"])
def test_save_writes_the_format_of_the_name(translator: Translator, tmp_path: Path, name: str) -> None:
    path = translator.translate(SENTENCE).save(tmp_path / name)
    assert path == tmp_path / name
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "gif": b"GIF8", "html": b"<!doctype html>"}
    assert path.read_bytes().startswith(start[path.suffix[1:]])


def test_plot_and_save_draw_the_same_choice(translator: Translator, tmp_path: Path) -> None:
    translation = translator.translate(SENTENCE)
    words, pieces = translation.save(tmp_path / "words.png"), translation.save(tmp_path / "pieces.png", pieces=True)
    with Image.open(words) as smaller, Image.open(pieces) as larger:
        assert smaller.size < larger.size
    with pytest.raises(ConfigError, match="layer"):
        translation.plot(layer=7)
    with pytest.raises(ConfigError, match=r"\.html"):
        translation.save(tmp_path / "a.bmp")


def test_a_model_without_attention_plots_its_vector() -> None:
    plain = translator_of({"kind": "seq2seq", "hidden_size": 16, "embedding_size": 12})
    assert isinstance(plain.translate(SENTENCE).plot(), Figure)


# --- scores -------------------------------------------------------------------------------------------------------


def test_two_sentences_have_one_score_and_two_lists_a_list(translator: Translator) -> None:
    alone = translator.score("the black cat", "le chat noir")
    both = translator.score(["the black cat", "a dog"], ("le chat noir", "un chien"))
    assert alone.tokens == both[0].tokens
    assert alone.log_probability == pytest.approx(both[0].log_probability, abs=1e-4)
    pairs = [Pair("the black cat", "le chat noir"), Pair("a dog", "un chien")]
    assert both == list(translator.score_pairs(pairs))
    assert translator.score([], []) == []


def test_sides_that_do_not_match_are_refused(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="two lists"):
        translator.score("a", ["b"])  # type: ignore[call-overload]
    with pytest.raises(DataError, match="2 sources but 1 targets"):
        translator.score(["a", "b"], ["c"])


# --- evaluation ---------------------------------------------------------------------------------------------------


def comparable(report: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in report.items() if name not in ("speed", "model", "test")}


def files_and_lists_give_one_report(translator: Translator, files: tuple[Path, Path]) -> None:
    from_files = translator.evaluate(*files)
    lists = [path.read_text().splitlines() for path in files]
    report = translator.evaluate(*lists)
    assert comparable(report.to_dict()) == comparable(from_files.to_dict())
    assert translator.evaluate(lists[0], [lists[1], lists[1]]).scores.sentences == 2
    assert repr(report).startswith("<Report 2 sentences: BLEU 0.0, chrF2 ")
    assert "perplexity" in str(report)
    assert report.alignment is None


def test_an_embedded_corpus_brings_references_and_links(translator: Translator) -> None:
    report = translator.evaluate("toy:phrases:en-fr:3", split="long", beam=1, perplexity=False)
    pairs = list(toy_corpus("phrases", "en-fr").generate("long", 3))
    gold = [GoldLinks(frozenset(pair.sure), frozenset(pair.possible) | frozenset(pair.sure)) for pair in pairs]
    sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
    own = translator.evaluate(*sides, gold_alignments=gold, beam=1, perplexity=False)
    assert report.alignment is not None
    assert comparable(report.to_dict()) == comparable(own.to_dict())
    assert report.search is not None
    assert report.search.beam == 1
    assert report.likelihood is None


def test_the_report_is_that_of_the_command(
    tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    from test_look_cli import write_model

    folder = write_model(tmp_path / "model", "bahdanau")
    source, reference = map(str, files)
    assert main(["evaluate", str(folder), "--source", source, "--reference", reference, "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    report = Translator.load(folder).evaluate(source, reference)
    assert comparable(json.loads(json.dumps(report.to_dict()))) == comparable(said)


def test_what_cannot_be_a_test_set_is_refused(translator: Translator, files: tuple[Path, Path]) -> None:
    with pytest.raises(ConfigError, match="two lists"):
        translator.evaluate(files[0], ["le chat"])
    with pytest.raises(ConfigError, match="as a list too"):
        translator.evaluate(["the cat"])
    with pytest.raises(ConfigError, match="mixes"):
        translator.evaluate(["a", "b"], ["a", ["b"]])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="remove reference and gold"):
        translator.evaluate("toy:phrases:en-fr", ["le chat"])
    with pytest.raises(ConfigError, match="split"):
        translator.evaluate(["a"], ["b"], split="long")
    with pytest.raises(DataError, match="no such file"):
        translator.evaluate("missing.en", "missing.fr")

"""A line of more pieces than `search.max_source`: cut with a warning in a stream, refused alone."""

import warnings
from pathlib import Path

import pytest
from test_cli_translate import write_model

from regard.cli import main
from regard.config.vocabulary import EOS
from regard.data.text.parallel import Pair
from regard.errors import LongLine
from regard.inference.long_lines import LongLineWarning
from regard.inference.translator import Translator

LONG = "house " * 20_000
CUT = r"^line 2: 20,00\d subwords, cut to search\.max_source = 1024\.$"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"kind": "transformer", "hidden_size": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    return write_model(tmp_path_factory.mktemp("models") / "long", sizes)


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return Translator.load(folder)


@pytest.mark.parametrize("engine", ["torch", pytest.param("ctranslate2", marks=pytest.mark.processor("ctranslate2"))])
def test_the_long_line_is_cut_and_the_others_are_translated(translator: Translator, engine: str):
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="needs the extra interop")
    lines, search = ["a green tree", LONG, "the cat"], {"engine": engine}
    with pytest.warns(LongLineWarning, match=CUT) as told:
        found = translator.translate(lines, search=search)
    assert len(told) == 1
    assert [each.source for each in found] == lines
    assert len(found[1].source_tokens) == 1024
    assert found[1].source_tokens[-1].id == EOS
    alone = translator.translate([lines[0], lines[2]], search=search)
    assert [found[0].text, found[2].text] == [each.text for each in alone]


def test_the_cut_is_what_the_first_pieces_alone_give(translator: Translator):
    with pytest.warns(LongLineWarning):
        cut = translator.translate("house " * 8 + "house", search={"max_source": 6})
    whole = translator.translate("house " * 4 + "house", search={"max_source": 6})
    assert len(whole.source_tokens) == 6
    assert cut.text == whole.text
    assert cut.word_alignment().shape[1] == 9  # of the words as given
    assert cut.look().target == whole.look().target


def test_a_line_of_just_so_many_pieces_is_whole(translator: Translator):
    length = len(translator.source_tokenizer.encode("the small house"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translator.translate(["the small house"], search={"max_source": length})


def test_scoring_names_the_pair_and_the_side(translator: Translator):
    pairs = [Pair("a", "b"), Pair("a", LONG)]
    with pytest.warns(LongLineWarning, match=r"^pair 2, target: 20,00\d subwords"):
        scores = list(translator.score_pairs(pairs))
    assert [each.tokens for each in scores] == [len(translator.target_tokenizer.encode("b")), 1024]


@pytest.mark.parametrize(
    "ask",
    [
        lambda translator: translator.look(LONG),
        lambda translator: translator.force(LONG, "a"),
        lambda translator: list(translator.translate_unordered(["a", LONG])),
        lambda translator: list(translator.stream(LONG)),
    ],
)
def test_alone_it_is_refused(translator: Translator, ask):
    with pytest.raises(LongLine, match=r": 20,00\d subwords are more than search\.max_source = 1024: shorten it"):
        ask(translator)


@pytest.mark.filterwarnings("always::regard.inference.long_lines.LongLineWarning")
def test_the_command_warns_in_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_text(f"a green tree\n{LONG}\nthe cat\n")
    assert main(["translate", str(folder), "-i", str(source), "-o", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("regard: warning: line 2: 20,00")
    assert line.endswith("subwords, cut to search.max_source = 1024.")

"""A shortlist: the search among its columns, and its file."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from box_help import write_box

import regard
from regard.cli import main
from regard.config.recipes import check_recipe
from regard.data.toy import toy_corpus
from regard.decoding.shortlist import Shortlist, read_shortlist, vocabulary_digest
from regard.errors import ConfigError, ModelFolderError
from regard.inference.shortlist import shortlist_folder
from regard.inference.translator import Translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shortlist") / "model"
    model = {"kind": "bahdanau", "embedding_size": 16, "hidden_size": 24, "attention_size": 16, "maxout_size": 16}
    recipe = check_recipe(
        {
            "model": model,
            "text": {"vocabulary_size": 400, "max_length": 1000},
            "training": {"updates": 8, "batch_tokens": 400, "learning_rate": 1e-2, "warmup": 2},
        },
        "test",
    )
    regard.train(
        recipe, train="toy:phrases:en-fr:400", valid="toy:phrases:en-fr:20", out=out, progress=False, threads=1
    )
    return out


def sentences(count: int = 6) -> list[str]:
    return [pair.source for pair in toy_corpus("phrases", "en-fr").generate("test", count, max_words=9)]


@pytest.mark.parametrize("search", [{"beam": 1}, {"beam": 4, "no_repeat_ngram": 2}, {"sample": True, "seed": 3}])
def test_a_list_of_all_pieces_changes_nothing(folder: Path, search: dict[str, object]) -> None:
    translator = Translator.load(folder)
    size = translator.target_tokenizer.size
    everything = np.zeros((translator.source_tokenizer.size, 1), np.int32)
    translator.shortlist = Shortlist(np.arange(size), everything, "")
    prefix = ["le", "", "une", "", "", ""]
    plain = translator.translate(sentences(), search=search, prefix=prefix, candidates=3)
    listed = translator.translate(sentences(), search={**search, "shortlist": True}, prefix=prefix, candidates=3)
    for one, other in zip(plain, listed, strict=True):
        assert (one.text, one.tokens, one.candidates) == (other.text, other.tokens, other.candidates)
        assert one.log_probability == pytest.approx(other.log_probability)


def test_only_pieces_of_the_list_are_said(folder: Path) -> None:
    shortlist_folder(folder, likely=3, common=5)
    translator = Translator.load(folder)
    assert translator.shortlist is not None
    for sentence in sentences():
        source = np.array([translator.source_tokenizer.encode(sentence)])
        columns = translator.shortlist.columns(source).tolist()
        assert columns == sorted(set(columns))
        assert columns[:4] == [0, 1, 2, 3]
        assert len(columns) < translator.target_tokenizer.size / 2
        said = translator.translate(sentence, search={"shortlist": True}, beam=3)
        assert {token.id for token in said.tokens} <= set(columns)


def test_a_forced_beginning_joins_the_list(folder: Path) -> None:
    shortlist_folder(folder, likely=1, common=0)
    translator = Translator.load(folder)
    said = translator.translate(sentences(1)[0], search={"shortlist": True}, prefix="vieille maison", beam=2)
    assert said.text.startswith("vieille maison")


def test_the_text_may_be_named(folder: Path) -> None:
    kept = shortlist_folder(folder)
    named = shortlist_folder(folder, "toy:phrases:en-fr:400")
    assert np.array_equal(kept.likely, named.likely)


def test_command_writes_it_and_translate_uses_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("\n".join(sentences()) + "\n\n", "utf-8")
    assert main(["shortlist", str(folder), "--train", "toy:phrases:en-fr:100", "--likely", "7"]) == 0
    assert "up to 8 for each source subword" in capsys.readouterr().out  # and the one spelled alike
    command = ["translate", str(folder), "--shortlist", "-i", str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.txt")]
    assert main(command) == 0
    assert (tmp_path / "out.txt").read_text("utf-8").count("\n") == len(sentences()) + 1


def test_faults_are_one_line(folder: Path, tmp_path: Path) -> None:
    translator = Translator.load(folder)
    translator.shortlist = None
    with pytest.raises(ConfigError, match="has no shortlist: `regard shortlist` makes one"):
        translator.translate("a cat", search={"shortlist": True})
    source, target = translator.source_tokenizer, translator.target_tokenizer
    assert read_shortlist(tmp_path, source, target) is None
    (tmp_path / "shortlist.safetensors").write_bytes(b"not a list")
    with pytest.raises(ModelFolderError, match="is damaged"):
        read_shortlist(tmp_path, source, target)
    wrong = Shortlist(np.arange(4), np.zeros((source.size, 1), np.int32), vocabulary_digest(target, source))
    wrong.save(tmp_path)
    with pytest.raises(ModelFolderError, match="was made for another vocabulary"):
        read_shortlist(tmp_path, source, target)


def test_an_installed_model_is_named_as_typed_and_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = write_box(tmp_path / "site", {"de-en/bahdanau": 45.0})
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.chdir(tmp_path)
    for words in (["shortlist", "de-en"], ["shortlist", "de-en/bahdanau", "--train", "toy:phrases:en-fr:100"]):
        assert main(words) == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert f"{words[1]}: installed models are read-only and keep no training text: copy {package}" in said
        assert "--train SOURCE TARGET" in said
    assert main(["translate", "de-en", "--shortlist"]) == 2
    said = capsys.readouterr().err
    assert "de-en: this model has no shortlist: copy" in said
    assert "regard shortlist COPY --train SOURCE TARGET" in said
    assert not (package / "de-en/bahdanau/shortlist.safetensors").exists()


def test_a_model_without_a_shortlist_is_told_how_to_get_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy/shortlist.safetensors").unlink(missing_ok=True)
    assert main(["translate", str(tmp_path / "copy"), "--shortlist"]) == 2
    assert f"make one with `regard shortlist {tmp_path / 'copy'}`" in capsys.readouterr().err

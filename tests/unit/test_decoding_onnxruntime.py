"""ONNX Runtime: the hypotheses of Regard's own search, for every architecture; compiled copies; no torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from safetensors.torch import load_file, save_file
from test_decoding_graphs import CASES, WORDS, make, write

from regard.config.recipes import check_recipe
from regard.config.settings import SearchSettings
from regard.config.vocabulary import UNK
from regard.data.text.batches import source_batch
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.constraints import limits_of
from regard.decoding.engines.engine import maximum_length
from regard.decoding.engines.torch import TorchEngine
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import search
from regard.decoding.shortlist import Shortlist
from regard.errors import ConfigError, ContractError
from regard.inference.translator import Translator
from regard.machine import processor
from regard.models import build_model
from regard.serve.app import build_app
from regard.serve.languages import Languages
from regard.serve.models import ServedModel, ServedModels

pytest.importorskip("onnxruntime")
from regard.decoding.engines.batches import even_batches
from regard.decoding.engines.onnxruntime.model import ROWS, OnnxRuntimeModel
from regard.decoding.engines.onnxruntime.search import Limits

RANDOM = np.random.default_rng(1)
SENTENCES = [[*RANDOM.integers(4, WORDS, size=size).tolist(), 3] for size in (8, 1, 4, 6, 3, 7, 2)]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "beam": {"beam": 5},
    "n-best, minimum length": {"beam": 5, "n_best": 4, "min_length_ratio": 0.8},
    "no length penalty": {"beam": 3, "n_best": 3, "length_penalty": 0.0},
    "coverage": {"beam": 4, "n_best": 2, "coverage_penalty": 0.2},
    "greedy coverage, minimum length": {"beam": 1, "coverage_penalty": 0.2, "min_length_ratio": 1.3},
    "wider than the vocabulary": {"beam": 40, "n_best": 7},
    "small batches": {"beam": 2, "batch_tokens": 9},
}
COLUMNS = np.array([0, 1, 2, 3, 5, 8, 9, 11, 20, 21])
PICKED = Shortlist(COLUMNS, np.full((WORDS, 1), 3, dtype=np.int32), "")


def assert_same(found: list[list[Hypothesis]], ours: list[list[Hypothesis]]) -> None:
    for theirs, own in zip(found, ours, strict=True):
        assert [each.ids for each in theirs] == [each.ids for each in own]
        for each, other in zip(theirs, own, strict=True):
            assert each.finished == other.finished
            assert each.attended == other.attended
            assert each.score == pytest.approx(other.score, abs=2e-4)
            assert each.log_probability == pytest.approx(other.log_probability, abs=1e-4)
            assert each.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_every_architecture_finds_what_our_search_finds(name: str, tmp_path: Path) -> None:
    model = make(CASES[name])
    compiled = OnnxRuntimeModel(write(model, tmp_path), shortlist=True)
    source, mask = source_batch(SENTENCES)
    for options in SEARCHES.values():
        if options.get("coverage_penalty") and CASES[name]["kind"] == "seq2seq":
            continue
        settings = SearchSettings(max_length_extra=3, **options)
        for shortlist, columns in ((None, None), (PICKED, lambda _: COLUMNS)):
            ours = search(model, source, mask, settings, shortlist=shortlist, unk=1)
            found = dict(compiled.search(SENTENCES, settings, columns, unk=1))
            assert_same([found[place] for place in range(len(SENTENCES))], ours)


def test_threads_and_batches_change_nothing(tmp_path: Path) -> None:
    folder = write(make(CASES["bahdanau"]), tmp_path)
    settings = SearchSettings(batch_tokens=9)
    found = [dict(OnnxRuntimeModel(folder, threads=count).search(SENTENCES, settings)) for count in (1, 3)]
    assert_same(*[[each[place] for place in range(len(SENTENCES))] for each in found])


@pytest.mark.parametrize("name", ["luong general global", "transformer"])
def test_streams_are_greedy_translations(name: str, tmp_path: Path) -> None:
    compiled = OnnxRuntimeModel(write(make(CASES[name]), tmp_path), shortlist=True)
    for columns in (None, COLUMNS):
        settings = SearchSettings(beam=1)
        own = None if columns is None else lambda _: COLUMNS
        ((_, (whole,)),) = compiled.search([SENTENCES[0]], settings, own)
        parts = list(compiled.stream(SENTENCES[0], SearchSettings(beam=5), columns))
        assert tuple(part.id for part in parts) == whole.ids
        assert [part.ended for part in parts] == [False] * (len(parts) - 1) + [True]
        assert parts[-1].score == pytest.approx(whole.score, abs=1e-5)


@pytest.mark.parametrize("name", ["seq2seq", "bahdanau", "gnmt", "transformer"])
def test_int8_is_close(name: str, tmp_path: Path) -> None:
    case = {**CASES[name], "hidden_size": 256}
    recipe = check_recipe({"model": case, "training": {"updates": 1}}, "test")
    torch.manual_seed(1)
    model = build_model(recipe.model, WORDS, WORDS).eval()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    exact, rounded = (
        OnnxRuntimeModel(write(model, tmp_path / part, int8=int8)) for part, int8 in (("a", False), ("b", True))
    )
    assert rounded.int8
    sizes = [(tmp_path / part / "weights.bin").stat().st_size for part in "ab"]
    assert sizes[1] < 0.6 * sizes[0]
    one = SearchSettings(beam=1, max_length_extra=1, max_length_ratio=0.01)  # one token: paths do not part
    scores = [[each[0].log_probability for _, each in sorted(copy.search(SENTENCES, one))] for copy in (exact, rounded)]
    np.testing.assert_allclose(*scores, atol=0.1)
    assert scores[0] != scores[1]


def test_weights_that_are_not_finite_are_named(tmp_path: Path) -> None:
    model = make(CASES["bahdanau"])
    with torch.no_grad():
        model.get_parameter("embeddings.output_bias")[5] = torch.nan
    compiled = OnnxRuntimeModel(write(model, tmp_path))
    with pytest.raises(ContractError, match="not finite at step 0"):
        list(compiled.search(SENTENCES, SearchSettings()))


# --- as an engine ----------------------------------------------------------------------------------------------------

LINES = ["the small house stands here", "a green tree", "the cat saw a small dog and a tree", "here is the zebra"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("models") / "small", "bahdanau")


def write_small(path: Path, kind: str) -> Path:
    from regard.inference.folder import write_folder

    model = {"kind": kind, "hidden_size": 24, "embedding_size": 16}
    text = {"tokenizer": "word", "vocabulary_size": 300, "min_frequency": 1, "joint": True}
    recipe = check_recipe({"model": model, "text": text, "training": {"updates": 1}}, "test")
    tokenizer = Tokenizer.train(LINES[:3], recipe.text)
    torch.manual_seed(5)
    weights = build_model(recipe.model, tokenizer.size, tokenizer.size).state_dict()
    sides = {"source_tokenizer": tokenizer, "target_tokenizer": tokenizer}
    write_folder(path, recipe=recipe, weights=weights, metrics={}, card="", **sides)
    return path


def texts(translator: Translator, **search: Any) -> list[str]:
    return [each.text for each in translator.translate(LINES, search=search)]


@pytest.mark.parametrize("search", [{}, {"beam": 1}, {"int8": False, "n_best": 3}, {"coverage_penalty": 0.2}])
def test_the_engine_translates_like_torch(folder: Path, search: dict[str, Any]) -> None:
    translator = Translator.load(folder)
    assert texts(translator, engine="onnxruntime", **search) == texts(translator, engine="torch", **search)


def test_without_attention_an_unknown_word_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_small(tmp_path / "model", "seq2seq")
    tensors = load_file(path / "model.safetensors")
    tensors["embeddings.output_bias"][UNK] = 50.0
    save_file(tensors, path / "model.safetensors")
    translator = Translator.load(path)
    monkeypatch.setattr(TorchEngine, "search", lambda *given: pytest.fail("searched again"))
    assert "<unk>" in translator.translate(LINES[0], search={"engine": "onnxruntime"}).text


def test_auto_takes_a_compiled_engine_for_folders_only(folder: Path) -> None:
    translator = Translator.load(folder)
    names = translator._engines.name
    assert names(SearchSettings()) == "onnxruntime"
    assert names(SearchSettings(sample=True)) == "torch"
    assert names(SearchSettings(no_repeat_ngram=2)) == "torch"
    with pytest.raises(ConfigError, match='"onnxruntime": it cannot sample'):
        texts(translator, engine="onnxruntime", sample=True)
    assert translator.translate(LINES[0], attention=True).attention is not None
    assert translator.model is not None  # whoever has it may change it
    assert names(SearchSettings()) == "torch"


def test_who_only_reads_the_model_keeps_the_engine(folder: Path) -> None:
    translator = Translator.load(folder)
    described = repr(translator)
    assert "engine onnxruntime" in described
    models = ServedModels([ServedModel("small", translator, Languages("en", "de"))])
    with TestClient(build_app(models), base_url="http://127.0.0.1") as client:
        (about,) = client.get("/api/models").json()["models"]
        assert about["parameters"] > 0
        asked = {"model": "small", "source": [5, 3], "target": [5, 3], "node": "decoder.1", "place": 1}
        assert client.post("/api/node", json=asked).status_code == 200
    assert repr(translator) == described
    assert translator.evaluate(LINES, LINES).likelihood is not None
    assert repr(translator) == described


def test_a_server_describes_the_model_that_it_opened(tmp_path: Path) -> None:
    path = write_small(tmp_path / "small", "luong")
    Translator.load(path).prepare()
    translator = Translator.load(path)
    translator.prepare()
    write_small(path, "bahdanau")
    models = ServedModels([ServedModel("small", translator, Languages("en", "de"))])
    with TestClient(build_app(models), base_url="http://127.0.0.1") as client:
        asked = {"q": LINES[0], "source": "en", "target": "de"}
        assert client.post("/translate", json=asked).status_code == 200  # with the open engine
        described = client.get("/api/models")
        assert described.status_code == 200
        assert "luong" in described.text  # of the file that was replaced


def test_a_processor_that_fails_the_trial_leaves_the_engine_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = processor.Verdict(False)
    monkeypatch.setattr(processor, "verdict", lambda path: refused)
    monkeypatch.setattr(processor, "_in_use", {})
    translator = Translator.load(folder)
    assert translator._engines.name(SearchSettings()) == "torch"
    assert texts(translator)
    with pytest.raises(ConfigError, match=r'^search\.engine = "onnxruntime": this processor .*: use search\.engine'):
        texts(translator, engine="onnxruntime")


def test_the_trial_runs_in_a_process_of_its_own() -> None:
    assert processor.run_child("onnxruntime", {}) == 0


def test_attention_makes_no_copy(folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(folder, tmp_path / "new", ignore=shutil.ignore_patterns("compiled"))
    translator = Translator.load(tmp_path / "new")
    translator.translate(LINES, attention=True)
    assert not (tmp_path / "new" / "compiled").exists()
    translator.translate(LINES)
    assert [path.name for path in (tmp_path / "new" / "compiled").iterdir()] == ["onnxruntime-float32"]


def edit_graph(copy: Path) -> None:
    content = (copy / "step.onnx").read_bytes()
    (copy / "step.onnx").write_bytes(content.replace(b"Tanh", b"Sinh"))


def edit_manifest(copy: Path) -> None:
    content = (copy / "graphs.json").read_text()
    (copy / "graphs.json").write_text(content.replace('"hidden": 256', '"hidden": 999'))


@pytest.mark.parametrize("damage", [edit_graph, edit_manifest])
def test_a_copy_with_other_graphs_is_made_again(folder: Path, damage: Callable[[Path], None]) -> None:
    wanted = texts(Translator.load(folder), engine="onnxruntime")
    copy = folder / "compiled" / "onnxruntime-float32"
    whole = {path.name: path.read_bytes() for path in copy.glob("*.onnx")} | {
        "graphs.json": (copy / "graphs.json").read_bytes()
    }
    damage(copy)
    assert any((copy / name).read_bytes() != content for name, content in whole.items())
    assert texts(Translator.load(folder), engine="onnxruntime") == wanted


def test_nothing_imports_torch(folder: Path) -> None:
    texts(Translator.load(folder), engine="onnxruntime")
    program = (
        "import sys; from regard.inference.translator import Translator\n"
        "from pathlib import Path\n"
        f"found = Translator.load(Path({str(folder)!r})).translate(['a green tree'])\n"
        "assert 'onnxruntime' in sys.modules, 'another engine'\n"
        "print(found[0].text, 'torch' in sys.modules, 'onnx' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split()[-2:] == ["False", "False"]


# --- int8 by default -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ({"float32_bleu": 30.0, "int8_bleu": 29.95}, True),
        ({"float32_bleu": 30.0, "int8_bleu": 29.85}, False),
        ({"float32_bleu": 30.0, "int8_bleu": 31.0}, True),
        ({"float32_bleu": "30", "int8_bleu": None}, False),
        (None, False),
    ],
)
def test_int8_is_automatic_where_little_is_lost(
    folder: Path, tmp_path: Path, measured: dict[str, Any] | None, expected: bool
) -> None:
    import json
    import shutil

    new = tmp_path / "new"
    shutil.copytree(folder, new, ignore=shutil.ignore_patterns("compiled"))
    (new / "metrics.json").write_text(json.dumps({} if measured is None else {"int8": measured}))
    translator = Translator.load(new)
    assert ("onnxruntime int8" in repr(translator)) == expected
    translator.translate(LINES)
    kind = "int8" if expected else "float32"
    assert [path.name for path in (new / "compiled").iterdir()] == [f"onnxruntime-{kind}"]
    assert translator._engines.resolved(SearchSettings(engine="torch")).int8 is False
    translator.translate(LINES, search={"int8": not expected})
    assert len(list((new / "compiled").iterdir())) == 2


def test_training_measures_the_loss_of_int8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    import regard
    from regard.cli import main

    model = {"kind": "luong", "hidden_size": 16, "embedding_size": 12}
    training = {"updates": 2, "validation_sentences": 3}
    recipe = check_recipe({"model": model, "text": {"vocabulary_size": 300}, "training": training}, "test")
    pairs = [(line, line) for line in LINES]
    regard.train(recipe, train=pairs, valid=pairs, out=tmp_path / "model", progress=False)
    measured = json.loads((tmp_path / "model" / "metrics.json").read_text())["int8"]
    assert (measured["engine"], measured["sentences"]) == ("onnxruntime", 3)
    assert {"float32_bleu", "int8_bleu"} < measured.keys()
    assert "BLEU in int8" in (tmp_path / "model" / "README.md").read_text()
    capsys.readouterr()
    assert main(["info", str(tmp_path / "model")]) == 0
    assert "decoding backend   onnxruntime" in capsys.readouterr().out


def test_engines_agree_on_the_maximum_length() -> None:
    for ratio in (1.15, 0.7, 1.1, 2.3, 1e-9):
        settings, lengths = SearchSettings(max_length_ratio=ratio), range(1, 301)
        ours = limits_of(torch.tensor(lengths), settings, None, pad=0).maximum.tolist()
        assert [maximum_length([5] * length, settings) for length in lengths] == ours
        assert Limits(np.array(lengths), settings).maximum.tolist() == ours


def test_two_threads_share_a_short_request_and_translate_alike(tmp_path: Path) -> None:
    folder = write(make(CASES["bahdanau"]), tmp_path, int8=True)
    sentences = SENTENCES * 5
    for beam, sizes in ((1, [18, 17]), (5, [18, 17]), (40, [3] * 11 + [2]), (60, [2] * 15 + [1] * 5)):
        settings = SearchSettings(beam=beam)
        one, two = (OnnxRuntimeModel(folder, threads=threads) for threads in (1, 2))
        batches = list(even_batches(sentences, settings, ROWS))
        assert [len(batch) for batch in batches] == sizes
        assert dict(one.search(sentences, settings)) == dict(two.search(sentences, settings))
    assert len(list(even_batches(SENTENCES, SearchSettings(beam=1), ROWS))) == 1  # too little to share

"""CTranslate2 as the engine of a search: the translations of our own search, and a clear word where it has none."""

import ctypes
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from interop_help import LINES, PAIRS, transformer_folder

import regard
from regard.cli import main
from regard.config.recipes import check_recipe
from regard.config.settings import SearchSettings
from regard.config.vocabulary import EOS, UNK
from regard.decoding.engines.ctranslate2 import CTranslate2Engine, CTranslate2Model, _close, _wait, vocabulary_map
from regard.decoding.shortlist import Shortlist
from regard.errors import ConfigError
from regard.inference.shortlist import shortlist_folder
from regard.inference.translation import Translation
from regard.inference.translator import Translator
from regard.models import build_model
from regard.serve.models import load_models

pytest.importorskip("ctranslate2", reason="needs the extra interop")
pytestmark = pytest.mark.processor("ctranslate2")

OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {"joint": True},
    "two vocabularies": {"joint": False, "tie_embeddings": "target", "start_token": "pad", "activation": "silu"},
    "pre": {"joint": True, "norm": "pre"},
}
THEIRS = {"engine": "ctranslate2"}
MANY = [source for source, _ in PAIRS[:110]]  # more than are searched for together


@pytest.fixture(scope="module", params=OPTIONS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of each kind of options, with a shortlist."""
    path = tmp_path_factory.mktemp("model") / "model"
    transformer_folder(path, **OPTIONS[request.param])
    text = []
    for side, name in enumerate(("source", "target")):
        file = path.with_name(name)
        file.write_text("".join(pair[side] + "\n" for pair in PAIRS[:60]), "utf-8")
        text.append(str(file))
    shortlist_folder(path, (text[0], text[1]), common=20, likely=8)
    return path


@pytest.fixture
def translator(folder: Path) -> Translator:
    loaded: Translator = regard.load(folder)
    loaded.change_search(["search.engine=torch"])
    return loaded


def summary(translation: Translation) -> tuple[Any, ...]:
    each = translation.n_best
    return tuple((one.text, tuple(token.id for token in one.tokens), one.finished) for one in each)


def assert_same(ours: list[Translation], theirs: list[Translation], at_least: float) -> None:
    """The same translations for nearly every sentence, since near ties may fall either way, and nearly the same scores:
    CTranslate2 leaves <pad> and <s>, which have some probability, out of the softmax."""
    alike = [(one, other) for one, other in zip(ours, theirs, strict=True) if summary(one) == summary(other)]
    assert len(alike) >= at_least * len(ours)
    assert len({one.text for one, _ in alike}) > 4
    for one, other in alike:
        assert other.log_probability == pytest.approx(one.log_probability, abs=0.004 * len(one.tokens))
        assert other.score == pytest.approx(one.score, abs=0.004 * len(one.tokens))


@pytest.mark.parametrize(("beam", "n_best", "length_penalty"), [(1, 1, 1.0), (4, 1, 0.0), (4, 3, 1.0)])
def test_it_finds_what_our_search_finds(translator: Translator, beam: int, n_best: int, length_penalty: float):
    # so short a bound, which depends on the sentence, cuts some translations
    bound = {"max_length_ratio": 1.0, "max_length_extra": 3, "batch_tokens": 10_000}
    search = {"beam": beam, "n_best": n_best, "length_penalty": length_penalty, **bound}
    ours = translator.translate(MANY, search=search)
    theirs = translator.translate(MANY, search=search | THEIRS)
    assert_same(ours, theirs, 0.9 if n_best == 1 else 0.7)
    assert {each.finished for each in theirs} == {True, False}
    assert all(len(each.token_log_probabilities) == 0 for each in theirs)


@pytest.mark.parametrize("beam", [1, 4])
def test_with_a_shortlist_too(translator: Translator, beam: int):
    search = {"beam": beam, "shortlist": True, "max_length_ratio": 1.0}
    lines = MANY[:12]
    # one by one: which pieces are scored depends on the sentences beside
    ours = [translator.translate([line], search=search)[0] for line in lines]
    theirs = [translator.translate([line], search=search | THEIRS)[0] for line in lines]
    assert_same(ours, theirs, 0.9)
    whole = translator.translate(lines, search=search | THEIRS | {"shortlist": False})
    assert [each.log_probability for each in whole] != [each.log_probability for each in theirs]


def test_a_shortlist_becomes_a_vocabulary_map(translator: Translator):
    source, target = translator.source_tokenizer, translator.target_tokenizer
    likely = np.full((source.size, 2), EOS)
    likely[5] = [8, 6]
    made = vocabulary_map(Shortlist(np.arange(5), likely, ""), source, target).splitlines()
    assert made[0] == "\t" + " ".join(target.piece(number) for number in range(5))
    assert made[1 + 5] == f"{source.piece(5)}\t{target.piece(6)} {target.piece(8)}"
    assert made[1 + 6] == f"{source.piece(6)}\t</s>"
    assert len(made) == 1 + source.size


def test_eight_bits_change_little(translator: Translator):
    exact = translator.translate(MANY, search=THEIRS | {"beam": 1})
    rounded = translator.translate(MANY, search=THEIRS | {"beam": 1, "int8": True})
    assert any(one.text == other.text for one, other in zip(exact, rounded, strict=True))
    # so small a model feels the rounding more than any that is used: words change, but it is as sure of the others
    sure, as_sure = (fmean(each.log_probability / len(each.tokens) for each in found) for found in (exact, rounded))
    assert as_sure != sure
    assert as_sure == pytest.approx(sure, abs=0.15)


def test_blank_lines_stay_blank_and_the_order_is_kept(translator: Translator):
    lines = ["", *MANY[:3], "   ", *MANY[3:5]]
    found = translator.translate(lines, search=THEIRS)
    assert [each.source for each in found] == lines
    assert [each.text == "" for each in found] == [not line.strip() for line in lines]


def test_what_it_cannot_tell_comes_from_our_own_search(translator: Translator):
    first = translator.target_tokenizer.decode(translator.target_tokenizer.encode(PAIRS[3][1])[:-1]).split()[0]
    begun = translator.translate(LINES[:2], search=THEIRS, prefix=[first, ""])
    assert begun[0].text.startswith(first)
    assert begun[0].token_log_probabilities
    assert not begun[1].token_log_probabilities  # without a prefix, theirs
    assert translator.translate(LINES[0], search=THEIRS).alignment is not None  # one line: with attention
    likely = translator.translate(LINES[:1], search=THEIRS, candidates=2)[0].candidates
    assert len(likely[0]) == 2


def test_a_sentence_longer_than_its_positions_comes_from_our_own_search(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
):
    short, long = sorted(LINES, key=len)[:: len(LINES) - 1]
    length = len(translator.source_tokenizer.encode(short))
    assert len(translator.source_tokenizer.encode(long)) > length
    monkeypatch.setattr("regard.decoding.engines.ctranslate2.MAX_POSITIONS", length)
    bound = {"max_length_ratio": 1e-9, "max_length_extra": 4}
    found = translator.translate([short, long], search={**THEIRS, **bound})
    assert len(found[1].token_log_probabilities) == len(found[1].tokens)
    assert not found[0].token_log_probabilities


def test_a_long_sentence_is_not_cut(translator: Translator):
    line = MANY[0]
    while len(translator.source_tokenizer.encode(line)) <= 1030:  # more than CTranslate2 reads by default
        line = f"{line} {line}"
    bound = {"beam": 1, "max_source": 9999, "max_length_ratio": 1e-9, "max_length_extra": 5}
    (theirs,) = translator.translate([line], search={**THEIRS, **bound})
    assert not theirs.token_log_probabilities
    (ours,) = translator.translate([line], search=bound)
    assert theirs.log_probability == pytest.approx(ours.log_probability, abs=0.02)


@pytest.mark.parametrize("changes", [{}, {"shortlist": True}, {"int8": True}, {"max_length_ratio": 0.2}])
def test_a_stream_says_what_its_greedy_search_finds(translator: Translator, changes: dict[str, Any]):
    for line in LINES[:4]:
        engine = {} if changes.get("shortlist") else THEIRS  # a stream with a shortlist is our own
        (found,) = translator.translate([line], search={**engine, **changes, "beam": 1})
        pieces = list(translator.stream(line, search={**THEIRS, **changes}))
        piece = translator.target_tokenizer.piece
        assert [each.piece for each in pieces] == [piece(token.id) for token in found.tokens]
        assert [each.ended for each in pieces] == [False] * (len(pieces) - 1) + [True]
        assert pieces[-1].text == found.text
        assert pieces[-1].score == pytest.approx(found.score, abs=1e-4)


class Endless:
    """A batch that is still searched for; as a model, one that waits for it when it is dropped."""

    num_active_batches, num_queued_batches = 1, 0

    def __init__(self) -> None:
        self.end = threading.Event()

    def done(self) -> bool:
        return self.end.is_set()

    def result(self) -> None:
        libc = ctypes.CDLL(None)  # like CTranslate2, it waits outside of Python
        while not self.done():
            libc.usleep(10_000)

    def __del__(self) -> None:
        self.end.wait(30)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_is_heard_while_a_batch_is_searched_for():
    endless = Endless()
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        _wait(endless)
    timer.join()
    endless.end.set()


def test_few_batches_are_started_ahead(monkeypatch: pytest.MonkeyPatch):
    """What is started cannot be stopped."""
    started: list[list[list[int]]] = []
    monkeypatch.setattr(CTranslate2Model, "_start", lambda self, sentences, settings: started.append(sentences))
    model = object.__new__(CTranslate2Model)
    model._ahead = 2
    sentences = [[number] for number in range(10)]
    found = model._started(([number] for number in range(10)), sentences, SearchSettings())
    assert next(found)[0] == [0]
    assert started == [[sentence] for sentence in sentences[:3]]
    assert [places for places, _ in found] == [[number] for number in range(1, 10)]


def test_dropping_a_busy_model_does_not_wait():
    endless = Endless()
    end, opened = endless.end, [endless]
    del endless
    begun = time.monotonic()
    _close(opened, os.getpid())
    assert time.monotonic() - begun < 10
    end.set()


def test_a_stream_may_be_left_early(translator: Translator):
    stream = translator.stream(LINES[0], search=THEIRS)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert translator.translate(LINES[:1], search=THEIRS)


def test_threads_may_share_it(translator: Translator):
    alone = [each.text for each in translator.translate(MANY[:20], search=THEIRS)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: translator.translate(MANY[:20], search=THEIRS), range(8)))
    assert all([each.text for each in texts] == alone for texts in found)
    assert len(translator._engines.made._made) == 1


def test_the_command_uses_it(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_text("\n".join(LINES) + "\n", "utf-8")
    made = []
    original = CTranslate2Engine.search
    monkeypatch.setattr(CTranslate2Engine, "search", lambda *given: made.append(1) or original(*given))
    assert main(["translate", str(folder), "-i", str(source), "-o", str(out), "--engine", "ctranslate2"]) == 0
    assert made
    theirs = [each.text for each in regard.load(folder).translate(LINES, search=THEIRS)]
    assert out.read_text("utf-8").split("\n") == [*theirs, ""]


@pytest.mark.parametrize(
    "settings",
    [{"sample": True}, {"coverage_penalty": 0.2}, {"min_length_ratio": 0.5}, {"no_repeat_ngram": 3}],
)
def test_what_it_does_otherwise_is_refused(translator: Translator, settings: dict[str, Any]):
    with pytest.raises(ConfigError, match=rf"search\.{next(iter(settings))}.*engine = \"torch\""):
        translator.translate(LINES, search=THEIRS | settings)


def test_other_architectures_are_refused(translator: Translator):
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    recipe = check_recipe({"model": {"kind": "luong", "hidden_size": 8}, "training": {"updates": 1}}, "test")
    other = Translator(build_model(recipe.model, *(each.size for each in tokenizers)), recipe, *tokenizers)
    with pytest.raises(ConfigError, match="a single Transformer only"):
        other.translate(LINES, search=THEIRS)
    with pytest.raises(ConfigError, match="a single Transformer only"):
        Translator.ensemble([translator, translator]).translate(LINES, search=THEIRS)


def test_without_the_package_it_says_how_to_get_it(translator: Translator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ConfigError, match="pip install ctranslate2"):
        translator.translate(LINES, search=THEIRS)


def test_pieces_end_with_the_end_of_the_sentence(translator: Translator):
    found = translator.translate(LINES, search=THEIRS)
    assert all(each.tokens[-1].id == EOS for each in found if each.finished)
    assert any(each.finished for each in found)


def test_a_server_may_use_it(folder: Path):
    engine = "search.engine=ctranslate2"
    served = next(iter(load_models([str(folder)], "en-de", overrides=[engine, "search.beam=1"])))
    assert served.translator.recipe.search.engine == "ctranslate2"
    found = dict(served.translator.translate_unordered(LINES))
    ours = regard.load(folder).translate(LINES, search={"beam": 1, "engine": "torch"})
    assert [found[place].text for place in range(len(LINES))] == [each.text for each in ours]
    with pytest.raises(ConfigError, match=r"search\.sample"):
        load_models([str(folder)], "en-de", overrides=[engine, "search.sample=true"])
    with pytest.raises(ConfigError, match="only search settings can change"):
        load_models([str(folder)], "en-de", overrides=["training.epochs=1"])


def test_a_translation_with_an_unknown_word_comes_from_our_own_search(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(translator.target_tokenizer, "says_unknown", True)
    bias = translator.model.get_parameter("embeddings.output_bias")
    with torch.no_grad():
        bias[UNK] += 8  # some translations say it now
    found = translator.translate(MANY, search=THEIRS | {"beam": 1})
    own = [each for each in found if each.token_log_probabilities]
    assert 0 < len(own) < len(found)
    assert [each.text for each in found] == [each.text for each in translator.translate(MANY, search={"beam": 1})]
    kept = translator.translate(MANY, search=THEIRS | {"beam": 1, "replace_unknown": False})
    assert not any(each.token_log_probabilities for each in kept)


@pytest.mark.parametrize("engine", ["ctranslate2", "onnxruntime"])
def test_int8_copies_leave_the_models_own_weights_alone(folder: Path, engine: str) -> None:
    translator = regard.load(folder)
    assert isinstance(translator, Translator)
    before = {name: weight.clone() for name, weight in translator.model.state_dict().items()}
    translator.translate(LINES, search={"engine": engine, "int8": True})
    after = translator.model.state_dict()
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())


def test_the_end_of_a_training_leaves_the_weights_alone(tmp_path: Path) -> None:
    table = {"kind": "transformer", "hidden_size": 16, "encoder_layers": 1, "decoder_layers": 1, "heads": 2}
    for int8 in ("auto", False):  # auto measures int8 at the end
        recipe = {"model": table | {"feedforward_size": 24}, "text": {"joint": True}, "search": {"int8": int8}}
        chosen = check_recipe(recipe | {"training": {"updates": 3, "batch_tokens": 200}}, "test")
        regard.train(chosen, train=PAIRS[:60], valid=PAIRS[60:70], out=tmp_path / str(int8), progress=False)
    weights = [safetensors.torch.load_file(tmp_path / name / "model.safetensors") for name in ("auto", "False")]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())

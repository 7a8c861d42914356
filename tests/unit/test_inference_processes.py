"""A translator in other processes: pickled by its folder, and used after a fork."""

import multiprocessing
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from test_cli_translate import write_model

from regard.errors import ConfigError
from regard.inference.translator import Translator

LINES = ["the small house", "a green tree", "the cat saw a small dog"]
TRANSFORMER = {"kind": "transformer", "hidden_size": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small", TRANSFORMER)


def texts(translator: Translator, **search: object) -> list[str]:
    return [each.text for each in translator.translate(LINES, search=search)]


# --- pickling -----------------------------------------------------------------------------------------------------


def test_a_pickle_is_the_folder_and_the_settings(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder.parent)
    translator = Translator.load(Path(folder.name))
    translator.change_search(["search.beam=3"])
    pickled = pickle.dumps(translator)
    assert len(pickled) < 2000  # no weights
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(pickled)
    assert again.recipe == translator.recipe
    assert texts(again) == texts(translator)


def test_an_ensemble_is_the_pickle_of_its_parts(folder: Path, tmp_path: Path):
    other = write_model(tmp_path / "other", TRANSFORMER, seed=2)
    joined = Translator.ensemble([Translator.load(folder), Translator.load(other)])
    again = pickle.loads(pickle.dumps(joined))
    assert again.name == joined.name
    assert texts(again) == texts(joined)


def test_without_a_folder_it_says_why_not(folder: Path):
    loaded = Translator.load(folder)
    made = Translator(loaded.model, loaded.recipe, loaded.source_tokenizer, loaded.target_tokenizer)
    with pytest.raises(ConfigError, match=r"^transformer: cannot be pickled, since .*: load it in each process\.$"):
        pickle.dumps(made)
    with pytest.raises(ConfigError, match="cannot be pickled"):
        pickle.dumps(Translator.load(folder, model=loaded.model))


@pytest.mark.slow
def test_processes_that_are_spawned_translate(folder: Path):
    translator = Translator.load(folder)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(texts, (translator,)) == texts(translator)


# --- forks --------------------------------------------------------------------------------------------------------


def in_fork(work: Callable[[], bool]) -> bool:
    """Whether the work is true in a fork; one that hangs is killed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("engine", ["torch", pytest.param("ctranslate2", marks=pytest.mark.processor("ctranslate2"))])
def test_it_works_after_a_fork(folder: Path, engine: str):
    """The parent has used its threads and its engine, and holds the lock, when the child begins."""
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="needs the extra interop")
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        translator = Translator.load(folder)
        torch.rand(512, 512).exp().sum()  # starts torch's threads
        expected = texts(translator, engine=engine)

        def work() -> bool:
            large = torch.rand(512, 512).exp().sum() if translator.translate("a tree") else None
            return large is not None and texts(translator, engine=engine) == expected

        with translator._engines.made._lock:  # as another thread of the parent may
            assert in_fork(work)
        assert texts(translator, engine=engine) == expected
    finally:
        torch.set_num_threads(threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_it_works_after_a_fork_beside_threads_that_translate(folder: Path):
    translator = Translator.load(folder)
    expected, stop = texts(translator), threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            texts(translator)

    busy = threading.Thread(target=go_on)
    busy.start()
    try:
        assert in_fork(lambda: texts(translator) == expected)
    finally:
        stop.set()
        busy.join()

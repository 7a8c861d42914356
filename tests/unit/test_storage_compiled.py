"""Compiled copies of a model: kept, found again, never stale, never of anything but the model."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from test_cli_translate import LINES, write_model

from regard.cli import main
from regard.decoding.engines.ctranslate2_file import is_transformer
from regard.errors import ModelChanged
from regard.inference.translator import Translator
from regard.storage import compiled as storage
from regard.storage.compiled import MANIFEST, Compiled

pytest.importorskip("ctranslate2")

TRANSFORMER: dict[str, object] = {
    "kind": "transformer",
    "hidden_size": 16,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "feedforward_size": 24,
}
THEIRS = {"engine": "ctranslate2"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own, and no trial of the processor."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("regard.machine.processor.use", lambda *given: {})
    return tmp_path / "cache" / "regard" / "compiled"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", TRANSFORMER)


def texts(folder: Path, **search: object) -> list[tuple[str, float]]:
    found = Translator.load(folder).translate(LINES[:4], search=THEIRS | search)
    return [(each.text, each.score) for each in found]


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was converted."""
    import regard.decoding.engines.ctranslate2_spec as spec

    made: list[object] = []
    convert = spec.transformer_spec

    def counted(*given: object) -> object:
        made.append(given)
        return convert(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(spec, "transformer_spec", counted)
    return made


# --- kept and found again -----------------------------------------------------------------------------------------


def test_a_copy_is_made_once_for_each_kind_of_weights(folder: Path, conversions: list[object]) -> None:
    first = texts(folder)
    assert texts(folder) == first
    assert len(conversions) == 1
    assert texts(folder, int8=True) == texts(folder, int8=True)
    assert len(conversions) == 2
    names = [copy.name for copy in Compiled(folder).listed()]
    assert names == ["ctranslate2-float32", "ctranslate2-int8"]
    sizes = [copy.bytes for copy in Compiled(folder).listed()]
    assert sizes[1] < sizes[0]
    shutil.rmtree(folder / "compiled")  # harmless
    assert texts(folder) == first


def test_a_shortlist_has_a_copy_of_its_own(folder: Path, conversions: list[object]) -> None:
    plain = texts(folder)
    assert main(["shortlist", str(folder), "--train", "toy:phrases:en-fr:50"]) == 0
    assert texts(folder) == plain
    assert len(conversions) == 1  # a new shortlist does not concern it
    texts(folder, shortlist=True)
    texts(folder, shortlist=True)
    assert len(conversions) == 2
    assert main(["shortlist", str(folder), "--train", "toy:phrases:en-fr:70", "--likely", "3"]) == 0
    texts(folder, shortlist=True)
    assert len(conversions) == 3
    copy = folder / "compiled" / "ctranslate2-float32-shortlist"
    (copy / "vmap.txt").unlink()
    record = json.loads((copy / MANIFEST).read_text("utf-8"))
    del record["files"]["vmap.txt"]
    (copy / MANIFEST).write_text(json.dumps(record), "utf-8")
    texts(folder, shortlist=True)
    assert len(conversions) == 4


def test_a_copied_folder_keeps_its_copy(folder: Path, tmp_path: Path, conversions: list[object]) -> None:
    first = texts(folder)
    shutil.copytree(folder, tmp_path / "moved", copy_function=shutil.copy)  # with new times and inodes
    assert texts(tmp_path / "moved") == first
    assert len(conversions) == 1
    hashed: list[Path] = []
    real = storage.sha256
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "sha256", lambda path: hashed.append(path) or real(path))
        assert texts(tmp_path / "moved") == first
    assert hashed == []  # the new stamps are remembered


def test_info_lists_copies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts(folder)
    assert main(["info", str(folder), "--format", "json"]) == 0
    (copy,) = json.loads(capsys.readouterr().out)["compiled"]
    assert (copy["name"], copy["fresh"]) == ("ctranslate2-float32", True)
    write_model(folder, TRANSFORMER, seed=2)
    assert main(["info", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "ctranslate2-float32" in said
    assert ", outdated, in " in said


# --- never stale --------------------------------------------------------------------------------------------------


def test_other_weights_make_a_new_copy(folder: Path, tmp_path: Path, conversions: list[object]) -> None:
    texts(folder)
    other = write_model(tmp_path / "other", TRANSFORMER, seed=7)
    wanted = texts(other)
    for name in ("model.safetensors", "config.json"):
        shutil.copy(other / name, folder / name)
    assert texts(folder) == wanted
    assert len(conversions) == 3
    about = os.stat(folder / "model.safetensors")
    before = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(before[:-4] + struct.pack("<f", 9.0))
    os.utime(folder / "model.safetensors", ns=(about.st_atime_ns, about.st_mtime_ns))  # same size and time
    texts(folder)
    assert len(conversions) == 4


def test_a_model_in_memory_is_not_the_folders(folder: Path, conversions: list[object]) -> None:
    texts(folder)
    changed = Translator.load(folder)
    with __import__("torch").no_grad():
        changed.model.get_parameter("decoder.0.feedforward.outer.bias").add_(3.0)
    found = [(each.text, each.score) for each in changed.translate(LINES[:4], search=THEIRS)]
    assert found != texts(folder)
    assert len(conversions) == 2


def test_a_model_that_changes_while_it_is_open_leaves_no_copy(folder: Path, conversions: list[object]) -> None:
    old = Translator.load(folder)
    wanted = [each.text for each in old.translate(LINES, search={"engine": "torch"})]
    write_model(folder, TRANSFORMER, seed=3)
    assert [each.text for each in old.translate(LINES, search=THEIRS)] == wanted
    assert Compiled(folder).listed() == []
    assert len(conversions) == 1


@pytest.mark.parametrize("int8", [False, True])
def test_an_open_engine_outlives_a_change_of_its_folder(folder: Path, int8: bool) -> None:
    measured = {"int8": {"float32_bleu": 30.0, "int8_bleu": 30.0 if int8 else 20.0}}
    (folder / "metrics.json").write_text(json.dumps(measured))
    wanted = [each.text for each in Translator.load(folder).translate(LINES)]
    exact = [each.text for each in Translator.load(folder).translate(LINES, search={"engine": "torch", "int8": False})]
    old = Translator.load(folder)  # opens the copy and never reads the weights
    old.prepare()
    described = old._engines.described(old.recipe.search)
    assert described == f"ctranslate2{' int8' if int8 else ''}"
    write_model(folder, TRANSFORMER, seed=3)
    assert [each.text for each in old.translate(LINES)] == wanted
    assert old._engines.described(old.recipe.search) == described
    other = {"int8": not int8}  # not open yet: the folder's copy would be of another model
    assert old._engines.name(old.search_settings(other)) == "torch"
    # torch reads the file that was replaced
    assert [each.text for each in old.translate(LINES, search={"engine": "torch", "int8": False})] == exact


def test_weights_overwritten_in_place_are_refused(folder: Path) -> None:
    old = Translator.load(folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes())
    with pytest.raises(ModelChanged, match=r"^model: has changed since it was opened: load it again\.$"):
        old.translate(LINES, search={"engine": "torch"})


def test_a_model_in_memory_needs_its_folder_no_more(folder: Path) -> None:
    old = Translator.load(folder)
    assert old.model is not None
    wanted = [each.text for each in old.translate(LINES)]
    write_model(folder, TRANSFORMER, seed=3)
    assert old._engines.name(old.recipe.search) == "torch"
    assert [each.text for each in old.translate(LINES)] == wanted


def test_permissions_and_shortlists_are_no_change_of_the_model(folder: Path) -> None:
    plain = texts(folder)
    old = Translator.load(folder)
    (folder / "model.safetensors").chmod(0o600)
    assert main(["shortlist", str(folder), "--train", "toy:phrases:en-fr:50"]) == 0
    assert [(each.text, each.score) for each in old.translate(LINES[:4], search=THEIRS)] == plain
    assert old.translate(LINES[0], search={"engine": "torch"}).text == plain[0][0]


def test_a_new_model_removes_the_copies_of_the_old(folder: Path) -> None:
    texts(folder)
    write_model(folder, "bahdanau")
    assert not (folder / "compiled").exists()


# --- places -------------------------------------------------------------------------------------------------------


def test_where_the_folder_cannot_be_written_the_cache_holds_it(
    folder: Path, cache: Path, conversions: list[object]
) -> None:
    (folder / "compiled").write_text("in the way")
    first = texts(folder)
    assert texts(folder) == first
    assert len(conversions) == 1
    assert [path.name for path in cache.glob("*/*")] == ["ctranslate2-float32"]


def test_nowhere_to_write_is_no_error(
    folder: Path, tmp_path: Path, conversions: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "compiled").symlink_to(tmp_path)  # never followed
    (tmp_path / "cache").write_text("in the way")
    assert texts(folder) == texts(folder)
    assert len(conversions) == 2
    assert not (tmp_path / "ctranslate2-float32").exists()


def test_two_threads_and_two_processes_make_one_copy(folder: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_storage_compiled as t; " + (
        f"from pathlib import Path; print(t.texts(Path({str(folder)!r})))"
    )
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate(timeout=120)[0] for process in started]
    assert said[0] == said[1] != b""
    assert sorted(path.name for path in (folder / "compiled").iterdir()) == ["ctranslate2-float32"]
    translator, found = Translator.load(folder), []
    threads = [
        threading.Thread(target=lambda: found.append(translator.translate(LINES[0], search=THEIRS, attention=False)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.text for each in found}) == 1


# --- untrusted files ----------------------------------------------------------------------------------------------

OPTIONS: list[dict[str, object]] = [
    {"norm": "pre", "activation": "gelu", "attention_bias": True, "output_bias": True, "start_token": "pad"},
    {"activation": "silu", "positions": "halves", "scale_embeddings": False, "tie_embeddings": "none"},
    {"tie_embeddings": "target", "alignment_layer": 1, "encoder_layers": 3, "decoder_layers": 1},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("int8", [False, True])
def test_every_copy_passes_its_check(
    tmp_path: Path, options: dict[str, object], int8: bool, conversions: list[object]
) -> None:
    folder = write_model(tmp_path / "model", TRANSFORMER | options)
    assert texts(folder, int8=int8) == texts(folder, int8=int8)
    assert len(conversions) == 1


def damaged(raw: bytes) -> dict[str, bytes]:
    """Model files that CTranslate2 would trust."""
    place = raw.index(b"decoder/embeddings/weight\0") + len(b"decoder/embeddings/weight\0")
    rows, columns = struct.unpack_from("<II", raw, place + 1)
    heads = raw.index(b"decoder/num_heads\0") + len(b"decoder/num_heads\0")
    return {
        "empty": b"",
        "cut": raw[:-9],
        "longer": raw + b"x",
        "transposed": raw[: place + 1] + struct.pack("<II", columns, rows) + raw[place + 9 :],
        "huge": raw[: place + 1] + struct.pack("<II", 2**31, 2**31) + raw[place + 9 :],
        "more bytes than its shape": raw[: place + 10] + struct.pack("<I", 2**30) + raw[place + 14 :],
        "no heads": raw[: heads + 6] + b"\0\0" + raw[heads + 8 :],
        "unknown type": raw[: place + 9] + b"\x77" + raw[place + 10 :],
        "version": b"\x07" + raw[1:],
        "count": raw.replace(b"TransformerSpec\0" + struct.pack("<I", 7), b"TransformerSpec\0" + b"\x07\0\0\0\xff"),
    }


def test_files_of_another_model_are_not_opened(folder: Path, conversions: list[object]) -> None:
    wanted = texts(folder)
    copy = folder / "compiled" / "ctranslate2-float32"
    raw = (copy / "model.bin").read_bytes()
    for number, (fault, content) in enumerate(damaged(raw).items(), 2):
        (copy / "model.bin").write_bytes(content)
        record = json.loads((copy / MANIFEST).read_text("utf-8"))
        record["files"]["model.bin"] = len(content)  # as a stranger would
        (copy / MANIFEST).write_text(json.dumps(record), "utf-8")
        translator = Translator.load(folder)
        settings, pieces = translator.recipe.model, translator.source_tokenizer
        assert not is_transformer(copy, settings, pieces, pieces, int8=False), fault  # type: ignore[arg-type]
        assert texts(folder) == wanted, fault
        assert len(conversions) == number, fault
    for name, content in (
        ("shared_vocabulary.json", "[]"),
        ("config.json", "{}"),
        (MANIFEST, "[" * 9999),
        (MANIFEST, "{}"),
        (MANIFEST, '{"version": "0.1.0", "files": {}, "sources": []}'),
    ):
        before = len(conversions)
        (copy / name).write_text(content)
        assert texts(folder) == wanted
        assert len(conversions) == before + 1, name

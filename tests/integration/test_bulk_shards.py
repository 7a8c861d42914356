"""`regard translate` over shards in this process: equal to the filter, restartable, never half written."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bulk_help import contents, sentences, write_model, write_shards

import regard
from regard.bulk import formats, local, run
from regard.bulk.cluster import check_answers
from regard.bulk.manifest import JOURNAL, MANIFEST, difference
from regard.bulk.shards import Shard, find_shards
from regard.bulk.work import Events, Job, Progress, load_translator, translate_shard
from regard.cli import main
from regard.cli.app import OPTIONAL_VALUES, fill_optional_values
from regard.errors import ConfigError, DataError, RegardError
from regard.storage.lock import only_writer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small")


@pytest.fixture(autouse=True)
def _no_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command tunes the process, which would outlive the test."""
    monkeypatch.setattr("regard.process.tune_without_torch", lambda threads=None: None)


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    return write_shards(tmp_path / "in", 3, 30)


def command(*words: str | Path) -> int:
    return main(["translate", *map(str, words)])


def filtered(model: Path, path: Path, out: Path, *options: str) -> bytes:
    """What the filter writes for one file."""
    assert command(model, "--input", path, "--output", out, *options) == 0
    return out.read_bytes()


# --- the same as the filter ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [(), ("--scores", "--alignments"), ("--n-best", "2", "--alignments"), ("--format", "json"), ("--sample",)],
    ids=lambda options: "".join(options) or "plain",
)
def test_each_shard_equals_the_filter(model: Path, shards: list[Path], tmp_path: Path, options: Sequence[str]) -> None:
    out = tmp_path / "out"
    assert command(model, "--input", tmp_path / "in/*.txt.gz", "--output", out, "--window", "8", *options) == 0
    ending = ".jsonl.gz" if "json" in options else ".txt.gz"
    for path in shards:
        expected = filtered(model, path, tmp_path / "one", "--window", "8", *options)
        assert gzip.decompress((out / path.name.replace(".txt.gz", ending)).read_bytes()) == expected


def test_the_manifest_counts_and_proves(model: Path, shards: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = regard.translate_shards(model, tmp_path / "in", out)
    written = json.loads((out / MANIFEST).read_text())
    assert manifest.sentences == written["total"]["sentences"] == 90
    assert written["total"]["shards"] == 3
    assert [each["input"] for each in written["shards"]] == [path.name for path in shards]
    for each in written["shards"]:
        assert each["output_sha256"] == run.sha256(out / each["output"])
        assert each["input_bytes"] == (tmp_path / "in" / each["input"]).stat().st_size
    assert sorted(contents(out)) == [*(path.name for path in shards), MANIFEST]  # nothing else is left


def test_a_tree_of_folders_keeps_its_names(model: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "part-0").write_text("the cat\n")
    regard.translate_shards(model, tmp_path / "in/*/part-*", tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == ["a/part-0", "b/part-0", MANIFEST]


def test_a_shard_is_streamed(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first window is translated before the file is read to its end."""
    path = tmp_path / "in" / "long.txt"
    path.parent.mkdir()
    path.write_text("".join(f"{line}\n" for line in sentences(9000)))
    shard = find_shards(path, tmp_path / "out")[0]
    job = replace(_job(model, tmp_path), window=16)
    monkeypatch.setattr(formats, "WINDOW", 16)
    events = translate_shard(load_translator(job), job, shard)
    assert next(events) == Progress(0, 0)
    first = next(events)
    assert isinstance(first, Progress)
    assert 0 < first.position < shard.size / 2
    events.close()
    assert contents(tmp_path / "out") == {}


def _job(model: Path, tmp_path: Path) -> Job:
    seen: list[Job] = []

    def keep(job: Job, shards: Sequence[Shard], workers: int) -> Events:
        seen.append(job)
        yield from ()

    write_shards(tmp_path / "other", 1, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "execute", keep)
        regard.translate_shards(model, tmp_path / "other", tmp_path / "nothing")
    return seen[0]


# --- tables -------------------------------------------------------------------------------------------------------

ROWS: list[dict[str, Any]] = [{"id": number, "line": text} for number, text in enumerate(sentences(40))]
ROWS[3]["line"] = None
ROWS[4]["line"] = ""


def test_json_lines_gain_columns(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    words = ("--column", "line", "--scores", "--alignments", "--n-best", "2")
    assert command(model, "--input", folder, "--output", tmp_path / "out", *words) == 0
    found = [json.loads(line) for line in (tmp_path / "out/a.jsonl").read_text().splitlines()]
    _check_rows(found, model)


def test_parquet_gains_columns(model: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'regard[cluster]'")
    import pyarrow.parquet as pq

    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "a.parquet", row_group_size=7)  # smaller than a window
    words = ("--column", "line", "--scores", "--alignments", "--n-best", "2")
    assert command(model, "--input", folder / "*.parquet", "--output", tmp_path / "out", *words) == 0
    table = pq.read_table(tmp_path / "out/a.parquet")
    _check_rows(table.to_pylist(), model)
    assert table.schema.names == ["id", "line", "translation", "score", "alignment", "n_best"]


def _check_rows(found: list[dict[str, Any]], model: Path) -> None:
    expected = regard.Translator.load(model).translate([row["line"] or "" for row in ROWS], n_best=2, attention=True)
    assert [(row["id"], row["line"]) for row in found] == [(row["id"], row["line"]) for row in ROWS]
    for row, translation in zip(found, expected, strict=True):
        if row["line"] is None:
            assert row["translation"] is row["score"] is row["alignment"] is row["n_best"] is None
            continue
        assert (row["translation"], row["score"]) == (translation.text, translation.score)
        assert [each["text"] for each in row["n_best"]] == [each.text for each in translation.n_best]
        assert row["alignment"] == translation.to_dict()["alignment"]


def test_parquet_of_other_kinds_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'regard[cluster]'")
    import pyarrow.parquet as pq

    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), folder / "a.parquet")
    assert command(model, "--input", folder, "--output", tmp_path / "out") == 2
    assert "there is no column 'text' (columns: id): name one with --column" in capsys.readouterr().err
    assert command(model, "--input", folder, "--output", tmp_path / "out", "--column", "id") == 2
    assert "column 'id' is of type int64" in capsys.readouterr().err
    (folder / "a.parquet").write_bytes(b"PAR1 and then nothing")
    assert command(model, "--input", folder, "--output", tmp_path / "out") == 2
    assert "is no Parquet file, or damaged" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# --- again --------------------------------------------------------------------------------------------------------


class Counted:
    """The local executor, counting its shards; stops as if killed after some."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.stop_after: int | None = None
        real = local.execute

        def execute(job: Job, shards: Sequence[Shard], workers: int) -> Events:
            self.names = []
            for shard, event in real(job, shards, workers):
                if isinstance(event, Progress) and event.sentences == 0:
                    if len(self.names) == self.stop_after:
                        raise KeyboardInterrupt
                    self.names.append(shard.name)
                yield shard, event

        monkeypatch.setattr(local, "execute", execute)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def test_an_interrupted_run_continues(
    model: Path, shards: list[Path], tmp_path: Path, counted: Counted, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (model, "--input", tmp_path / "in/*", "--output")
    assert command(*words, tmp_path / "whole") == 0
    counted.stop_after = 2
    assert command(*words, tmp_path / "out") == 130
    assert "interrupted; 2 of 3 shards are finished: the same command continues" in capsys.readouterr().err
    assert sorted(contents(tmp_path / "out")) == ["000.txt.gz", "001.txt.gz", JOURNAL]
    with open(tmp_path / "out" / JOURNAL, "a") as journal:
        journal.write('{"input": "002.txt.gz", "inp')  # a power cut while it was written
    (tmp_path / "out" / ".002.txt.gz.1234.part").write_bytes(b"half")
    counted.stop_after = None
    assert command(*words, tmp_path / "out") == 0
    assert counted.names == ["002.txt.gz"]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_only_changed_shards_are_translated_again(
    model: Path, shards: list[Path], tmp_path: Path, counted: Counted, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (model, "--input", tmp_path / "in/*", "--output", tmp_path / "out")
    assert command(*words) == 0
    whole = contents(tmp_path / "out")
    counted.names = []
    assert command(*words) == 0
    assert counted.names == []
    assert "3 of 3 shards are finished already" in capsys.readouterr().err
    shards[0].write_bytes(gzip.compress(b"the dog\n"))
    (tmp_path / "out/001.txt.gz").write_bytes(b"tampered")
    write_shards(tmp_path / "in", 4, 30)[0].write_bytes(gzip.compress(b"the dog\n"))
    assert command(*words) == 0
    assert counted.names == ["000.txt.gz", "001.txt.gz", "003.txt.gz"]
    again = contents(tmp_path / "out")
    assert again["001.txt.gz"] == whole["001.txt.gz"]
    assert json.loads(again[MANIFEST])["total"]["shards"] == 4


def test_another_model_or_setting_is_refused(
    model: Path, shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--input", tmp_path / "in/*", "--output", tmp_path / "out")
    assert command(model, *words) == 0
    before = contents(tmp_path / "out")
    capsys.readouterr()
    assert command(model, *words, "--beam", "3") == 2
    assert "(search.beam 2 before, 3 now): choose another folder" in capsys.readouterr().err
    other = write_model(tmp_path / "small", seed=2)
    assert command(other, *words) == 2
    assert "models.sha256.model.safetensors" in capsys.readouterr().err
    assert contents(tmp_path / "out") == before


def test_difference_names_the_first() -> None:
    assert difference({"a": 1, "b": [{"c": 1}]}, {"a": 1, "b": [{"c": 2}]}) == "b.c 1 before, 2 now"
    assert difference({"a": {"b": None}}, {"a": {}, "c": 1}) == 'a.b null before, "missing" now'
    assert difference({"a": 1}, {"a": 1}) == ""


# --- what goes wrong ----------------------------------------------------------------------------------------------


def test_a_bad_shard_does_not_stop_the_others(
    model: Path, shards: list[Path], tmp_path: Path, counted: Counted, capsys: pytest.CaptureFixture[str]
) -> None:
    good = shards[0].read_bytes()
    shards[0].write_bytes(gzip.compress(b"the cat\n\xff\n"))
    words = (model, "--input", tmp_path / "in/*", "--output", tmp_path / "out")
    assert command(*words) == 2
    error = capsys.readouterr().err
    assert re.search(r"error: \S+000.txt.gz:2: byte 0xff .* The other shards are finished: mend and run", error)
    assert sorted(contents(tmp_path / "out")) == ["001.txt.gz", "002.txt.gz", JOURNAL]
    shards[0].write_bytes(good)
    assert command(*words) == 0
    assert counted.names == ["000.txt.gz"]


def test_a_full_disk_is_one_line(
    model: Path, shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, calls = os.fsync, []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    words = (model, "--input", tmp_path / "in/*", "--output", tmp_path / "out")
    assert command(*words) == 2
    assert re.fullmatch(
        r"regard: error: \S+: no space left on device, .* free: free some space, or choose another folder\n",
        capsys.readouterr().err,
    )
    assert not list((tmp_path / "out").glob(".*"))
    assert command(*words) == 0


def test_lines_that_are_cut_are_counted(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("the cat\n" + "the cat " * 200 + "\n")
    words = ("--input", tmp_path / "in/*", "--output", tmp_path / "out", "--set", "search.max_source=50")
    assert command(model, *words) == 0
    assert "a.txt: 1 sentences were cut at search.max_source" in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / MANIFEST).read_text())["total"]["cut"] == 1


def test_two_runs_do_not_share_a_folder(model: Path, shards: list[Path], tmp_path: Path) -> None:
    with (
        only_writer(tmp_path / "out", run.WORK, "--output"),
        pytest.raises(RegardError, match="another translation is writing there now"),
    ):
        regard.translate_shards(model, tmp_path / "in", tmp_path / "out")


def test_a_shard_that_grows_is_refused(model: Path, shards: list[Path], tmp_path: Path) -> None:
    def touch(status: run.Status) -> None:
        if status.sentences_now:
            shards[2].write_bytes(shards[2].read_bytes() + gzip.compress(b"more\n"))

    with pytest.raises(DataError, match=r"002.txt.gz: changed while it was read"):
        regard.translate_shards(model, shards[2], tmp_path / "out", on_status=touch)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--input", "no/*.gz", "--output", "out"], r"no/\*.gz: no file matches: check the pattern"),
        (["--input", "in/*.gz"], "shards need --input 'FOLDER/\\*.txt.gz' and a folder as --output"),
        (["--ray"], "--ray: shards need --input"),
        (["--input", "in/*.gz", "--output", "in"], "overlaps with the input .*: choose a folder outside of it"),
        (["--input", "in", "--output", "in/out"], "overlaps with the input"),
        (["--input", "**/*.gz", "--output", "in/out"], "overlaps with the input"),
        (["--input", "in/*.gz", "--output", "."], "overlaps with the input"),
        (["--input", "in/*.gz", "--output", "out.jsonl"], "shards are written to a folder: name one"),
        (["--input", "in/*.gz", "--output", "full"], "holds file and no manifest: choose an empty or a new folder"),
        (["--input", "in/*", "--output", "out", "--prefix", "x"], "--prefix: does not fit shards"),
        (
            ["--input", "in/*", "--output", "out", "--ray", "--threads", "2"],
            "--threads: does not fit shards with --ray",
        ),
        (["--input", "table.jsonl", "--output", "out"], r"table.jsonl:1: there is no column 'text' \(columns: line\)"),
        (["--input", "table.jsonl", "--output", "out", "--column", "line"], "already has a column 'translation'"),
        (["--input", "list.jsonl", "--output", "out"], "list.jsonl:1: is no JSON object"),
        (["--input", "bad.jsonl", "--output", "out"], "bad.jsonl:1: is no JSON"),
        (["--input", "number.jsonl", "--output", "out"], "holds a value of type int: name one of text"),
        (["--input", "table.jsonl", "--output", "out", "--format", "json"], "--format json is for text"),
        (["--input", "in/*", "--output", "broken"], "manifest.json: is no manifest of Regard, or damaged"),
        (["--input", "double/*", "--output", "out", "--format", "json"], "its output has the same name as that of"),
    ],
)
def test_mistakes_are_one_line(
    model: Path,
    shards: list[Path],
    tmp_path: Path,
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"full/file": "mine", "broken/manifest.json": "{}", "double/a.txt": "a\n", "double/a": "a\n"}
    rows = {"table": '{"line": "a"}', "list": "[]", "bad": "{", "number": '{"text": 3}'}
    files |= {f"{name}.jsonl": row + "\n" for name, row in rows.items()}
    if "line" in words:
        files["table.jsonl"] = '{"line": "a", "translation": "b"}\n'
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    before = contents(tmp_path)
    assert command(model, *words) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(f"regard: error: .*{message}.*\n", error), error
    assert contents(tmp_path) == before


def test_a_bare_ray_takes_no_model_for_an_address() -> None:
    options = OPTIONAL_VALUES["translate"]
    for words, expected in {
        "translate m --ray": "translate m --ray=",
        "translate --ray m --input x": "translate --ray= m --input x",
        "translate m --ray --input x": "translate m --ray= --input x",
        "translate m --ray auto": "translate m --ray auto",
        "translate m --ray 10.0.0.1:6379": "translate m --ray 10.0.0.1:6379",
    }.items():
        assert fill_optional_values(words.split(), options) == expected.split()


def test_without_ray_the_extra_is_named(
    model: Path, shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert command(model, "--input", tmp_path / "in/*", "--output", tmp_path / "out", "--ray") == 2
    assert capsys.readouterr().err == "regard: error: --ray needs Ray: pip install 'regard[cluster]'.\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://head:10001", "run the command on a node of the cluster, and give HOST:PORT or auto"),
        ("head:port", "is no address: give HOST:PORT, auto or local"),
        ("127.0.0.1:99999999", "nobody answers there"),
    ],
)
def test_addresses_are_checked_before_ray_waits(address: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"--ray {address}: {message}")):
        check_answers(address)

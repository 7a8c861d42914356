"""All benchmarks in turn: each is run once, a failed one again."""

import sys
from pathlib import Path

import pytest

from benchmarks import everything


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "test_2016_flickr.de").write_text("Ein Mann .\n", "utf-8")
    return tmp_path


def test_every_benchmark_is_a_module_and_reads_its_arguments(data: Path):
    options = everything.beside_peers("").parse_args(["--data", str(data)])
    for name, words in everything.commands(options, data / "test.de").items():
        assert (everything.ROOT / "benchmarks" / f"{name}.py").is_file()
        assert all(isinstance(word, str) for word in words)


def test_what_finished_is_kept_and_not_repeated(data: Path, monkeypatch: pytest.MonkeyPatch):
    work, calls = data / "work", data / "calls"
    program = (
        "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + '\\n'); print('rows'); sys.exit(sys.argv[2] == 'bad')"
    )
    plan = {name: [program, str(calls), name] for name in ("good", "bad")}
    monkeypatch.setattr(everything, "commands", lambda options, german: plan)
    monkeypatch.setattr(everything, "words_of", lambda name, words: [sys.executable, "-c", *words])
    arguments = ["--data", str(data), "--work", str(work)]
    assert everything.main(arguments) == 1
    assert everything.main(arguments) == 1
    assert calls.read_text().split() == ["good", "bad", "bad"]
    assert (work / "good.txt").read_text() == "rows\n"
    assert not (work / "bad.txt").exists()
    assert everything.main([*arguments, "--again", "good"]) == 0
    assert calls.read_text().split()[-1] == "good"


def test_an_unknown_benchmark_is_refused(data: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        everything.main(["--data", str(data), "--work", str(data / "work"), "trasnformer"])
    assert ended.value.code == 2
    assert "no benchmark is named trasnformer" in capsys.readouterr().err

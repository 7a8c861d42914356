"""Closed standard streams: one line and exit 2; outputs go through symbolic links."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_cli_translate import write_model

from regard.cli import main
from regard.storage.files import write_bytes, writing


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small", "luong")


def shell(command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A shell's command line, in which "$@" is regard with its arguments."""
    regard = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.run(["sh", "-c", command, "sh", *regard], capture_output=True, text=True, check=False, input="a")


@pytest.mark.skipif(os.name != "posix", reason="the shell's redirections")
@pytest.mark.parametrize(("redirection", "said"), [
    (">&-", "regard: error: stdout is closed: name a file with --output, or redirect it to one."),
    ("<&-", "regard: error: stdin is closed: name a file with --input, or redirect one to it."),
])  # fmt: skip
def test_translating_from_or_to_a_closed_stream_is_refused(model: Path, redirection: str, said: str):
    ran = shell(f'"$@" {redirection}', "translate", model)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"{said}\n")


@pytest.mark.skipif(os.name != "posix", reason="the shell's redirections")
def test_any_output_to_a_closed_stream_is_one_line():
    ran = shell('"$@" >&-', "models")
    assert ran.returncode == 2
    assert ran.stderr == "regard: error: stdout is closed: redirect to a file, or leave open\n"


@pytest.mark.skipif(os.name != "posix", reason="the shell's redirections")
def test_files_need_no_streams(model: Path, tmp_path: Path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_text("a\nb\n")
    ran = shell('"$@" <&- >&- 2>&-', "translate", model, "-i", source, "-o", out)
    assert ran.returncode == 0
    assert len(out.read_text().splitlines()) == 2


# --- links --------------------------------------------------------------------------------------------------------


@pytest.fixture
def link(tmp_path: Path) -> Path:
    """A relative link to a file in another folder."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file.svg").write_text("old")
    link = tmp_path / "link.svg"
    link.symlink_to(Path("far") / "file.svg")
    return link


def test_commands_write_through_a_link(link: Path, model: Path, tmp_path: Path):
    source = tmp_path / "in"
    source.write_text("a\nb\n")
    for command in (["translate", str(model), "-i", str(source)], ["diagram", "luong"]):
        link.resolve().write_text("old")
        assert main([*command, "-o", str(link)]) == 0
        assert link.is_symlink()
        assert link.resolve() == (tmp_path / "far" / "file.svg").resolve()
        assert link.resolve().read_text() != "old"
    assert [path.name for path in link.resolve().parent.iterdir()] == ["file.svg"]


def test_a_link_that_leads_nowhere_makes_its_target(link: Path):
    link.resolve().unlink()
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert link.resolve().read_bytes() == b"new"


def test_a_failure_leaves_the_old_target(link: Path):
    def write_half() -> None:
        with writing(link) as file:
            file.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    assert link.read_text() == "old"
    assert [path.name for path in link.resolve().parent.iterdir()] == ["file.svg"]


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_private_file_stays_private(tmp_path: Path):
    private = tmp_path / "private.txt"
    private.write_text("old")
    private.chmod(0o600)
    write_bytes(private, b"new")
    assert private.read_bytes() == b"new"
    assert private.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_sigterm_leaves_no_half_of_a_file(model: Path, tmp_path: Path):
    """The input is a pipe that stays open, so that the translation waits for more."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "regard", "translate", str(model), "--window", "1", "-o", str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stdin is not None
        ran.stdin.write("a\n" * 5)
        ran.stdin.flush()
        for _ in range(300):
            if list(tmp_path.iterdir()):
                break
            time.sleep(0.1)
        assert [path.name for path in tmp_path.iterdir()] == [".out.part"]
        ran.terminate()
        status = ran.wait(30)
        assert ran.stderr is not None
        said = ran.stderr.read()
        assert status == 128 + signal.SIGTERM, said
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="locks")
def test_a_file_that_another_is_writing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Else the first to end would rename what the other has half written."""
    path = tmp_path / "out.svg"
    with writing(path) as out:
        out.write(b"first")
        assert main(["diagram", "luong", "--output", str(path)]) == 2
    said = f"regard: error: {path}: another process is writing it now: wait for it, or choose another file\n"
    assert capsys.readouterr().err == said
    assert path.read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_what_a_killed_writer_left_is_no_obstacle(tmp_path: Path):
    path, code = tmp_path / "out.txt", "from regard.storage.files import *; import os; from pathlib import Path\n"
    code += f"with writing(Path({str(path)!r})) as out: os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (tmp_path / ".out.txt.part").exists()
    write_bytes(path, b"new")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"new"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux's device")
def test_a_device_is_written_as_it_is():
    with pytest.raises(OSError, match="No space left"):
        write_bytes(Path("/dev/full"), b"x" * 100_000)
    assert not Path("/dev/.full.part").exists()

"""The command line as a whole: light, and every failure one line with the right status."""

import errno
import os
import re
import resource
import subprocess
import sys

import pytest
import typer

import regard
from regard.cli import app, main
from regard.cli.texts import BETWEEN
from regard.errors import DataError

HEAVY = ("torch", "tokenizers", "matplotlib", "sacrebleu", "safetensors", "numpy")


def run_python(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *arguments], stderr=subprocess.PIPE, text=True, timeout=60, **options)


def error_line(capsys) -> str:
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err.rstrip("\n")


# --- light --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import regard",
        "import regard.config.settings, regard.config.recipes, regard.errors, regard.cli",
        "from regard.cli import main; main(['--help'])",
        *(f"from regard.cli import main; main([{name!r}, '--help'])" for name in app.COMMANDS),
    ],
)
def test_asking_for_help_imports_nothing_heavy(code):
    check = f"{code}; import sys; sys.exit(', '.join({{*sys.modules}} & {{*{HEAVY!r}}}))"
    done = run_python("-c", check, stdout=subprocess.DEVNULL)
    assert done.stderr.strip() == ""


def test_help_takes_less_than_a_third_of_a_second():
    def processor_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run_python("-m", "regard", "--help", stdout=subprocess.DEVNULL).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # the processor's time, and the best of three: other processes are not our fault
    assert min(processor_seconds() for _ in range(3)) < 0.3


# --- help ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_command_in_80_columns(capsys, arguments):
    assert main(arguments) == 0
    out = capsys.readouterr().out
    for name in app.COMMANDS:
        assert f"\n  {name} " in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_has_its_own_help(capsys, name):
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Usage: regard {name}")
    assert len(out.splitlines()[2].strip()) > 10  # the docstring's first sentence


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"regard {regard.__version__}\n"


# --- failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["trian"], "regard: error: there is no command 'trian': did you mean 'regard train'?"),
        (["xyzzy"], "regard: error: there is no command 'xyzzy': see 'regard --help'"),
        (["steps", "--scor", "dot"], "see 'regard steps --help'"),
        (["steps", "extra"], "see 'regard steps --help'"),
        (["steps", "--query"], "see 'regard steps --help'"),
        (["steps", "--format", "xml"], "see 'regard steps --help'"),
        (["--verzion"], "see 'regard --help'"),
    ],
)
def test_a_wrong_call_is_one_line_and_status_2(capsys, arguments, line):
    assert main(arguments) == 2
    assert line in error_line(capsys)


@pytest.mark.parametrize(
    ("raised", "status", "line"),
    [
        (DataError("a.txt: line 3\nis bad"), 2, "regard: error: a.txt: line 3 is bad"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/out"),
            2,
            "regard: error: /out: no space left on device, 2.0 MB free: free some space, or choose another folder",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/out"),
            2,
            "regard: error: /out: permission denied: check who owns it, or choose another folder",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),  # such as stdout: whose disk is full is unknown
            2,
            "regard: error: no space left on device: free some space, or choose another folder",
        ),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 768 bytes."),
            2,
            "regard: error: not enough memory: choose a smaller model, smaller batches or shorter sentences",
        ),
        (KeyboardInterrupt(), 130, "regard: interrupted"),
        (
            ZeroDivisionError("by 0"),
            1,
            "regard: error: a fault in Regard, ZeroDivisionError: by 0: REGARD_DEBUG=1 shows where",
        ),
    ],
)
def test_what_a_command_raises_becomes_a_line_and_a_status(capsys, monkeypatch, raised, status, line):
    def steps() -> None:
        raise raised

    monkeypatch.setattr(app, "load_command", lambda name: steps)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 2 << 20}))
    assert main(["steps"]) == status
    assert error_line(capsys) == line


@pytest.mark.parametrize(("raised", "status"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_an_interrupted_program_does_not_wait_for_ctranslate2(monkeypatch, raised, status):
    def steps() -> None:
        raise raised

    left = []
    monkeypatch.setattr(app, "load_command", lambda name: steps)
    monkeypatch.setattr(os, "_exit", left.append)
    monkeypatch.setattr(sys, "argv", ["regard", "steps"])
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert main() == status
    assert left == [status]
    assert main(["steps"]) == status  # a program that calls it goes on
    assert left == [status]


def test_a_command_may_choose_its_status(monkeypatch):
    def steps() -> None:
        raise typer.Exit(1)

    monkeypatch.setattr(app, "load_command", lambda name: steps)
    assert main(["steps"]) == 1


@pytest.mark.parametrize("raised", [DataError("x"), KeyboardInterrupt(), ZeroDivisionError()])
def test_debugging_lets_the_error_through(monkeypatch, raised):
    def steps() -> None:
        raise raised

    monkeypatch.setattr(app, "load_command", lambda name: steps)
    monkeypatch.setenv("REGARD_DEBUG", "1")
    with pytest.raises(type(raised)):
        main(["steps"])


# what a command may do: write at once, or leave the writing to the end
WRITERS = {
    "flushed": "import sys; from regard.cli import main; sys.exit(main(['steps']))",
    "buffered": (
        "import sys; from regard.cli import app; app.load_command = lambda name: lambda: print('x'); "
        "sys.exit(app.main(['steps']))"
    ),
}


@pytest.mark.parametrize("code", WRITERS.values(), ids=WRITERS)
def test_a_reader_that_left_is_no_error(code):
    reader, writer = os.pipe()
    os.close(reader)
    done = run_python("-c", code, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("code", WRITERS.values(), ids=WRITERS)
def test_a_full_disk_behind_stdout_is_one_line(code):
    with open("/dev/full", "w") as full:
        done = run_python("-c", code, stdout=full)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no space left" in done.stderr


# --- options of one or two words ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "understood"),
    [
        ("train r --train a b --out o", "train r --train a+b --out o"),
        ("train r --train a.tsv --out o", "train r --train a.tsv --out o"),
        ("train r --train a b --valid c d", "train r --train a+b --valid c+d"),
        ("train r --train a --train b", "train r --train a --train b"),
        ("train --train a b r", "train --train a+b r"),
        ("train r --set x=1 --train a b", "train r --set x=1 --train a+b"),
        ("train r --train=a b --valid=c", "train r --train a+b --valid c"),
        ("train r --train a b --train c d --mix 3,1", "train r --train a+b --train c+d --mix 3,1"),
        ("train r --train a.tsv --train c d", "train r --train a.tsv --train c+d"),
        ("train r --train", "train r --train"),
        ("train r --train --out o", "train r --train --out o"),
    ],
)
def test_one_or_two_words_after_an_option(typed, understood):
    joined = app.join_pair_options(typed.split(), ("--train", "--valid"))
    assert [word.replace(BETWEEN, "+") for word in joined] == understood.split()


# --- the public door ----------------------------------------------------------------------------------


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = regard.trian


def test_the_door_lists_its_names():
    assert set(regard.__all__) <= set(dir(regard))


def test_the_typed_names_are_the_lazy_names():
    for name in regard.__all__:
        assert getattr(regard, name) is not None


def test_help_names_values_as_users_do(capsys):
    for command in app.COMMANDS:
        assert main([command, "--help"]) == 0
        out = capsys.readouterr().out
        usage, _, rest = out.partition("\n")
        assert not re.search(r"[{}]", usage), command
        assert not re.search(r"<(list|str|int|float|path|Path)\b", rest), command
        assert "Example:" not in rest, command  # examples are blocks, whose lines are never wrapped
    assert main(["look", "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: regard look [OPTIONS] MODEL [SENTENCE]...\n")
    assert "\n  --layer N " in out
    assert "\n  -o, --output PATH " in out
    assert "\n  --format text|json " in out
    assert main(["look"]) == 2
    assert "missing argument 'MODEL'" in capsys.readouterr().err

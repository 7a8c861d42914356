"""The table of commands, and the one place where errors become a line and an exit status.

The convention for a command `name` (the example is `steps`):

* the file is `regard/cli/name.py`, and a row of COMMANDS below names it with its line of help;
* the file holds a function `name`, whose parameters are typed in typer's manner:
  `query: Annotated[str, typer.Option(help="...")] = "10,5,10"`. The first paragraph of its docstring is the
  first thing that `regard name --help` shows;
* the file and the function of `import`, a word that Python keeps for itself, are `import_`;
* only the file of the command that was asked for is imported, and it imports torch, tokenizers and matplotlib
  inside its functions, so that `regard name --help` stays quick too;
* results go to stdout, progress and remarks to stderr;
* a user's mistake raises a RegardError, and the command catches and prints nothing: `main` turns RegardError,
  OSError, usage errors, Ctrl-C and a closed pipe into one line and a status. For another status,
  `raise typer.Exit(1)`.
"""

import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword
from pathlib import Path

import typer
import typer.main

from regard import __version__
from regard.cli.command_help import Command
from regard.cli.streams import closed_streams, open_closed_streams, plain_warnings
from regard.cli.texts import BETWEEN
from regard.errors import RegardError
from regard.process import limit_openmp_spinning

# command -> its line in `regard --help`; in the order of use
COMMANDS = {
    "quickstart": "Train, translate, score and look, in about four minutes, with nothing to download.",
    "train": "Train a model from a recipe, or resume a training.",
    "translate": "Translate lines from stdin or files.",
    "evaluate": "BLEU, chrF, TER, alignment error rate; accuracy of a classifier.",
    "score": "Log-probability and perplexity of given pairs.",
    "align": "Word alignment of parallel text, without a model.",
    "shortlist": "Add a lexical shortlist to a model, for faster translation.",
    "look": "Draw the attention of a sentence or an image.",
    "compare": "Train recipes under the same budget, and compare them with trained models in one report.",
    "gradients": "How far the gradient of the loss reaches back into the source, by architecture.",
    "serve": "Serve models over HTTP: a web page that shows attention, and LibreTranslate's API.",
    "steps": "The arithmetic of attention for small vectors, step by step.",
    "diagram": "Draw a model, unrolled over a short sentence.",
    "info": "Describe a model folder, or the machine.",
    "import": "Import a Hugging Face Marian model as a model folder.",
    "export": "Export a model to Hugging Face, CTranslate2, ONNX or compact weights, or its word vectors.",
    "settings": "List the settings of recipes, with defaults and meanings.",
    "models": "List the installed models.",
    "architectures": "List the architectures, with their papers.",
    "recipes": "List the recipes, with their papers and published scores.",
}
# commands that share a file with another one; all others live in the file of their own name
SHARED_FILES = {"architectures": "recipes"}
# options of type list[str] that take one or two words: `--train corpus.tsv`, `--train corpus.de corpus.en`
PAIR_OPTIONS = {
    "train": ("--train", "--valid", "--back-translated", "--languages"),
    "shortlist": ("--train",),
    "align": ("--train",),
    "compare": ("--train", "--valid", "--test"),
    "gradients": ("--test",),
}
# options whose value may be left out, as in `--ray`, with how a value looks: a model folder is none
OPTIONAL_VALUES = {"translate": {"--ray": re.compile(r"local|auto|.*:.*")}}

EXIT_FAULT = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
INTERRUPTED = (EXIT_INTERRUPTED, 128 + signal.SIGTERM)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status; a traceback only when REGARD_DEBUG=1."""
    whole_process = arguments is None
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    open_closed_streams()
    limit_openmp_spinning()
    with plain_warnings():
        try:
            status = _guarded(arguments)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else EXIT_FAULT
    if whole_process and status in INTERRUPTED and "ctranslate2" in sys.modules:
        # at the interpreter's end CTranslate2 would finish the batches that it has begun, which may take minutes
        _forget_unwritten_output()
        sys.stderr.flush()
        os._exit(status)
    return status


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """SIGTERM as SystemExit, so that half-written files are removed; training and server have their own handlers."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    status, ended = 128 + signal.SIGTERM, False

    def end(_number: int, _frame: object) -> None:
        nonlocal ended
        ended = True
        raise SystemExit(status)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    except Exception as error:
        if ended:  # a library took the exit for an error of its own: an import, say, for a missing package
            raise SystemExit(status) from error
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _guarded(arguments: list[str]) -> int:
    if os.environ.get("REGARD_DEBUG") == "1":
        return _run(arguments)
    try:
        with _ending_on_sigterm():
            return _run(arguments)
    except RegardError as error:
        return _fail(str(error))
    except typer.TyperException as error:
        return _fail(_usage_message(error, arguments))
    except (KeyboardInterrupt, typer.Abort):
        print("regard: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _forget_unwritten_output()  # the reader closed the pipe (`regard ... | head`): no error
        return 0
    except OSError as error:
        _forget_unwritten_output()
        return _fail(_system_message(error))
    except Exception as error:
        if is_out_of_memory(error):
            return _fail("not enough memory: choose a smaller model, smaller batches or shorter sentences")
        # a bug in Regard, not a mistake of the user: say so, and how to report it
        fault = f"{type(error).__name__}: {error}"
        return _fail(f"a fault in Regard, {fault}: REGARD_DEBUG=1 shows where", EXIT_FAULT)


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, in Python or in torch."""
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(w in str(error) for w in words))


def build_app(wanted: str | None) -> typer.Typer:
    """The application with the wanted command imported and all others as a line of help."""
    # Plain help: rich's panels would double the time of --help.
    app = typer.Typer(
        name="regard",
        no_args_is_help=False,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_root)
    for name, line in COMMANDS.items():
        app.command(name, short_help=line, cls=Command)(load_command(name) if name == wanted else _not_loaded)
    return app


def _run(arguments: list[str]) -> int:
    wanted = _command_word(arguments)
    arguments = join_pair_options(arguments, PAIR_OPTIONS.get(wanted or "", ()))
    arguments = fill_optional_values(arguments, OPTIONAL_VALUES.get(wanted or "", {}))
    command = typer.main.get_command(build_app(wanted))
    status = 0
    # Not command.main(): it handles Ctrl-C and closed pipes itself.
    try:
        with command.make_context("regard", arguments) as context:
            command.invoke(context)
    except typer.Exit as wish:
        status = wish.exit_code
    sys.stdout.flush()  # here, so that a closed pipe or a full disk is still ours to report
    return status


def join_pair_options(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """The arguments with the two words of `--train a b` as one, which is what typer understands: see `word_groups`."""
    joined: list[str] = []
    for word in _split_equals(arguments, options):
        # the option two places back has its first word already, so this may be its second
        has_one = len(joined) > 1 and joined[-2] in options and BETWEEN not in joined[-1]
        if has_one and not joined[-1].startswith("-") and not word.startswith("-"):
            joined[-1] += BETWEEN + word
        else:
            joined.append(word)
    return joined


def fill_optional_values(arguments: Sequence[str], options: Mapping[str, re.Pattern[str]]) -> list[str]:
    """The arguments with a bare `--ray` written as `--ray=`, since typer knows no options with an optional value."""
    filled: list[str] = []
    for place, word in enumerate(arguments):
        after = arguments[place + 1] if place + 1 < len(arguments) else ""
        bare = word in options and (after.startswith("-") or not options[word].fullmatch(after))
        filled.append(f"{word}=" if bare else word)
    return filled


def _split_equals(arguments: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """The arguments with `--train=a` as two words."""
    for word in arguments:
        option, equals, value = word.partition("=")
        yield from (option, value) if equals and option in options else (word,)


def _command_word(arguments: Sequence[str]) -> str | None:
    # No option of the root takes a value, so the first word is the command.
    return next((word for word in arguments if not word.startswith("-")), None)


def load_command(name: str) -> Callable[..., None]:
    """The function of a command."""
    spelling = f"{name}_" if iskeyword(name) else name
    module = import_module(f"regard.cli.{SHARED_FILES.get(name, spelling)}")
    command: Callable[..., None] = getattr(module, spelling)
    return command


def _not_loaded() -> None:
    raise AssertionError("only the wanted command is ever called")


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"regard {__version__}")
        raise typer.Exit()


def _root(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
    ),
) -> None:
    """Train, translate with, and look inside attention models.

    Start with `regard quickstart`, or `regard COMMAND --help`.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _usage_message(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """One line: what is wrong, the nearest name if a command is mistyped, and where the help is."""
    command = _command_word(arguments)
    if command is not None and command not in COMMANDS:
        nearest = get_close_matches(command, COMMANDS, n=1)
        remedy = f"did you mean 'regard {nearest[0]}'?" if nearest else "see 'regard --help'"
        return f"there is no command '{command}': {remedy}"
    help_call = f"regard {command} --help" if command else "regard --help"
    message = " ".join(error.format_message().split()).rstrip(".")
    extra = re.fullmatch(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", message)
    given = [option for option in PAIR_OPTIONS.get(command or "", ()) if option in arguments]
    if extra and given:
        unclear = f"whether this belongs to {given[0]}"
        if len(given) > 1:
            unclear = f"which of {' and '.join(given)} this belongs to"
        remedy = "write one file, or a source and a target, after each"
        return f"{extra[1]}: it is not clear {unclear}: {remedy}: see '{help_call}'"
    return f"{message[:1].lower()}{message[1:]}: see '{help_call}'"


def _system_message(error: OSError) -> str:
    if error.errno == errno.EBADF and (closed := closed_streams()):
        return f"{' and '.join(closed)} {'is' if len(closed) == 1 else 'are'} closed: redirect to a file, or leave open"
    from regard.storage.files import reason

    why = reason(error, Path(error.filename) if error.filename else None)
    where = f"{error.filename}: " if error.filename else ""
    remedies = {
        errno.ENOSPC: "free some space, or choose another folder",
        errno.EDQUOT: "free some space, or choose another folder",
        errno.EACCES: "check who owns it, or choose another folder",
        errno.EROFS: "choose another folder",
        errno.ENOENT: "check the path",
        errno.EISDIR: "give a file",
        errno.EAGAIN: "wait for it, or choose another file",
    }
    remedy = remedies.get(error.errno or 0)
    return f"{where}{why}" + (f": {remedy}" if remedy else "")


def _fail(message: str, status: int = EXIT_USER_ERROR) -> int:
    # A message stays one line, whatever a file name or a value in it holds.
    print(f"regard: error: {' '.join(message.split())}", file=sys.stderr)
    return status


def _forget_unwritten_output() -> None:
    """Discard unwritten output; otherwise Python reports the error again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

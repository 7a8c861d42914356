"""What each toolkit has learned after the same minutes: BLEU of Regard's `fast`, OpenNMT-py and Hugging Face.

    python benchmarks/budget.py --data DIR --minutes 10

DIR is as for recurrent.py. Each peer trains twice: a model as its users begin with (config A, 8,000 pieces, its usual
schedule), and one with the pieces and about the size of `fast` and a learning rate that falls towards zero as the
minutes run out. Minutes are those of the training process (of Hugging Face's loop, whose process also translates); beam
5, sacrebleu's defaults.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if not __package__:
    # started as a script: `benchmarks` is a package all the same
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks import huggingface_side, opennmt
from benchmarks.benchmark import beside_peers, bleu, say
from benchmarks.peer_environment import PeerEnvironment
from benchmarks.process import AfterAWhile, environment, run
from benchmarks.side import BatchSize
from benchmarks.text import SPECIAL, Text, copy_raw, cut_into_pieces
from regard.config.settings import TextSettings
from regard.data.text.tokenizer import Tokenizer

BATCH = BatchSize("1,024 tokens", None, 1024, 50)
PIECES = {"usual": 8000, "small": 3000}
PROBE_MINUTES = 0.5
START_UP_SECONDS = 15

# As `fast`: a GRU of 320 that reads both ways, additive attention, vectors of 256, dropout 0.1.
SMALL_RECURRENT: dict[str, Any] = {
    **opennmt.RECURRENT,
    "hidden_size": 320,
    "word_vec_size": 256,
    "learning_rate": 0.003,
}
SMALL_TRANSFORMER = {
    "d_model": 160,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 320,
    "decoder_ffn_dim": 320,
}
_STEP = re.compile(r"Step\s+(\d+)/.*?(\d+) sec")


@dataclass(frozen=True)
class Learned:
    """What came of a training."""

    side: str
    minutes: float
    updates: int
    bleu: float


class Budget:
    """One run of the command."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.languages = (options.source, options.target)
        self.texts: dict[str, tuple[Text, Tokenizer]] = {}
        self.variables = environment(options.threads, "tuned")

    def prepare(self) -> None:
        """The text in pieces of both sizes."""
        for name, size in PIECES.items():
            folder = self.options.work / f"text-{size}"
            copy_raw(self.options.data, folder, self.languages, self.options.test, None)
            raw = [folder / f"raw.train.{language}" for language in self.languages]
            lines = [line for path in raw for line in path.read_text("utf-8").splitlines()]
            tokenizer = Tokenizer.train(lines, TextSettings(vocabulary_size=size, joint=True))
            self.texts[name] = cut_into_pieces(folder, self.languages, tokenizer), tokenizer

    def regard(self, folder: Path) -> Learned:
        """`fast` on the raw text."""
        text, _ = self.texts["small"]
        files = [part for language in self.languages for part in ("--train", text.raw("train", language))]
        train: list[str | Path] = [sys.executable, "-m", "regard", "train", "fast", *files, "--out", folder / "model"]
        train += ["--set", f"training.budget={60 * self.options.minutes - START_UP_SECONDS:.0f}s"]
        finished = run(train, folder, environment(self.options.threads, "default"), folder / "train.txt")
        output = folder / "output.txt"
        source = text.raw("test", text.source)
        translate: list[str | Path] = [sys.executable, "-m", "regard", "translate", folder / "model", "-i", source]
        run([*translate, "-o", output, "--beam", "5"], folder, self.variables, folder / "translate.txt")
        updates = json.loads((folder / "model" / "metrics.json").read_text("utf-8"))["updates"]
        return Learned("Regard fast", finished.seconds / 60, updates, bleu(output, text.raw("test", text.target)))

    def opennmt_usual(self, folder: Path) -> Learned:
        """Config A with Noam's schedule."""
        return self._opennmt(folder, "OpenNMT-py, config A, its usual schedule", "usual", opennmt.TRANSFORMER, False)

    def opennmt_small(self, folder: Path) -> Learned:
        """A small recurrent model; of its ways to lower the rate, halving it step by step ends nearest to zero."""
        return self._opennmt(folder, "OpenNMT-py, small, rate decays", "small", SMALL_RECURRENT, True)

    def _opennmt(self, folder: Path, name: str, pieces: str, model: dict[str, Any], decay: bool) -> Learned:
        peer = self._environment("opennmt-environment", opennmt.RECIPE)
        text, tokenizer = self.texts[pieces]
        kind = "transformer" if pieces == "usual" else "recurrent"
        variables = self.variables | opennmt.TRUST
        path = folder / "config.yaml"

        def train(updates: int, more: dict[str, Any], stop: AfterAWhile | None) -> Any:
            settings = opennmt.config(kind, text, BATCH, updates, folder) | model | more
            path.write_text(json.dumps(settings, indent=1), "utf-8")  # JSON is YAML
            command: list[str | Path] = [peer.python, "-m", "onmt.bin.train", "-config", path]
            return run(command, folder, variables, folder / "train.txt", stop)

        probe = train(100_000, {}, AfterAWhile(PROBE_MINUTES, lambda line: _STEP.search(line) is not None))
        steps = [(int(match[1]), int(match[2])) for match in map(_STEP.search, probe.lines) if match]
        pace = (steps[-1][0] - steps[0][0]) / (steps[-1][1] - steps[0][1])
        start_up = probe.seconds - steps[-1][1]
        updates = int(pace * (60 * self.options.minutes - start_up))
        halving = {"learning_rate_decay": 0.5, "start_decay_steps": updates // 3, "decay_steps": updates // 9}
        finished = train(updates, halving if decay else {}, None)
        output = folder / "pieces.txt"
        command: list[str | Path] = [peer.python, "-m", "onmt.bin.translate", "-beam_size", "5", "-batch_size", "32"]
        command += ["-model", folder / f"model_step_{updates}.pt", "-max_length", "100"]
        command += ["-src", text.pieces("test", text.source), "-output", output]
        run(command, folder, variables, folder / "translate.txt")
        return Learned(name, finished.seconds / 60, updates, piece_bleu(output, text, tokenizer))

    def huggingface_usual(self, folder: Path) -> Learned:
        """Config A with the linear schedule of its Trainer."""
        return self._huggingface(folder, "Hugging Face MarianMT, config A, linear decay", "usual", {}, 1e-3)

    def huggingface_small(self, folder: Path) -> Learned:
        """A small Transformer."""
        name = "Hugging Face MarianMT, small, linear decay"
        return self._huggingface(folder, name, "small", SMALL_TRANSFORMER, 2e-3)

    def _huggingface(self, folder: Path, name: str, pieces: str, model: dict[str, Any], rate: float) -> Learned:
        peer = self._environment("huggingface-environment", huggingface_side.RECIPE)
        text, tokenizer = self.texts[pieces]
        settings = huggingface_side.config(text, BATCH)
        output = folder / "pieces.txt"
        test, seconds = text.pieces("test", text.source), 60 * self.options.minutes - START_UP_SECONDS
        settings |= {"learning_rate": rate, "seconds": seconds, "warmup": 300, "test": str(test), "output": str(output)}
        settings["model"] |= model
        (folder / "config.json").write_text(json.dumps(settings, indent=1), "utf-8")
        script = Path(__file__).with_name("train_with_huggingface.py")
        finished = run(
            [peer.python, "-P", script, folder / "config.json"], folder, self.variables, folder / "train.txt"
        )
        result = json.loads(finished.lines[-1])
        return Learned(name, result["seconds"] / 60, result["updates"], piece_bleu(output, text, tokenizer))

    def _environment(self, name: str, recipe: Any) -> PeerEnvironment:
        peer = PeerEnvironment(self.options.work / name, recipe, self.options.torch_index)
        peer.set_up()
        return peer


def piece_bleu(output: Path, text: Text, tokenizer: Tokenizer) -> float:
    """sacrebleu's default of translations in pieces, after they are put together."""
    numbers = {
        piece: number for number, piece in enumerate(text.vocabulary_file.read_text("utf-8").split("\n"), SPECIAL)
    }
    lines = output.read_text("utf-8").split("\n")[:-1]
    ids = ([numbers[piece] for piece in line.split() if piece in numbers] for line in lines)
    whole = output.with_suffix(".raw")
    whole.write_text("".join(f"{tokenizer.decode(sentence)}\n" for sentence in ids), "utf-8")
    return bleu(whole, text.raw("test", text.target))


def table(learned: list[Learned]) -> str:
    """Markdown."""
    rows = ["| side | BLEU (13a) | minutes | updates |", "|---|---|---|---|"]
    rows += [f"| {each.side} | {each.bleu:.1f} | {each.minutes:.1f} | {each.updates:,} |" for each in learned]
    return "\n".join(rows)


def main(arguments: list[str]) -> None:
    """Train one side after the other, and print the table as it grows."""
    parser = beside_peers(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of each training (10)")
    sides = "regard,opennmt_usual,opennmt_small,huggingface_usual,huggingface_small"
    parser.add_argument("--sides", default=sides, help=f"which to train ({sides})")
    options = parser.parse_args(arguments)
    options.work, options.data = options.work.resolve(), options.data.resolve()
    budget = Budget(options)
    budget.prepare()
    learned: list[Learned] = []
    for side in options.sides.split(","):
        train: Callable[[Path], Learned] = getattr(budget, side)
        folder = options.work / "budget" / f"{side}-{time.strftime('%H%M%S')}"
        folder.mkdir(parents=True)
        say(f"training {side} for {options.minutes:g} minutes")
        learned.append(train(folder))
        figures = json.dumps([asdict(each) for each in learned], indent=1)
        (options.work / "budget.json").write_text(figures + "\n", "utf-8")
        print(table(learned), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

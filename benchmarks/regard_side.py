"""Regard by its own commands: `regard train`, `regard shortlist`, and the Translator that `regard translate` uses."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from benchmarks.cost import (
    DIRECTION,
    EMBEDDING,
    FEEDFORWARD,
    HEADS,
    HIDDEN,
    LAYERS,
    WIDTH,
    bahdanau,
    input_feeding,
    transformer,
)
from benchmarks.process import AfterAWhile, Finished, environment, run
from benchmarks.side import BatchSize, Job, Setting, Translated
from benchmarks.text import Text

# Attention after the step, fed to the next one: the equations that the peers compute.
LUONG = f"""
kind = "luong"
cell = "gru"
layers = 1
hidden_size = {HIDDEN}
bidirectional = true
reverse_source = false
score = "additive"
attention_size = {HIDDEN}
input_feeding = true
embedding_size = {EMBEDDING}
"""
# The paper's: attention before the step, deep output; as wide before the softmax as the peers.
BAHDANAU = f"""
kind = "bahdanau"
encoder_size = {DIRECTION}
hidden_size = {HIDDEN}
attention_size = {HIDDEN}
maxout_size = {HIDDEN}
embedding_size = {EMBEDDING}
"""
TRANSFORMER = f"""
kind = "transformer"
hidden_size = {WIDTH}
encoder_layers = {LAYERS}
decoder_layers = {LAYERS}
heads = {HEADS}
feedforward_size = {FEEDFORWARD}
norm = "post"
tie_embeddings = "all"
"""
MODELS = {"luong": (LUONG, input_feeding), "bahdanau": (BAHDANAU, bahdanau), "transformer": (TRANSFORMER, transformer)}

# A post-norm Transformer does not learn without a warm-up.
CONSTANT = 'schedule = "constant"\nwarmup = 0'
SCHEDULES = {"transformer": 'schedule = "inverse_sqrt"\nwarmup = 200'}

DROPOUT = {"luong": 0.2, "bahdanau": 0.2, "transformer": 0.1}
_RECURRENT = 'learning_rate = 2e-3\nbetas = [0.9, 0.999]\nschedule = "cosine"\nwarmup = 300'
LEARNING = {
    "luong": _RECURRENT,
    "bahdanau": _RECURRENT,
    "transformer": 'learning_rate = 1.5e-3\nschedule = "linear"\nwarmup = 500',
}

_PROGRESS = re.compile(r"^update \d+")


class Regard:
    """One of the models; with options of `regard translate` it only translates, by the weights of the plain one."""

    own_batches = True

    def __init__(
        self, kind: str, vocabulary: int, *options: str, translates: bool = True, precision: str = "auto"
    ) -> None:
        self.kind = kind
        self.precision = precision
        self.translation_allocators: tuple[str, ...] = ("default",) if translates else ()  # it tunes malloc itself
        self.shortlist = "shortlist" in options
        self.options = options
        named = [] if precision == "auto" else [precision]
        self.name = ", ".join([f"Regard {kind}", *(option.replace("=", " ") for option in options), *named])
        self.borrows = f"Regard {kind}" if self.options else None
        self.allocators: tuple[str, ...] = () if self.options else ("default",)
        self.cost = MODELS[kind][1](vocabulary)

    def set_up(self) -> None:
        """This checkout, with the Python that runs the benchmark."""

    def train(self, text: Text, batch: BatchSize, minutes: float, setting: Setting) -> tuple[list[float], Finished]:
        """Speeds from log.jsonl."""
        stop = AfterAWhile(minutes, lambda line: _PROGRESS.search(line) is not None)
        finished = self.run_training(
            text.folder, (text.source, text.target), recipe(self.kind, batch, precision=self.precision), setting, stop
        )
        return speeds((setting.folder / "model" / "log.jsonl").read_text("utf-8"))[1:], finished

    def make_model(self, text: Text, epochs: float, lender: Path, setting: Setting) -> int:
        """A model folder."""
        if self.options:
            self._borrow(text, lender, setting)
        else:
            learned = translation_recipe(self.kind, epochs)
            self.run_training(text.folder, (text.source, text.target), learned, setting, None)
        metrics = json.loads((setting.folder / "model" / "metrics.json").read_text("utf-8"))
        return int(metrics["parameters"])

    def translate(self, text: Text, job: Job, model: Path, setting: Setting) -> Translated:
        """Seconds from text to text, cutting into pieces and joining them included."""
        source, output = text.raw("test", text.source), setting.folder / "output.txt"
        if job.whole_process:
            return self._translate_by_command(source, output, job, model, setting)
        driver = Path(__file__).with_name("translate_with_regard.py")
        command: list[str | Path] = [sys.executable, driver, model / "model", source]
        command += [str(job.beam), str(job.batch or 0), str(job.sentences or 0), output, *self.options]
        variables = environment(setting.threads, setting.allocator)
        finished = run(command, setting.folder, variables, setting.folder / "log.txt")
        result = json.loads(finished.lines[-1])
        return Translated(result["sentences"], result["seconds"], result["tokens"], finished, output)

    def _translate_by_command(self, source: Path, output: Path, job: Job, model: Path, setting: Setting) -> Translated:
        """`regard translate` itself, with the time of its process."""
        lines = source.read_text("utf-8").split("\n")[: job.sentences]
        given = setting.folder / "source.txt"
        given.write_text("\n".join(lines) + "\n", "utf-8")
        command: list[str | Path] = [sys.executable, "-m", "regard", "translate", model / "model", "-i", given]
        command += ["-o", output, "--beam", str(job.beam), "--threads", str(setting.threads), "--format", "json"]
        variables = environment(setting.threads, setting.allocator)
        command += ["--float32" if option == "int8=false" else f"--{option}" for option in self.options]
        finished = run(command, setting.folder, variables, setting.folder / "log")
        written = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
        return Translated(len(lines), finished.seconds, sum(len(each["tokens"]) for each in written), finished)

    def _borrow(self, text: Text, lender: Path, setting: Setting) -> None:
        """A copy of the lender's model, with a shortlist if it is to have one."""
        folder = setting.folder / "model"
        shutil.copytree(lender / "model", folder, ignore=shutil.ignore_patterns("training"))
        if not self.shortlist:
            return
        command: list[str | Path] = [sys.executable, "-m", "regard", "shortlist", folder]
        command += [part for side in (text.source, text.target) for part in ("--train", text.raw("train", side))]
        variables = environment(setting.threads, setting.allocator)
        run(command, setting.folder, variables, setting.folder / "log.txt")

    def run_training(
        self,
        text: Path,
        languages: tuple[str, str],
        recipe: str,
        setting: Setting,
        stop: AfterAWhile | None,
    ) -> Finished:
        """`regard train` on the raw text, from which it learns its pieces by itself."""
        path = setting.folder / "recipe.toml"
        path.write_text(recipe, "utf-8")
        files = ["--train", *(text / f"raw.train.{language}" for language in languages)]
        files += ["--valid", *(text / f"raw.val.{language}" for language in languages)]
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "regard",
            "train",
            path,
            *files,
            "--out",
            setting.folder / "model",
        ]
        variables = environment(setting.threads, setting.allocator)
        return run(command, setting.folder, variables, setting.folder / "log.txt", stop)


def recipe(kind: str, batch: BatchSize, updates: int = 1_000_000, precision: str = "auto") -> str:
    """Config A or B as a recipe, to measure its speed: no validation falls into the measured minutes."""
    if batch.sentences is not None:
        # the longest sentence has 128 tokens: sentences alone bound the batch
        size = f"batch_sentences = {batch.sentences}\nbatch_tokens = {128 * batch.sentences}"
    else:
        size = f"batch_tokens = {batch.tokens}"
    return f"""
[model]{MODELS[kind][0]}dropout = 0.1

[text]
vocabulary_size = 8000
joint = true

[training]
updates = {updates}
precision = "{precision}"
{size}
learning_rate = 1e-3
{SCHEDULES.get(kind, CONSTANT)}
label_smoothing = 0.1
clip_norm = 1.0
log_every = {batch.log_every}
save_every = 1000
validate_every = 1000000
"""


def translation_recipe(kind: str, epochs: float) -> str:
    """Config A or B as a recipe, to translate with: small batches and a learning rate that falls to zero."""
    return f"""
[model]{MODELS[kind][0]}dropout = {DROPOUT[kind]}

[text]
vocabulary_size = 8000
joint = true

[training]
epochs = {epochs}
batch_tokens = 1024
{LEARNING[kind]}
"""


def speeds(log: str) -> list[float]:
    """Target tokens per second of each stretch of the log."""
    records = [json.loads(line) for line in log.splitlines()]
    return [record["tokens_per_second"] for record in records if record["event"] == "update"]

"""Regard by its own commands: `regard train`, and the Translator that `regard translate` uses."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from benchmarks.cost import DIRECTION, EMBEDDING, HIDDEN, bahdanau, input_feeding
from benchmarks.process import AfterAWhile, Finished, environment, run
from benchmarks.side import BATCHES, BatchSize, Job, Setting, Translated
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
"""
# The paper's: attention before the step, deep output; as wide before the softmax as the peers.
BAHDANAU = f"""
kind = "bahdanau"
encoder_size = {DIRECTION}
hidden_size = {HIDDEN}
attention_size = {HIDDEN}
maxout_size = {HIDDEN}
"""
MODELS = {"luong": (LUONG, input_feeding), "bahdanau": (BAHDANAU, bahdanau)}

_PROGRESS = re.compile(r"^update \d+")


class Regard:
    """One of the models of config B's size."""

    allocators: tuple[str, ...] = ("default",)  # it tunes the allocator itself
    own_batches = True

    def __init__(self, kind: str, vocabulary: int) -> None:
        self.kind = kind
        self.name = f"Regard {kind}"
        self.cost = MODELS[kind][1](vocabulary)

    def set_up(self) -> None:
        """This checkout, with the Python that runs the benchmark."""

    def train(self, text: Text, batch: BatchSize, minutes: float, setting: Setting) -> tuple[list[float], Finished]:
        """Speeds from log.jsonl."""
        stop = AfterAWhile(minutes, lambda line: _PROGRESS.search(line) is not None)
        finished = self.run_training(text.folder, (text.source, text.target), batch, 1_000_000, setting, stop)
        return speeds((setting.folder / "model" / "log.jsonl").read_text("utf-8"))[1:], finished

    def train_model(self, text: Text, updates: int, setting: Setting) -> int:
        """A model folder."""
        self.run_training(text.folder, (text.source, text.target), BATCHES[0], updates, setting, None)
        metrics = json.loads((setting.folder / "model" / "metrics.json").read_text("utf-8"))
        return int(metrics["parameters"])

    def translate(self, text: Text, job: Job, model: Path, setting: Setting) -> Translated:
        """Seconds from text to text, cutting into pieces and joining them included."""
        driver = Path(__file__).with_name("translate_with_regard.py")
        batch = 0 if job.batch is None else job.batch
        command: list[str | Path] = [sys.executable, driver, model / "model", text.raw("test", text.source)]
        command += [str(job.beam), str(batch), str(job.sentences or 0), setting.folder / "output.txt"]
        variables = environment(setting.threads, setting.allocator)
        finished = run(command, setting.folder, variables, setting.folder / "log.txt")
        result = json.loads(finished.lines[-1])
        return Translated(result["sentences"], result["seconds"], result["tokens"], finished.peak_megabytes)

    def run_training(
        self,
        text: Path,
        languages: tuple[str, str],
        batch: BatchSize,
        updates: int,
        setting: Setting,
        stop: AfterAWhile | None,
    ) -> Finished:
        """`regard train` on the raw text, from which it learns its pieces by itself."""
        path = setting.folder / "recipe.toml"
        path.write_text(recipe(self.kind, batch, updates), "utf-8")
        files = [part for language in languages for part in ("--train", text / f"raw.train.{language}")]
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


def recipe(kind: str, batch: BatchSize, updates: int) -> str:
    """Config B as a recipe."""
    if batch.sentences is not None:
        # the longest sentence has 128 tokens: sentences alone bound the batch
        size = f"batch_sentences = {batch.sentences}\nbatch_tokens = {128 * batch.sentences}"
    else:
        size = f"batch_tokens = {batch.tokens}"
    return f"""
[model]{MODELS[kind][0]}embedding_size = {EMBEDDING}
dropout = 0.1

[text]
vocabulary_size = 8000
joint = true

[training]
updates = {updates}
{size}
learning_rate = 1e-3
schedule = "constant"
warmup = 0
label_smoothing = 0.1
clip_norm = 1.0
log_every = {batch.log_every}
save_every = 1000
"""


def speeds(log: str) -> list[float]:
    """Target tokens per second of each stretch of the log."""
    records = [json.loads(line) for line in log.splitlines()]
    return [record["tokens_per_second"] for record in records if record["event"] == "update"]

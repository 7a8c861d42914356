"""Hugging Face transformers: MarianMT with a plain training loop, and `generate` with Regard's weights."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.cost import FEEDFORWARD, HEADS, LAYERS, WIDTH, transformer
from benchmarks.peer_environment import PeerEnvironment, Recipe
from benchmarks.process import AfterAWhile, Finished, environment, run
from benchmarks.same_weights import Driver
from benchmarks.side import BatchSize, Job, Setting, Translated, Tried
from benchmarks.text import Text

RECIPE = Recipe(
    "transformers==5.22.2",
    ("huggingface_hub", "numpy", "packaging", "pyyaml", "regex", "safetensors", "tokenizers==0.23.3", "tqdm", "typer"),
)
BATCHES = (32, 64, 128)

_PROGRESS = re.compile(r"^update \d+: ([\d.]+) tok/s")


class HuggingFace:
    """Config A; Marian normalises after each sub-layer, as the paper does."""

    name = "Hugging Face MarianMT 5.22"
    borrows: str | None = "Regard transformer"
    shortlist = False
    own_batches = True
    allocators: tuple[str, ...] = ("default", "tuned")
    translation_allocators: tuple[str, ...] = ("best",)

    def __init__(self, folder: Path, vocabulary: int, torch_index: str | None, precision: str = "float32") -> None:
        if precision != "float32":
            self.name, self.translation_allocators = f"{self.name}, {precision}", ()
        self.precision = precision
        self.cost = transformer(vocabulary)
        self.environment = PeerEnvironment(folder, RECIPE, torch_index)
        self.driver = Driver(self.environment, "translate_with_huggingface.py")

    def set_up(self) -> None:
        """Install it into its environment."""
        self.environment.set_up()

    def train(self, text: Text, batch: BatchSize, minutes: float, setting: Setting) -> tuple[list[float], Finished]:
        """Speeds as the loop prints them."""
        path = setting.folder / "config.json"
        path.write_text(json.dumps({**config(text, batch), "precision": self.precision}, indent=1), "utf-8")
        script = Path(__file__).with_name("train_with_huggingface.py")
        stop = AfterAWhile(minutes, lambda line: _PROGRESS.search(line) is not None)
        command: list[str | Path] = [self.environment.python, "-P", script, path]
        variables = environment(setting.threads, setting.allocator)
        finished = run(command, setting.folder, variables, setting.folder / "log.txt", stop)
        return speeds(finished.lines)[1:], finished

    def make_model(self, text: Text, epochs: float, lender: Path, setting: Setting) -> int:
        """An export of the lender's."""
        self.driver.export("huggingface", lender, setting)
        return int((lender / "parameters.txt").read_text("utf-8"))

    def tune(self, text: Text, job: Job, model: Path, setting: Setting) -> list[Tried]:
        """Size of batches, allocator."""
        settings = [{"batch": batch} for batch in ((1,) if job.batch == 1 else BATCHES)]
        return self.driver.tune(text, job, model, setting, settings)

    def translate(self, text: Text, job: Job, model: Path, setting: Setting) -> Translated:
        """At its best setting."""
        return self.driver.translate(text, job, model, setting)


def config(text: Text, batch: BatchSize) -> dict[str, Any]:
    """What the training loop needs to know; `model` is given to MarianConfig."""
    sides = {"encoder": LAYERS, "decoder": LAYERS}
    return {
        "source": str(text.pieces("train", text.source)),
        "target": str(text.pieces("train", text.target)),
        "pieces": str(text.vocabulary_file),
        "batch_sentences": batch.sentences,
        "batch_tokens": batch.tokens,
        "log_every": batch.log_every,
        "label_smoothing": 0.1,
        "learning_rate": 1e-3,
        "model": {
            "vocab_size": text.vocabulary,
            "d_model": WIDTH,
            **{f"{side}_layers": layers for side, layers in sides.items()},
            **{f"{side}_attention_heads": HEADS for side in sides},
            **{f"{side}_ffn_dim": FEEDFORWARD for side in sides},
            "activation_function": "relu",
            "dropout": 0.1,
            "scale_embedding": True,
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "decoder_start_token_id": 2,
            "forced_eos_token_id": None,
        },
    }


def speeds(lines: list[str]) -> list[float]:
    """Target tokens per second of each stretch of the log."""
    return [float(match[1]) for match in map(_PROGRESS.search, lines) if match]

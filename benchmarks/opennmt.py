"""OpenNMT-py: config A, and config B with input feeding, by its own commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.cost import DIRECTION, EMBEDDING, FEEDFORWARD, HEADS, LAYERS, WIDTH, input_feeding, transformer
from benchmarks.peer_environment import PeerEnvironment, Recipe
from benchmarks.process import AfterAWhile, Finished, environment, run
from benchmarks.side import BATCHES, LENGTH_LEARNED, BatchSize, Job, Setting, Translated
from benchmarks.text import Text

RECIPE = Recipe(
    "OpenNMT-py==3.5.1",
    ("configargparse", "pyahocorasick", "pyonmttok<2", "pyyaml", "rapidfuzz", "sacrebleu", "six", "tensorboard"),
    stubs=("spacy", "fasttext"),
)
# Its own checkpoints hold more than tensors.
TRUST = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}

# One GRU layer on either side, Luong's decoder with the additive score.
RECURRENT = {
    "learning_rate": 0.001,
    "encoder_type": "brnn",
    "decoder_type": "rnn",
    "rnn_type": "GRU",
    "enc_layers": 1,
    "dec_layers": 1,
    "hidden_size": 2 * DIRECTION,  # of both directions together, and of the decoder
    "word_vec_size": EMBEDDING,
    "global_attention": "mlp",
    "input_feed": 1,
    "bridge": True,
}
TRANSFORMER = {
    "decay_method": "noam",
    "warmup_steps": 400,
    "learning_rate": 0.32,
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "position_encoding": True,
    "enc_layers": LAYERS,
    "dec_layers": LAYERS,
    "heads": HEADS,
    "hidden_size": WIDTH,
    "word_vec_size": WIDTH,
    "transformer_ff": FEEDFORWARD,
    "share_decoder_embeddings": True,
}
MODELS = {"recurrent": (RECURRENT, input_feeding), "transformer": (TRANSFORMER, transformer)}

_PROGRESS = re.compile(r"Step\s+\d+/.*?([\d.]+)/\s*([\d.]+) tok/s")
_PARAMETERS = re.compile(r"number of parameters: (\d+)")
# finer than its total, which is rounded to a tenth of a second
_MILLISECONDS = re.compile(r"Average translation time \(ms\): ([\d.]+)")


class OpenNmt:
    """One of the models; `translation_allocators` may be none, for it cannot translate with others' weights."""

    name = "OpenNMT-py 3.5.1"
    borrows: str | None = None
    shortlist = False
    own_batches = False
    allocators: tuple[str, ...] = ("default", "tuned")

    def __init__(
        self,
        kind: str,
        folder: Path,
        vocabulary: int,
        torch_index: str | None,
        translation_allocators: tuple[str, ...] = ("default", "tuned"),
    ) -> None:
        self.kind = kind
        self.translation_allocators = translation_allocators
        self.cost = MODELS[kind][1](vocabulary)
        self.environment = PeerEnvironment(folder, RECIPE, torch_index)

    def set_up(self) -> None:
        """Install it into its environment."""
        self.environment.set_up()

    def train(self, text: Text, batch: BatchSize, minutes: float, setting: Setting) -> tuple[list[float], Finished]:
        """Speeds from its log."""
        stop = AfterAWhile(minutes, lambda line: _PROGRESS.search(line) is not None)
        finished = self._train(text, batch, 1_000_000, setting, stop)
        return speeds(finished.lines)[1:], finished

    def make_model(self, text: Text, epochs: float, lender: Path, setting: Setting) -> int:
        """A checkpoint at the last update, in batches of 64 sentences."""
        updates = text.updates(min(epochs, LENGTH_LEARNED), BATCHES[0].sentences)
        finished = self._train(text, BATCHES[0], updates, setting, None)
        (setting.folder / f"model_step_{updates}.pt").rename(setting.folder / "model.pt")
        return int(finished.last(_PARAMETERS))

    def translate(self, text: Text, job: Job, model: Path, setting: Setting) -> Translated:
        """Seconds as it reports them, from the first batch to the last line written."""
        source, output = setting.folder / "source.txt", setting.folder / "output.txt"
        lines = text.test_pieces(text.source, job.sentences)
        source.write_text("\n".join(lines) + "\n", "utf-8")
        command: list[str | Path] = [self.environment.python, "-m", "onmt.bin.translate", "-model", model / "model.pt"]
        command += ["-src", source, "-output", output, "-report_time", "-max_length", "100"]
        command += ["-beam_size", str(job.beam), "-batch_size", str(job.batch)]
        variables = environment(setting.threads, setting.allocator) | TRUST
        finished = run(command, setting.folder, variables, setting.folder / "log.txt")
        written = output.read_text("utf-8").split("\n")[:-1]
        tokens = sum(len(line.split()) + 1 for line in written)
        seconds = len(lines) * float(finished.last(_MILLISECONDS)) / 1000
        return Translated(len(lines), seconds, tokens, finished)

    def _train(
        self, text: Text, batch: BatchSize, updates: int, setting: Setting, stop: AfterAWhile | None
    ) -> Finished:
        path = setting.folder / "config.yaml"
        path.write_text(json.dumps(config(self.kind, text, batch, updates, setting.folder), indent=1), "utf-8")
        command: list[str | Path] = [self.environment.python, "-m", "onmt.bin.train", "-config", path]  # JSON is YAML
        variables = environment(setting.threads, setting.allocator) | TRUST
        return run(command, setting.folder, variables, setting.folder / "log.txt", stop)


def config(kind: str, text: Text, batch: BatchSize, updates: int, folder: Path) -> dict[str, Any]:
    """How to train one of the models."""
    pieces = str(text.vocabulary_file)
    train = {
        "path_src": str(text.pieces("train", text.source)),
        "path_tgt": str(text.pieces("train", text.target)),
        "transforms": [],
        "weight": 1,
    }
    return {
        "save_data": str(folder / "data"),
        "src_vocab": pieces,
        "tgt_vocab": pieces,
        "share_vocab": True,
        "vocab_size_multiple": 1,
        "src_vocab_size": text.vocabulary,
        "tgt_vocab_size": text.vocabulary,
        "data": {"corpus_1": train},
        "seed": 1,
        "save_model": str(folder / "model"),
        "save_checkpoint_steps": updates,
        "keep_checkpoint": 1,
        "valid_steps": 1_000_000,
        "train_steps": updates,
        "report_every": batch.log_every,
        "world_size": 1,
        "num_workers": 0,
        "bucket_size": 29_000,
        "batch_size": batch.sentences or batch.tokens,
        "batch_type": "sents" if batch.sentences else "tokens",
        "normalization": "tokens",
        "accum_count": [1],
        "model_dtype": "fp32",
        "optim": "adam",
        "adam_beta1": 0.9,
        "adam_beta2": 0.98,
        "max_grad_norm": 1.0,
        "label_smoothing": 0.1,
        "dropout": [0.1],
        "attention_dropout": [0.1],
        "param_init": 0.0,
        "param_init_glorot": True,
        "share_embeddings": True,
        **MODELS[kind][0],
    }


def speeds(lines: list[str]) -> list[float]:
    """Target tokens per second of each stretch of the log."""
    return [float(match[2]) for match in map(_PROGRESS.search, lines) if match]

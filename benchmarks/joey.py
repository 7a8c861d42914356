"""JoeyNMT: config B with input feeding, by its own commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.cost import DIRECTION, EMBEDDING, HIDDEN, input_feeding
from benchmarks.peer_environment import Mend, PeerEnvironment, Recipe
from benchmarks.process import AfterAWhile, Finished, environment, run
from benchmarks.side import BATCHES, LENGTH_LEARNED, BatchSize, Job, Setting, Translated
from benchmarks.text import Text

RECIPE = Recipe(
    "joeynmt==2.3.0",
    (
        "importlib_metadata",
        "matplotlib",
        "numpy",
        "packaging",
        "pyyaml",
        "sacrebleu",
        "sentencepiece",
        "subword-nmt",
        "tensorboard",
        "tqdm",
    ),
    # torch's scheduler no longer takes `verbose`
    mends=(Mend("joeynmt/builders.py", '"verbose": False,', ""),),
)
TRUST = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}

_PROGRESS = re.compile(r"Tokens per Sec:\s+([\d.]+)")
_PARAMETERS = re.compile(r"Total params: (\d+)")
_SECONDS = re.compile(r"Generation took ([\d.]+)\[sec\]")


class Joey:
    """One GRU layer on either side, Luong's decoder with the additive score."""

    name = "JoeyNMT 2.3.0"
    borrows: str | None = None
    shortlist = False
    own_batches = False
    allocators: tuple[str, ...] = ("default", "tuned")
    translation_allocators: tuple[str, ...] = ("default", "tuned")

    def __init__(self, folder: Path, vocabulary: int, torch_index: str | None) -> None:
        self.cost = input_feeding(vocabulary)
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
        (setting.folder / "model" / f"{updates}.ckpt").rename(setting.folder / "model.ckpt")
        return int(finished.last(_PARAMETERS))

    def translate(self, text: Text, job: Job, model: Path, setting: Setting) -> Translated:
        """Seconds as it reports them, from the first batch to the last."""
        test = setting.folder / "test"
        for language in (text.source, text.target):
            lines = text.test_pieces(language, job.sentences)
            test.with_suffix(f".{language}").write_text("\n".join(lines) + "\n", "utf-8")
        settings = config(text, BATCHES[0], 1, setting.folder / "model")
        settings["data"]["test"] = str(test)
        settings["testing"] |= {
            "beam_size": job.beam,
            "batch_size": job.batch,
            "load_model": str(model / "model.ckpt"),
        }
        (setting.folder / "model").mkdir()
        output = setting.folder / "output"
        finished = self._run("test", settings, setting, None, ["-o", output])
        written = (setting.folder / "output.test").read_text("utf-8").split("\n")[:-1]
        tokens = sum(len(line.split()) + 1 for line in written)
        # it translates the validation set first, then the test set
        return Translated(len(lines), float(finished.last(_SECONDS)), tokens, finished)

    def _train(
        self, text: Text, batch: BatchSize, updates: int, setting: Setting, stop: AfterAWhile | None
    ) -> Finished:
        settings = config(text, batch, updates, setting.folder / "model")
        return self._run("train", settings, setting, stop, ["--skip-test"])

    def _run(
        self, mode: str, settings: dict[str, Any], setting: Setting, stop: AfterAWhile | None, more: list[str | Path]
    ) -> Finished:
        path = setting.folder / "config.yaml"
        path.write_text(json.dumps(settings, indent=1), "utf-8")  # JSON is YAML
        command: list[str | Path] = [self.environment.python, "-m", "joeynmt", mode, path, *more]
        variables = environment(setting.threads, setting.allocator) | TRUST
        return run(command, setting.folder, variables, setting.folder / "log.txt", stop)


def config(text: Text, batch: BatchSize, updates: int, folder: Path) -> dict[str, Any]:
    """Config B."""
    return {
        "name": "B",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder),
        "use_cuda": False,
        "fp16": False,
        "random_seed": 1,
        "data": _data(text),
        "testing": {
            "n_best": 1,
            "beam_size": 5,
            "beam_alpha": 1.0,
            "batch_size": 32,
            "batch_type": "sentence",
            "eval_metrics": ["bleu"],
            "max_output_length": 100,
            "min_output_length": 1,
            "return_prob": "none",
            "generate_unk": True,
            "sacrebleu_cfg": {"whitespace": False, "tokenize": "none"},
        },
        "training": _training(batch, updates),
        "model": _model(),
    }


def _data(text: Text) -> dict[str, Any]:
    # The text is in pieces already: to JoeyNMT they are words.
    side = {
        "max_length": 128,
        "min_length": 1,
        "lowercase": False,
        "normalize": False,
        "level": "word",
        "voc_min_freq": 0,
        "voc_file": str(text.vocabulary_file),
    }
    special = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return {
        "train": str(text.folder / "train"),
        "dev": str(text.folder / "dev"),
        "test": str(text.folder / "test"),
        "dataset_type": "plain",
        "src": {"lang": text.source, **side},
        "trg": {"lang": text.target, **side},
        "special_symbols": {**special, "unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3},
    }


def _training(batch: BatchSize, updates: int) -> dict[str, Any]:
    return {
        "optimizer": "adam",
        "adam_betas": [0.9, 0.98],
        "learning_rate": 0.001,
        "learning_rate_min": 0.0,
        "weight_decay": 0.0,
        "clip_grad_norm": 1.0,
        "loss": "crossentropy",
        "label_smoothing": 0.1,
        "batch_size": batch.sentences or batch.tokens,
        "batch_type": "sentence" if batch.sentences else "token",
        "batch_multiplier": 1,
        "normalization": "tokens",
        "epochs": 1000,
        "updates": updates,
        "validation_freq": 1_000_000,
        "logging_freq": batch.log_every,
        "early_stopping_metric": "loss",
        "overwrite": True,
        "shuffle": True,
        "print_valid_sents": [0],
        "keep_best_ckpts": 1,
        "scheduling": "plateau",
        "patience": 5,
        "decrease_factor": 0.5,
    }


def _model() -> dict[str, Any]:
    layer = {
        "type": "recurrent",
        "rnn_type": "gru",
        "embeddings": {"embedding_dim": EMBEDDING, "scale": False},
        "dropout": 0.1,
        "num_layers": 1,
    }
    return {
        "initializer": "xavier_uniform",
        "bias_initializer": "zeros",
        "embed_initializer": "normal",
        "embed_init_weight": 0.1,
        "init_rnn_orthogonal": True,
        "tied_embeddings": True,
        "tied_softmax": False,
        "encoder": {**layer, "hidden_size": DIRECTION, "bidirectional": True},
        "decoder": {
            **layer,
            "hidden_size": HIDDEN,
            "hidden_dropout": 0.1,
            "input_feeding": True,
            "init_hidden": "bridge",
            "attention": "bahdanau",
        },
    }


def speeds(lines: list[str]) -> list[float]:
    """Target tokens per second of each stretch of the log."""
    return [float(match[1]) for match in map(_PROGRESS.search, lines) if match]

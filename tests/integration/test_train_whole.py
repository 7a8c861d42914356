"""Training from text to a model folder, and everything that may be wrong with what it is given."""

import errno
import gzip
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from training_help import pairs, recipe

from regard.cli import main
from regard.config.recipes import load_recipe, recipe_names
from regard.config.settings import Recipe
from regard.data.text.parallel import Pair
from regard.errors import ConfigError, ContractError, ModelFolderError, TrainingError
from regard.inference.translator import Translator
from regard.models import build_model
from regard.models.contract import Model, Output, State, Step
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.storage import files
from regard.storage.lock import lock_name, only_writer
from regard.training import dry_run, loop, train

TRAIN, VALID = pairs(150), pairs(15, seed=1)
SET = [
    word
    for change in (
        "text.tokenizer=word",
        "model.hidden_size=16",
        "model.embedding_size=12",
        "model.attention_size=12",
        "model.maxout_size=12",
        "training.updates=6",
        "training.batch_tokens=128",
        "training.log_every=2",
    )
    for word in ("--set", change)
]


def write_corpus(folder: Path) -> dict[str, str]:
    """corpus.de corpus.en dev.de.gz dev.en.gz corpus.tsv"""
    (folder / "corpus.de").write_text("".join(f"{source}\n" for source, _ in TRAIN))
    (folder / "corpus.en").write_text("".join(f"{target}\n" for _, target in TRAIN))
    (folder / "corpus.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in TRAIN))
    with gzip.open(folder / "dev.de.gz", "wt") as file:
        file.write("".join(f"{source}\n" for source, _ in VALID))
    with gzip.open(folder / "dev.en.gz", "wt") as file:
        file.write("".join(f"{target}\n" for _, target in VALID))
    return {path.name: str(path) for path in folder.iterdir()}


def test_the_command_line_of_the_manual(tmp_path: Path) -> None:
    f = write_corpus(tmp_path)
    out = tmp_path / "models" / "de-en"
    words = ["train", "bahdanau", "--train", f["corpus.de"], f["corpus.en"]]
    words += ["--valid", f["dev.de.gz"], f["dev.en.gz"], "--out", str(out), "--seed", "5"]
    assert main([*words, *SET]) == 0
    names = {path.name for path in out.iterdir()} - {"compiled"}  # for an engine, if one is installed
    assert names == {
        "config.json",
        "model.safetensors",
        "source.tokenizer.json",
        "target.tokenizer.json",
        "metrics.json",
        "README.md",
        "training.fingerprint.npy",
        "training.words.npy",
        "log.jsonl",
        "training",
    }
    config = json.loads((out / "config.json").read_text())
    assert config["training"]["seed"] == 5
    assert config["text"]["languages"] == ["de", "en"]  # by the names of the files
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["updates"] == 6
    assert metrics["data"]["train"]["pairs"] == 150
    assert "nrefs:1" in metrics["valid"]["bleu_signature"]
    card = (out / "README.md").read_text()
    assert "corpus.de, corpus.en; 150 sentence pairs" in card
    assert "\nlanguage:\n- de\n- en\n" in card
    assert metrics["valid"]["bleu_signature"] in card
    assert Translator.load(out).translate("a b c").text is not None


def test_languages_may_be_given(tmp_path: Path) -> None:
    f = write_corpus(tmp_path)
    out = tmp_path / "model"
    words = [
        "train",
        "bahdanau",
        "--train",
        f["corpus.de"],
        f["corpus.en"],
        "--out",
        str(out),
        "--languages",
        "nl",
        "en",
    ]
    assert main([*words, *SET]) == 0
    assert json.loads((out / "config.json").read_text())["text"]["languages"] == ["nl", "en"]
    assert main([*words[:-2], "Dutch", "English", *SET, "--overwrite"]) == 2


TEXT_RECIPES = [name for name in recipe_names() if isinstance(load_recipe(name), Recipe)]
TEXT_RECIPES += [f"box/{name}" for name in ("attention", "bahdanau", "gnmt", "luong", "luong-local-p", "seq2seq")]


@pytest.mark.parametrize("name", TEXT_RECIPES)
def test_every_recipe_trains_through_the_command_line(tmp_path: Path, name: str) -> None:
    sizes = {"hidden_size", "embedding_size", "attention_size", "maxout_size"}
    small = sorted(sizes & set(type(load_recipe(name).model).model_fields))
    changes = [f"model.{field}=8" for field in small]
    changes += ["training.updates=2", "training.batch_tokens=100", "training.validation_sentences=3"]
    words = [word for change in changes for word in ("--set", change)]
    out = tmp_path / "out"
    text = ["--train", "toy:reverse:60", "--valid", "toy:reverse:5"]
    assert main(["train", name, *text, "--out", str(out), *words]) == 0
    assert json.loads((out / "metrics.json").read_text())["updates"] == 2
    assert Translator.load(out).recipe.model.kind == load_recipe(name).model.kind


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_is_no_training_is_never_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, overwrite: list[str]
) -> None:
    """A corpus in OUT/training, or a link to another disk there."""
    out, training = tmp_path / "out", tmp_path / "out" / "training"
    out.mkdir()
    if kind == "file":
        training.write_text("mine")
    else:
        home = training if kind == "folder" else tmp_path / "disk"
        home.mkdir()
        (home / "corpus.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in TRAIN))
        if kind == "link":
            training.symlink_to(home)
    before = contents(tmp_path)
    corpus = str(training / "corpus.tsv") if kind != "file" else write_corpus(tmp_path / "out")["corpus.tsv"]
    assert main(["train", "bahdanau", "--train", corpus, "--out", str(out), *SET, *overwrite]) == 2
    assert f"{training}: " in capsys.readouterr().err
    assert before.items() <= contents(tmp_path).items()
    assert training.is_symlink() == (kind == "link")


def test_a_file_with_the_name_of_a_models_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    f = write_corpus(tmp_path)
    (tmp_path / "README.md").write_text("my project")
    command = ["train", "bahdanau", "--train", f["corpus.tsv"], "--out", str(tmp_path), *SET]
    assert main(command) == 2
    said = f"{tmp_path / 'README.md'}: training would replace it: choose another --out folder, or add --overwrite"
    assert said in capsys.readouterr().err
    assert (tmp_path / "README.md").read_text() == "my project"
    assert not (tmp_path / "training").exists()
    assert main([*command, "--overwrite"]) == 0
    assert (tmp_path / "corpus.tsv").exists()


def test_one_file_fine_tuning_and_overwriting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    f = write_corpus(tmp_path)
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert main(["train", "bahdanau", "--train", f["corpus.tsv"], "--out", first, *SET]) == 0
    before = (tmp_path / "first" / "model.safetensors").read_bytes()
    again = ["train", "bahdanau", "--train", f["corpus.tsv"], "--out", first, *SET, "--seed", "9"]
    assert main(again) == 2
    assert "holds a model already: choose another --out, or add --overwrite" in capsys.readouterr().err
    assert (tmp_path / "first" / "model.safetensors").read_bytes() == before

    tune = ["train", "--from", first, "--train", f["corpus.de"], f["corpus.en"], "--out", second]
    assert main([*tune, "--set", "training.learning_rate=1e-12", "--set", "training.updates=1"]) == 0
    start, tuned = (Translator.load(name).model.state_dict() for name in (first, second))
    for name, tensor in start.items():
        torch.testing.assert_close(tuned[name], tensor, rtol=0, atol=1e-9)
    assert main([*again, "--overwrite"]) == 0
    assert (tmp_path / "first" / "model.safetensors").read_bytes() != before


def test_a_dry_run_and_a_training_keep_as_few_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    monkeypatch.setenv(limit, "1024")  # restored at the end
    monkeypatch.delenv(limit)
    dry_run(recipe(updates=1), train=TRAIN, progress=False)
    assert os.environ.pop(limit) == "256"
    train(recipe(updates=1), train=TRAIN, out=tmp_path / "out", progress=False)
    assert os.environ[limit] == "256"


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    f = write_corpus(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    (tmp_path / "corpus.tsv").write_text((tmp_path / "corpus.tsv").read_text() + "\tx\n" + "a " * 500 + "\tb\n")
    words = ["train", "luong", "--train", f["corpus.tsv"], "--valid", "none", "--dry-run", *SET[:4]]
    assert main([*words, "--set", "model.tie_embeddings=none"]) == 0
    shown = capsys.readouterr().out
    assert "150 pairs kept, skipped 1 empty, 1 too long" in shown
    for word in ("parameters: ", "memory: about", "time: about", "no model was written."):
        assert word in shown
    assert sorted(tmp_path.rglob("*")) == before
    report = dry_run(recipe(updates=10), train=TRAIN, progress=False)
    built = build_model(recipe().model, report.source_vocabulary, report.target_vocabulary)
    assert report.parameters == sum(parameter.numel() for parameter in built.parameters())
    assert report.updates == 10
    assert report.seconds == pytest.approx(10 * report.seconds_per_update)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bahdanau", "--train", "missing.tsv", "--out", "OUT"], "missing.tsv: no such file"),
        (["bahdanau", "--train", "uneven.de", "uneven.en", "--out", "OUT"], "uneven.de has 3 lines but"),
        (["bahdanau", "--train", "latin.tsv", "--out", "OUT"], "latin.tsv:2: byte 0xe9"),
        (["bahdanau", "--train", "empty.tsv", "--out", "OUT"], "empty.tsv: no lines"),
        (["bahdanau", "--train", "blank.tsv", "--out", "OUT"], "holds no sentences to train on"),
        (["bahdanau", "--train", ".", "--out", "OUT"], "is a directory"),
        (["bahdanau", "--train", "good.tsv", "--valid", "missing.tsv", "--out", "OUT"], "missing.tsv"),
        (["bahdanau", "--train", "good.tsv"], "no folder was given for the model"),
        (["bahdanau", "--out", "OUT"], "no training text was given"),
        (["--train", "good.tsv", "--out", "OUT"], "no recipe was given"),
        (["bahdanu", "--train", "good.tsv", "--out", "OUT"], "did you mean 'bahdanau'"),
        (["bahdanau", "--train", "good.tsv", "--out", "OUT", "--set", "training.updats=1"], "did you mean"),
        (["bahdanau", "--train", "good.tsv", "--out", "OUT", "--device", "cuda:99"], "device 'cuda:99'"),
        (["bahdanau", "--train", "good.tsv", "--out", "good.tsv"], "good.tsv: is a file"),
        (["bahdanau", "--train", "good.tsv", "--out", "OUT", "--set", "text.max_length=1"], "text.max_length"),
        (["--from", "good.tsv", "--train", "good.tsv", "--out", "OUT"], "not a model folder"),
        (["--resume", "OUT"], "holds no unfinished training"),
        (["bahdanau", "--resume", "OUT"], "--resume knows its recipe"),
        (
            ["bahdanau", "a", "--train", "good.tsv", "--out", "OUT"],
            "a: it is not clear whether this belongs to --train: ",
        ),
        (
            ["bahdanau", "--train", "a.de", "--valid", "b.de", "a.en", "b.en", "--out", "OUT"],
            "b.en: it is not clear which of --train and --valid this belongs to: write one file, or a source and a",
        ),
        (
            ["--train", "good.tsv", "luong", "--out", "OUT"],
            "luong: a recipe comes before the options: `regard train lu",
        ),
        (
            ["bahdanau", "--train", "good.tsv", "--out", "OUT", "--lr", "0"],
            "error: --lr 0.0: training.learning_rate = ",
        ),
        (["bahdanau", *("--train", "a") * 3, "--out", "OUT"], "--train a --train a --train a: two sides or 3 corpora?"),
        (["bahdanau", "--train", "toy:two-ears", "--out", "OUT"], "'two-ears': there is no such embedded corpus"),
        (
            ["bahdanau", "--train", "good.tsv", "--out", "OUT", "--set", "training.patience=2"],
            "training.patience needs a validation set",
        ),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("uneven.de").write_text("a\nb\nc\n")
    Path("uneven.en").write_text("a\nb\n")
    Path("latin.tsv").write_bytes(b"a\tb\ncaf\xe9\tx\n")
    Path("empty.tsv").write_bytes(b"")
    Path("blank.tsv").write_text(" \t \n")
    Path("good.tsv").write_text("a b\tc d\n" * 5)
    before = sorted(tmp_path.rglob("*"))
    assert main(["train", *arguments]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("regard: error")]
    assert len(lines) == 1
    assert message in lines[0]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_loss_that_is_not_finite_names_the_batch_and_keeps_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = loop.add_gradient

    def poisoned(task: Any, model: Model, *rest: Any, **place: Any) -> Any:
        if poisoned.calls == 4:  # type: ignore[attr-defined]
            next(model.parameters()).grad = None
            for parameter in model.parameters():
                parameter.grad = torch.full_like(parameter, float("nan"))
            return real(task, model, *rest, **place)
        poisoned.calls += 1  # type: ignore[attr-defined]
        return real(task, model, *rest, **place)

    poisoned.calls = 0  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(loop, "add_gradient", poisoned)
        with pytest.raises(TrainingError) as caught:
            train(recipe(), train=TRAIN, out=tmp_path, progress=False)
    message = str(caught.value)
    assert message.startswith("update 5: the gradient's norm is nan, in the batch of the sentence pairs ")
    assert f"regard train --resume {tmp_path} --set training.learning_rate=0.003" in message
    assert "The last checkpoint with a sane loss, of update 0, is kept" in message
    done = train(out=tmp_path, resume=True, overrides=["training.learning_rate=0.003"], progress=False)
    assert done.metrics["updates"] == 12


def test_a_full_disk_is_one_line_and_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    real = files.write_bytes

    def full(path: Path, content: bytes) -> None:
        if path.name.startswith("weights-"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_bytes", full)
        with pytest.raises(TrainingError, match=r"no space left on device, [\d.]+ .B free\); the previous checkpoint"):
            train(recipe(), train=TRAIN, valid=VALID, out=out, progress=False)
    assert train(out=out, resume=True, progress=False).metrics["updates"] == 12

    def full_from_the_start(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_bytes", full_from_the_start)
        with pytest.raises(OSError, match="No space left on device"):
            train(recipe(), train=TRAIN, out=tmp_path / "deep" / "other", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_budget_becomes_a_number_of_updates_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = recipe(updates=None, budget="2s", validation_bleu=False, select_by="loss")
    translator = train(chosen, train=TRAIN, valid=VALID, out=tmp_path)
    said = capsys.readouterr().err
    assert said.count("the budget of 2s allows about") == 1
    assert translator.metrics["updates"] > 1
    state = max((tmp_path / "training").glob("checkpoint-*/state.json"))
    assert json.loads(state.read_text())["state"]["total"] == translator.metrics["updates"]


def test_a_budget_ends_early_when_updates_are_slow_or_few(tmp_path: Path) -> None:
    slow = recipe(updates=None, budget="1s", batch_tokens=2000)
    real = loop.clip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "clip", lambda model, limit: (time.sleep(0.3), real(model, limit))[1])
        translator = train(slow, train=TRAIN, valid="none", out=tmp_path / "slow", progress=False)
    assert 2 <= translator.metrics["updates"] <= 5
    few = train(recipe(updates=3, budget="1h"), train=TRAIN, out=tmp_path / "few", progress=False)
    assert few.metrics["updates"] == 3


class SlowingClock:
    """Half a second for each of the first 40 updates, a second and a half for each later one."""

    def __init__(self) -> None:
        self.calls = 0
        self.now = 0.0

    def perf_counter(self) -> float:
        self.calls += 1
        if self.calls % 2 == 0:  # it is asked before an update and after it
            self.now += 0.5 if self.calls <= 80 else 1.5
        return self.now

    def monotonic(self) -> float:
        return self.now


def test_a_budget_is_kept_by_a_machine_that_gets_slower(tmp_path: Path) -> None:
    chosen = recipe(updates=None, budget="100s", validate_every=10_000, save_every=1000.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", SlowingClock())
        translator = train(chosen, train=TRAIN, valid="none", out=tmp_path, progress=False)
    # 200 by the pace of its beginning; 20 s for the first 40, and 80 s for 53 others
    assert 91 <= translator.metrics["updates"] <= 97


def test_averaging_and_early_stopping(tmp_path: Path) -> None:
    options = {"updates": 40, "validate_every": 2, "patience": 2, "average": "last", "keep": 3}
    chosen = recipe(**options, learning_rate=1e-9, select_by="loss", schedule="constant", warmup=0)
    translator = train(chosen, train=TRAIN, valid=VALID, out=tmp_path, progress=False)
    assert translator.metrics["updates"] <= 40
    assert len(list((tmp_path / "training").glob("weights-*"))) == 3
    assert translator.metrics["valid"]["loss"] > 0


class Bag(Model):
    """A user's own model: the mean of the source words, and the word before."""

    def __init__(self, source: int, target: int) -> None:
        super().__init__()
        self.vocabulary_size = target
        self.source = torch.nn.Embedding(source, 8)
        self.target = torch.nn.Embedding(target, 8)
        self.output = torch.nn.Linear(8, target)

    def encode(
        self,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        attention: bool = False,
        intervention: Intervention | None = None,
    ) -> Memory:
        assert source_mask is not None
        words = self.source(source) * source_mask.unsqueeze(-1)
        return Memory(source_mask, source_mask.sum(1), (words.sum(1) / source_mask.sum(1, keepdim=True),))

    def start(self, memory: Memory) -> State:
        return State((memory.summary[0],))

    def step(
        self,
        token: Tensor,
        state: State,
        memory: Memory,
        *,
        attention: bool = False,
        trace: bool = False,
        intervention: Intervention | None = None,
    ) -> Step:
        return Step(torch.tanh(state.tensors[0] + self.target(token)), state.advance(state.tensors))

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        logits: Tensor = self.output(hidden)
        return logits if columns is None else logits[..., columns]

    def forward(self, batch: Any, *, attention: bool = False, intervention: Intervention | None = None) -> Output:
        output = super().forward(batch, attention=attention, intervention=intervention)
        return Output(output.hidden, output.attention, extra_loss=1e-3 * self.output.weight.square().sum())


def test_a_users_own_model(tmp_path: Path) -> None:
    translator = train(recipe(), train=TRAIN, valid=VALID, model=Bag, out=tmp_path / "own", progress=False)
    assert isinstance(translator.model, Bag)
    with pytest.raises(ModelFolderError, match=r"Bag, which Regard cannot build"):
        Translator.load(tmp_path / "own")
    sizes = translator.source_tokenizer.size, translator.target_tokenizer.size
    again = Translator.load(tmp_path / "own", model=Bag(*sizes))
    assert again.translate("a b", attention=False).text == translator.translate("a b", attention=False).text
    with pytest.raises(ContractError, match="has 5 output words, the target vocabulary 12"):
        train(recipe(), train=TRAIN, model=Bag(5, 5), out=tmp_path / "wrong", progress=False)
    assert not (tmp_path / "wrong").exists()


def test_pretrained_vectors_start_the_embedding(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("a " + " ".join(["0.5"] * 12) + "\nunseen " + " ".join(["1"] * 12) + "\n")
    chosen = recipe(
        model={"source_vectors": str(vectors)}, updates=1, learning_rate=1e-12, validation_bleu=False, select_by="loss"
    )
    translator = train(chosen, train=TRAIN, out=tmp_path / "out", progress=False)
    (piece, *_) = translator.source_tokenizer.encode("a")
    row = translator.model.get_parameter("embeddings.source.weight")[piece].detach()
    torch.testing.assert_close(row, torch.full((12,), 0.5))


def test_the_callers_random_numbers_and_generators_are_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    train(recipe(updates=2), train=TRAIN, out=tmp_path / "out", progress=False)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.processor("bfloat16")
def test_mixed_precision_and_joint_pieces(tmp_path: Path) -> None:
    chosen = recipe("luong", {"tie_embeddings": "all", "embedding_size": 16}, joint=True, precision="bfloat16")
    translator = train(chosen, train=TRAIN, valid=VALID, out=tmp_path, progress=False)
    assert translator.source_tokenizer is translator.target_tokenizer
    assert (tmp_path / "tokenizer.json").exists()
    assert {tensor.dtype for tensor in translator.model.parameters()} == {torch.float32}
    assert Translator.load(tmp_path).translate("a b").text == translator.translate("a b").text


def test_training_in_another_thread(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        translator = pool.submit(train, recipe(), train=TRAIN, out=tmp_path, progress=False).result()
    assert translator.metrics["updates"] == 12


def test_an_average_of_the_last_without_a_validation_set(tmp_path: Path) -> None:
    chosen = recipe(average="last", keep=2, validate_every=4)
    translator = train(chosen, train=TRAIN, valid="none", out=tmp_path, progress=False)
    kept = [load_file(path) for path in sorted((tmp_path / "training").glob("weights-*"))]
    assert len(kept) == 2
    name = "embeddings.source.weight"
    mean = (kept[0][name].double() + kept[1][name].double()).div(2).float()
    assert torch.equal(translator.model.get_parameter(name).detach(), mean)
    assert "valid" not in translator.metrics


def test_the_best_weights_are_the_ones_that_are_kept(tmp_path: Path) -> None:
    """With a rate that wrecks the model late, the folder holds the weights from before."""
    chosen = recipe(updates=8, validate_every=1, select_by="loss", learning_rate=3.0, schedule="constant", warmup=8)
    translator = train(chosen, train=TRAIN, valid=VALID, out=tmp_path, progress=False)
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    losses = {record["update"]: record["loss"] for record in log if record["event"] == "validation"}
    best = min(losses, key=lambda update: losses[update])
    assert best != 8
    assert translator.metrics["best_update"] == best
    assert translator.metrics["valid"]["loss"] == losses[best]
    scores = list(translator.score_pairs([Pair(source, target) for source, target in VALID]))
    mean = -sum(score.log_probability for score in scores) / sum(score.tokens for score in scores)
    assert mean == pytest.approx(losses[best], rel=1e-4)


def test_tensorboard_is_asked_for_by_name(tmp_path: Path) -> None:
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        with pytest.raises(ConfigError, match="TensorBoard is not installed"):
            train(recipe(), train=TRAIN, out=tmp_path / "out", progress=False, tensorboard=True)
        assert not (tmp_path / "out").exists()
    else:
        train(recipe(), train=TRAIN, out=tmp_path / "out", progress=False, tensorboard=True)
        assert list((tmp_path / "out" / "tensorboard").iterdir())


def test_two_trainings_cannot_write_into_one_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    f = write_corpus(tmp_path)
    out = tmp_path / "m"
    words = ["train", "bahdanau", "--train", f["corpus.tsv"], "--valid", f["corpus.tsv"], "--out", str(out)]
    with only_writer(out, "training", "--out"):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # the lock does not depend on it
        assert main([*words, *SET]) == 2
        assert "another training is writing there now" in capsys.readouterr().err
        assert [path.name for path in out.iterdir()] == [lock_name("training")]
    assert not out.exists()
    assert main([*words, *SET]) == 0
    assert not (out / lock_name("training")).exists()  # nothing is left behind

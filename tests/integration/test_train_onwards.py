"""Training that is stopped, goes on, and is used meanwhile: advice, budgets, the best model so far."""

import itertools
import json
import os
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
from training_help import pairs, recipe

import regard
from regard.cli import main
from regard.errors import ConfigError, ModelFolderError, TrainingError
from regard.training import Interrupted, loop, saving, selection, train
from regard.training.saving import SaveClock

TRAIN, VALID = pairs(150), pairs(15, seed=1)
SET = [
    *("--set", "text.tokenizer=word", "--set", "model.hidden_size=16", "--set", "model.embedding_size=12"),
    *("--set", "model.attention_size=12", "--set", "model.maxout_size=12", "--set", "training.batch_tokens=128"),
    *("--set", "training.warmup=2", "--threads", "1"),
]


def started(tmp_path: Path, *more: str, stop_at: int | None = None, number: signal.Signals = signal.SIGINT) -> int:
    """`regard train` through the command line, broken off at an update; its exit code."""
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("".join(f"{source}\t{target}\n" for source, target in TRAIN))
    words = ["train", "bahdanau", "--train", str(corpus), "--out", str(tmp_path / "a model"), *SET, *more]
    real = loop.seed_of

    def seed_of(seed: int, update: int) -> int:
        if update == stop_at:
            os.kill(os.getpid(), number)
        return real(seed, update)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "seed_of", seed_of)
        return main(words)


def advised(text: str) -> list[str]:
    """The command that a message names."""
    found = re.findall(r"`(regard [^`]+)`", text)
    assert found, text
    return shlex.split(found[-1])[1:]


def log(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_is_the_exit_code_and_its_advice_works(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    code: int,
) -> None:
    monkeypatch.setattr(saving, "default_threads", lambda: 2)
    ends = ("--updates", "6", "--set", "training.budget=none")
    assert started(tmp_path, *ends, stop_at=3, number=number) == code
    said = capsys.readouterr().err
    assert "stopped and saved after update 3." in said
    assert advised(said)[-2:] == ["--threads", "1"]  # as before: another number would change the last bits
    assert main(advised(said)) == 0
    said = capsys.readouterr().err
    assert "resuming after update 3" in said
    assert "resuming to update 6" in said


def test_the_advice_of_a_folder_that_is_taken_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = ("--updates", "6", "--set", "training.budget=none")
    started(tmp_path, *ends, stop_at=3)
    capsys.readouterr()
    assert started(tmp_path, *ends) == 2
    assert main(advised(capsys.readouterr().err)) == 0


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (["--updates", "4", "--set", "training.budget=none"], "resuming to update 8"),
        (["--epochs", "1", "--set", "training.budget=none"], "resuming to update "),
        (["--budget", "1s"], r"resuming for \d+s more"),
        (["--updates", "4", "--budget", "1h"], r"resuming for 2h00m more|1h59m more"),
    ],
)
def test_the_advice_of_a_finished_training_makes_it_longer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ends: list[str], said: str
) -> None:
    assert started(tmp_path, *ends) == 0
    before = log(tmp_path / "a model")[-1]["update"]
    capsys.readouterr()
    assert main(["train", "--resume", str(tmp_path / "a model")]) == 2
    message = capsys.readouterr().err
    assert "its training is finished" in message
    stopping = "1h" in ends  # two hours would be long
    with pytest.MonkeyPatch.context() as patch:
        if stopping:
            patch.setattr(loop, "seed_of", lambda seed, update: os.kill(os.getpid(), signal.SIGINT) or update)
        assert main(advised(message)) == (130 if stopping else 0)
    assert re.search(said, capsys.readouterr().err)
    if not stopping:
        assert log(tmp_path / "a model")[-1]["update"] > before


def test_the_advice_after_a_nan_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "clip", lambda model, limit: float("nan"))
        assert started(tmp_path, "--updates", "6", "--set", "training.budget=none") == 2
    assert main(advised(capsys.readouterr().err)) == 0


def test_an_end_that_is_past_is_refused(tmp_path: Path) -> None:
    train(recipe(updates=6), train=TRAIN, out=tmp_path, progress=False)
    for end in ("training.updates=5", "training.epochs=0.1", "training.budget=0.01s"):
        with pytest.raises(ConfigError, match=r"is the end already: name a later one, such as --set training\."):
            train(out=tmp_path, resume=True, overrides=[end], progress=False)


def test_patience_that_ran_out_gets_more_of_it(tmp_path: Path) -> None:
    chosen = recipe(updates=40, validate_every=1, patience=2, select_by="loss", learning_rate=1e-9)
    train(chosen, train=TRAIN, valid=VALID, out=tmp_path, progress=False)
    before = log(tmp_path)[-1]["update"]
    assert before < 40
    with pytest.raises(ModelFolderError, match=r"--set training\.patience=4") as caught:
        train(out=tmp_path, resume=True, progress=False)
    override = advised(str(caught.value))[-1]
    train(out=tmp_path, resume=True, overrides=[override], progress=False)
    assert log(tmp_path)[-1]["update"] >= before + 4


# --- the best model so far ----------------------------------------------------------------------------------------


def test_the_best_model_is_usable_while_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = loop.seed_of
    seen: list[dict[str, Any]] = []

    def seed_of(seed: int, number: int) -> int:
        if number > 4:
            translator = regard.load(tmp_path)
            assert translator.translate("a b c") is not None
            seen.append(json.loads((tmp_path / "metrics.json").read_text()))
            if number == 5:
                assert main(["info", str(tmp_path)]) == 0
                shown = capsys.readouterr().out
                assert "unfinished: the best model so far, of update 4" in shown
        if number == 11:
            os.kill(os.getpid(), signal.SIGINT)
        return real(seed, number)

    monkeypatch.setattr(loop, "seed_of", seed_of)
    chosen = recipe(validate_every=4, select_by="loss")
    with pytest.raises(Interrupted, match="The best model so far is in"):
        train(chosen, train=TRAIN, valid=VALID, out=tmp_path, progress=False)
    assert all(metrics["unfinished"] for metrics in seen)
    assert [metrics["updates"] for metrics in seen] == [4, 4, 4, 4, 8, 8, 8]
    monkeypatch.undo()
    assert regard.load(tmp_path).translate("a b c") is not None
    with pytest.raises(ModelFolderError, match="holds an unfinished training: resume it with"):
        train(chosen, train=TRAIN, valid=VALID, out=tmp_path, progress=False)
    train(out=tmp_path, resume=True, progress=False)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert "unfinished" not in metrics
    assert metrics["finished"]


def test_a_model_is_never_missing_while_it_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rename of a renewal is a moment at which somebody may read the folder."""
    real, reads = os.replace, [0]

    def replace(source: Any, target: Any) -> None:
        real(source, target)
        if (tmp_path / "config.json").exists():
            regard.load(tmp_path)
            reads[0] += 1

    first: list[int] = []
    written = selection.write_best_model

    def write(run: Any) -> None:
        if first:
            monkeypatch.setattr(os, "replace", replace)
        written(run)
        monkeypatch.setattr(os, "replace", real)
        assert (tmp_path / "config.json").exists()
        first.append(run.state.update)

    monkeypatch.setattr(selection, "write_best_model", write)
    train(recipe(validate_every=4, select_by="loss"), train=TRAIN, valid=VALID, out=tmp_path, progress=False)
    assert len(first) == 3
    assert reads[0] >= 10


# --- checkpoints by what they cost --------------------------------------------------------------------------------


def test_checkpoints_come_by_what_they_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    now, cost = [0.0], [0.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return now[0]

    def save(run: Any) -> None:
        now[0] += cost[0]

    monkeypatch.setattr(saving, "time", Clock)
    monkeypatch.setattr(saving, "save", save)
    clock = SaveClock(None)
    assert not clock.due()
    now[0] = 15.0
    assert clock.due()  # the first, within 20 s
    for cost[0], interval in ((0.01, 15), (1.0, 100), (20.0, 300)):
        clock.save(None)  # type: ignore[arg-type]  # the stand-in of `save` needs no run
        saved = now[0]
        now[0] = saved + interval - 1
        assert not clock.due()
        now[0] = saved + interval + 1
        assert clock.due()
    fixed = SaveClock(2.0)
    now[0] += 119
    assert not fixed.due()
    now[0] += 2
    assert fixed.due()


# --- budgets ------------------------------------------------------------------------------------------------------


class Machine:
    """A clock by which each update takes as long as `pace` says."""

    def __init__(self, pace: Any) -> None:
        self.pace = pace
        self.calls = 0
        self.now = 0.0

    def perf_counter(self) -> float:
        self.calls += 1
        if self.calls % 2 == 0:  # it is asked before an update and after it
            self.now += self.pace(self.calls // 2)
        return self.now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def quick_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validation takes no time, however busy the machine is."""
    monkeypatch.setattr(selection, "time", Machine(lambda validation: 0.0))


@pytest.mark.usefixtures("quick_validation")
def test_a_budget_bends_validates_five_times_and_says_how_far_off_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, "time", Machine(lambda update: 0.5 if update < 40 else 1.0))
    chosen = recipe(updates=None, budget="80s", validate_every=10_000, log_every=1, warmup=300)
    train(chosen, train=TRAIN, valid=VALID, out=tmp_path)
    said = capsys.readouterr().err
    records = log(tmp_path)
    updates = [record for record in records if record["event"] == "update"]
    rates = [record["learning_rate"] for record in updates]
    assert 95 <= len(updates) <= 105
    assert rates[-1] < 0.01 * max(rates)
    assert max(rates) > 0.05 * 0.01
    validated = [record["update"] for record in records if record["event"] == "validation"]
    assert len(validated) >= 5
    assert validated[-1] == updates[-1]["update"]
    estimate = int(re.search(r"allows about (\d+) updates", said)[1])  # type: ignore[index]
    assert 150 <= estimate <= 160
    assert re.search(rf"the first estimate was {estimate} updates, 5\d% too many", said)


@pytest.mark.usefixtures("quick_validation")
def test_a_short_budget_validates_five_times_on_a_part_of_the_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, "time", Machine(lambda update: 0.5))
    chosen = recipe(updates=None, budget="60s", validate_every=10_000, log_every=1)
    train(chosen, train=TRAIN, valid=pairs(2000, seed=3), out=tmp_path)
    assert re.search(r"about \d+ updates, with \d+\.?\d* % of the validation set", capsys.readouterr().err)
    validations = [line for line in log(tmp_path) if line["event"] == "validation"]
    assert len(validations) >= 5
    assert len({line["tokens"] for line in validations}) == 1
    assert validations[0]["tokens"] < 5 * 2000


@pytest.mark.usefixtures("quick_validation")
def test_a_resumed_budget_repeats_every_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after decisions that no checkpoint holds, and resumed on a machine of another speed."""
    chosen = recipe(updates=None, budget="60s", validate_every=10_000, log_every=1, warmup=20)

    class Killed(BaseException):
        pass

    real = loop.seed_of

    def seed_of(seed: int, number: int) -> int:
        if number == 70:
            raise Killed
        return real(seed, number)

    due = loop.validation_is_due

    def save_once(run: Any) -> bool:
        if run.state.update == 30:
            saving.save(run)
        return due(run)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", Machine(lambda update: 0.4 + 0.01 * update))
        patch.setattr(loop, "seed_of", seed_of)
        patch.setattr(loop, "validation_is_due", save_once)
        with pytest.raises(Killed):
            train(chosen, train=TRAIN, valid=VALID, out=tmp_path, progress=False)
    clocks = ("time", "seconds", "tokens_per_second")

    def told() -> list[dict[str, Any]]:
        return [{key: value for key, value in line.items() if key not in clocks} for line in log(tmp_path)]

    before = told()
    assert sum(line["event"] == "plan" for line in before if line["update"] > 30) >= 2
    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", Machine(lambda update: 0.1))
        train(out=tmp_path, resume=True, progress=False)
    after = told()
    assert after[: len(before)] == before
    rates = [line["learning_rate"] for line in after if line["event"] == "update"]
    assert max(abs(b - a) for a, b in itertools.pairwise(rates)) < 0.1 * 0.01
    assert rates[-1] < 0.01 * max(rates)


@pytest.mark.usefixtures("quick_validation")
def test_a_longer_budget_goes_on_and_says_how_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, "time", Machine(lambda update: 0.5))
    chosen = recipe(updates=None, budget="20s", validate_every=10_000, log_every=1)
    train(chosen, train=TRAIN, valid=VALID, out=tmp_path, progress=False)
    assert 35 <= log(tmp_path)[-1]["update"] <= 41
    train(out=tmp_path, resume=True, overrides=["training.budget=40s"])
    assert re.search(r"resuming for \d\ds more", capsys.readouterr().err)
    assert 75 <= log(tmp_path)[-1]["update"] <= 82
    train(out=tmp_path, resume=True, overrides=["training.updates=90"], progress=False)
    assert log(tmp_path)[-1]["update"] == 90


# --- what is said -------------------------------------------------------------------------------------------------


def test_without_valid_a_share_is_held_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = ("--updates", "2", "--set", "training.budget=none")
    assert started(tmp_path, *ends) == 0
    said = capsys.readouterr().err
    assert "5 of the 150 pairs are held out for validation, because --valid was not given" in said
    assert "150 pairs are very few" not in said
    assert "145 pairs are very few" in said
    data = json.loads((tmp_path / "a model" / "metrics.json").read_text())["data"]
    assert (data["train"]["pairs"], data["valid"]["pairs"]) == (145, 5)
    assert started(tmp_path, *ends, "--overwrite", "--valid", "none") == 0
    assert "held out" not in capsys.readouterr().err
    assert "valid" not in json.loads((tmp_path / "a model" / "metrics.json").read_text())["data"]
    with pytest.raises(ConfigError, match="needs a validation set"):
        train(recipe(patience=2), train=TRAIN, valid="none", out=tmp_path / "x", progress=False)
    with pytest.raises(ConfigError, match="needs a validation set"):
        train(recipe(patience=2), train=TRAIN[:20], out=tmp_path / "x", progress=False)


def test_samples_are_printed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = recipe(validate_every=6)
    train(chosen, train=TRAIN, valid=VALID, out=tmp_path)
    said = capsys.readouterr().err
    validations = [line for line in log(tmp_path) if line["event"] == "validation"]
    assert len(validations) == 2
    for line in validations:
        assert len(line["samples"]) == 3
        for sample in line["samples"]:
            assert (sample["source"], sample["reference"]) in VALID
            assert f"  translation  {sample['translation']}".rstrip() in said
            assert f"  source       {sample['source']}" in said
    assert "samples" not in json.loads((tmp_path / "metrics.json").read_text())["valid"]


def test_the_bar_and_the_log_have_one_perplexity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.training import progress

    shown: list[tuple[int, float]] = []

    class Bar(progress.Silent):
        def updated(self, state: Any, rate: float, speed: float) -> None:
            shown.append((state.update, progress.perplexity_of(state.window_likelihood / state.window_tokens)))

    monkeypatch.setattr("regard.training.choose_reporter", lambda progress, unit: Bar())
    train(recipe(log_every=4, label_smoothing=0.3), train=TRAIN, valid=VALID, out=tmp_path)
    logged = {line["update"]: line["perplexity"] for line in log(tmp_path) if line["event"] == "update"}
    assert logged == {update: value for update, value in shown if update in logged}
    assert len(logged) == 3


def test_a_nan_in_validation_names_the_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(run: Any) -> Any:
        raise TrainingError("the validation loss is not finite: lower training.learning_rate.")

    monkeypatch.setattr(selection, "stop_if_asked", broken)
    with pytest.raises(TrainingError, match=r"update 4: the validation loss is not finite.*--resume"):
        train(recipe(validate_every=4), train=TRAIN, valid=VALID, out=tmp_path, progress=False)

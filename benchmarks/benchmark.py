"""What the side-by-side benchmarks share: the command line, the text, the turns, the figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sacrebleu

from benchmarks.plot import draw
from benchmarks.process import RunError, environment, run
from benchmarks.regard_side import Regard, recipe
from benchmarks.report import write_report
from benchmarks.side import BATCHES, BatchSize, Job, Setting, SetUpError, Side, Translated, Tuned
from benchmarks.text import Text, copy_raw, cut_into_pieces, digest
from regard.data.text.tokenizer import Tokenizer
from regard.machine import processor

ROOT = Path(__file__).resolve().parent.parent

Makers = Mapping[str, Callable[[argparse.Namespace, int], Side]]
"""Sides by the names that --sides takes, each made from the options and the size of the vocabulary."""


@dataclass(frozen=True)
class Plan:
    """What a benchmark measures; `name` is that of its script, of its figures, and of its place in the report."""

    name: str
    about: str  # the script's docstring
    makers: Makers
    batches: tuple[BatchSize, ...]
    jobs: tuple[Job, ...]
    minutes_per_run: float
    translation_epochs: float  # enough for outputs of usual length and a BLEU that means something


def measure(plan: Plan, arguments: Sequence[str]) -> None:
    """Set everything up, measure, report."""
    options = parse(plan, arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exception, so that the toolkit under way ends too
    options.work.mkdir(parents=True, exist_ok=True)
    bench = Benchmark(plan, options)
    bench.prepare_text()
    bench.choose_sides()
    if options.only == "models":
        bench.make_models()
        return
    if options.only != "translate":
        bench.measure_training()
    if options.only != "train":
        bench.make_models()
        bench.tune()
        bench.measure_translation()
    bench.save()
    write_report(options.report, bench.results)
    draw(bench.results, options.report.parent / "images" / f"performance-{plan.name}.png")
    figures = options.report.with_name(f"performance-{plan.name}.json")
    shutil.copyfile(bench.json, figures)
    say(f"wrote {options.report} with its picture, and the figures of every run to {figures}")


def beside_peers(about: str) -> argparse.ArgumentParser:
    """The options of every benchmark that learns from text beside peers."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the text")
    parser.add_argument("--source", default="en", help="language to translate from (en)")
    parser.add_argument("--target", default="de", help="language to translate into (de)")
    parser.add_argument("--test", default="test_2016_flickr", help="name of the test set (test_2016_flickr)")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "benchmark", help="folder for all that is made")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="CPU threads (all)")
    parser.add_argument("--torch-index", help="where pip finds torch for the peers, if not where it looks by itself")
    return parser


def parse(plan: Plan, arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = beside_peers(plan.about)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each kind (3)")
    parser.add_argument(
        "--minutes-per-run",
        type=float,
        default=plan.minutes_per_run,
        help=f"measured training ({plan.minutes_per_run})",
    )
    parser.add_argument(
        "--translation-epochs",
        type=float,
        default=plan.translation_epochs,
        help=f"training of the models that translate ({plan.translation_epochs})",
    )
    parser.add_argument("--sentences", type=int, help="translate so many sentences only")
    parser.add_argument(
        "--only", choices=("train", "models", "translate"), help="measure only this; models: train what translates"
    )
    names = ",".join(plan.makers)
    parser.add_argument("--sides", default=names, help=f"which to measure ({names})")
    tables = ROOT / "docs" / "performance-tables.md"
    parser.add_argument("--report", type=Path, default=tables, help=f"file for the tables ({tables.name})")
    options = parser.parse_args(arguments)
    options.work, options.data = options.work.resolve(), options.data.resolve()
    return options


class Benchmark:
    """One run of the command; results are kept in the work folder as they come."""

    def __init__(self, plan: Plan, options: argparse.Namespace) -> None:
        self.plan = plan
        self.options = options
        self.json = options.work / f"{plan.name}.json"
        self.sides: list[Side] = []
        self.text: Text
        # with --only, the other kind's figures of an earlier run stay
        self.results: dict[str, Any] = json.loads(self.json.read_text("utf-8")) if self.json.exists() else {}
        for key in ("gemm", "parameters", "flop_per_token"):
            self.results.setdefault(key, {})
        self.results |= {"machine": machine(options.threads), "date": time.strftime("%Y-%m-%d"), "left_out": []}
        self.results |= {"name": plan.name, "repeats": options.repeats}
        command = command_line(plan, options)
        earlier = self.results.get("commands", []) if options.only else []
        self.results["commands"] = list(dict.fromkeys([*earlier, command]))

    def prepare_text(self) -> None:
        """Learn the pieces with `regard train` itself (one update), and write the text in them for the peers."""
        options, folder = self.options, self.options.work / "text"
        languages = (options.source, options.target)
        say("preparing the text")
        copy_raw(options.data, folder, languages, options.test, options.sentences)
        pieces, learned_from = options.work / "pieces" / "model" / "tokenizer.json", folder / "learned-from.txt"
        if not pieces.exists() or not learned_from.exists() or learned_from.read_text() != digest(folder, languages):
            setting = self.setting("pieces", "default")
            Regard("luong", 0).run_training(folder, languages, recipe("luong", BATCHES[0], updates=1), setting, None)
            learned_from.write_text(digest(folder, languages))
        tokenizer = Tokenizer.load(pieces)
        self.text = cut_into_pieces(folder, languages, tokenizer)
        self.results["text"] = (
            f"{options.source}→{options.target}, {tokenizer.size:,} joint BPE pieces, "
            f"{self.text.test_sentences:,} test sentences."
        )

    def choose_sides(self) -> None:
        """Install the peers; one that cannot be installed is left out, and said."""
        makers, wanted = self.plan.makers, self.options.sides.split(",")
        for name in wanted:
            if name not in makers:
                raise SystemExit(f"--sides {name}: there is no such side; there are {', '.join(makers)}.")
        for name in makers:  # in the plan's order: a lender comes before who borrows from it
            if name not in wanted:
                continue
            side = makers[name](self.options, self.text.vocabulary)
            say(f"setting up {side.name}")
            try:
                side.set_up()
            except SetUpError as error:
                self.leave_out(side, f"it could not be installed ({error})")
                continue
            self.sides.append(side)
            self.results["flop_per_token"][side.name] = side.cost.training(self.text.source_per_target)

    # --- measuring ------------------------------------------------------------------------------------------------

    def measure_training(self) -> None:
        """Target tokens per second and memory."""
        self.begin("train")
        for repeat in range(self.options.repeats):
            for batch in self.plan.batches:
                self.measure_gemm("train")
                for side, allocator in self.turns(repeat, "train"):
                    if side not in self.sides:
                        continue
                    setting = self.setting("run", allocator)
                    try:
                        speeds, finished = side.train(self.text, batch, self.options.minutes_per_run, setting)
                    except RunError as error:
                        self.leave_out(side, str(error))
                        continue
                    # the stretches have as many updates each, so their mean speed is the harmonic one
                    speed = statistics.harmonic_mean(speeds)
                    say(f"  {side.name}, {allocator}, {batch.name}: {speed:,.0f} tok/s")
                    record = {"batch": batch.name, "tokens_per_second": speed, "stretches": speeds}
                    self.add("train", side, allocator, repeat, record | {"peak_megabytes": finished.peak_megabytes})

    def make_models(self) -> None:
        """The models that translate, once; they stay in the folder `models`: remove it to train them again."""
        epochs = self.options.translation_epochs
        for side in [side for side in self.sides if side.translation_allocators]:
            folder = self.model_folder(side.name)
            done = folder / "parameters.txt"
            lender = self.model_folder(side.borrows or side.name)
            if side.borrows is not None and not (lender / done.name).exists():
                self.leave_out(side, f"it translates with the model of {side.borrows}, which is not there")
                continue
            if not done.exists():
                how = (
                    f"training {side.name} for {epochs:g} epochs" if side.borrows is None else f"preparing {side.name}"
                )
                say(f"{how}, to translate with it")
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                setting = Setting(folder, self.options.threads, "tuned")
                try:
                    parameters = side.make_model(self.text, epochs, lender, setting)
                except RunError as error:
                    self.leave_out(side, str(error))
                    continue
                done.write_text(str(parameters), "utf-8")
            self.results["parameters"][side.name] = int(done.read_text("utf-8"))

    def tune(self) -> None:
        """Let the sides that can find their best settings."""
        self.results["tried"] = []
        for side in list(self.sides):
            if not isinstance(side, Tuned):
                continue
            for job in self.plan.jobs:
                if job.whole_process:
                    continue
                setting = self.setting("run", "default")
                say(f"looking for the best setting of {side.name}: {job.name}")
                try:
                    tried = side.tune(self.text, job, self.model_folder(side.name), setting)
                except RunError as error:
                    self.leave_out(side, str(error))
                    break
                self.results["tried"] += [{"side": side.name} | asdict(each) for each in tried]

    def measure_translation(self) -> None:
        """Sentences per second, start-up excluded, and memory."""
        self.begin("translate")
        for repeat in range(self.options.repeats):
            for job in self.plan.jobs:
                self.measure_gemm("translate")
                for side, allocator in self.turns(repeat, "translate"):
                    if side not in self.sides or (job.batch is None and not side.own_batches):
                        continue
                    setting = self.setting("run", allocator)
                    try:
                        done = side.translate(self.text, job, self.model_folder(side.name), setting)
                    except RunError as error:
                        self.leave_out(side, str(error))
                        continue
                    self.add("translate", side, allocator, repeat, self.translation(side, job, done))

    def translation(self, side: Side, job: Job, done: Translated) -> dict[str, Any]:
        """The figures of a job."""
        seconds = done.process.seconds if job.whole_process else done.seconds
        speed, length = done.sentences / seconds, done.tokens / done.sentences
        say(f"  {side.name}, {job.name}: {speed:.1f} sentences/s of {length:.1f} tokens")
        record: dict[str, Any] = {"job": job.name, "batch": job.batch, "whole_process": job.whole_process}
        record |= {"shortlist": side.shortlist, "sentences_per_second": speed, "tokens_per_sentence": length}
        record["peak_megabytes"] = done.process.peak_megabytes
        if not side.shortlist:  # with one, there is no telling how much of the output layer is computed
            source = self.text.test_source_tokens / self.text.test_sentences
            record["flop_per_sentence"] = side.cost.translating(source, length, job.beam)
        if done.output is not None and job.batch is None:
            record["bleu"] = bleu(done.output, self.text.raw("test", self.text.target))
        return record

    def measure_gemm(self, section: str) -> None:
        """The machine's limit at this moment."""
        setting = self.setting("run", "default")
        command: list[str | Path] = [sys.executable, "-P", Path(__file__).with_name("gemm.py")]
        finished = run(command, setting.folder, environment(setting.threads, "default"), setting.folder / "log.txt")
        self.results["gemm"][section].append(float(finished.lines[-1]))

    # --- bookkeeping ----------------------------------------------------------------------------------------------

    def turns(self, repeat: int, section: str) -> list[tuple[Side, str]]:
        """Sides and allocators, another one first each time."""
        pairs = [
            (side, allocator)
            for side in self.sides
            for allocator in (side.allocators if section == "train" else side.translation_allocators)
        ]
        first = repeat % max(1, len(pairs))
        return pairs[first:] + pairs[:first]

    def setting(self, name: str, allocator: str) -> Setting:
        """A fresh folder to run in."""
        folder = self.options.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return Setting(folder, self.options.threads, allocator)

    def model_folder(self, side: str) -> Path:
        """Where a side's model for translating lies."""
        options = self.options
        name = f"{side} {options.source} {options.target} {options.translation_epochs:g}"
        return Path(options.work / "models" / name.replace(",", "").replace(" ", "-"))

    def begin(self, section: str) -> None:
        """Drop an earlier run's figures of this kind."""
        self.results[section] = []
        self.results["gemm"][section] = []
        say(f"measuring: {section}")

    def add(self, section: str, side: Side, allocator: str, repeat: int, record: dict[str, Any]) -> None:
        """Keep a figure, on disk too."""
        self.results[section].append({"side": side.name, "allocator": allocator, "repeat": repeat} | record)
        self.save()

    def save(self) -> None:
        """Write all figures."""
        self.json.write_text(json.dumps(self.results, indent=1, ensure_ascii=False) + "\n", "utf-8")

    def leave_out(self, side: Side, why: str) -> None:
        """Go on without a side."""
        say(f"leaving out {side.name}: {why}")
        reason = why.splitlines()[0].replace(str(self.options.work), "WORK")
        self.results["left_out"].append(f"{side.name}: {reason}")
        if side in self.sides:
            self.sides.remove(side)


def bleu(output: Path, reference: Path) -> float:
    """sacrebleu's default."""
    hypotheses, references = (path.read_text("utf-8").removesuffix("\n").split("\n") for path in (output, reference))
    return float(sacrebleu.corpus_bleu(hypotheses, [references[: len(hypotheses)]]).score)


def machine(threads: int) -> dict[str, Any]:
    """What the figures depend on; no names of hosts or folders."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    facts = {"cpu": cpu_name(), "cores": cores, "memory_gib": memory, "threads": threads}
    return facts | {"python": platform.python_version(), "torch": version("torch"), "regard": version("regard")}


def cpu_name() -> str:
    """What the processor calls itself, and its generation."""
    generation = processor.cpu_generation()
    return processor.cpu_name() + (f" ({generation})" if generation else "")


def command_line(plan: Plan, options: argparse.Namespace) -> str:
    """The command that was given, without local paths."""
    words = ["python", f"benchmarks/{plan.name}.py", "--data", "DIR"]
    for name in ("source", "target", "test", "repeats", "minutes_per_run", "translation_epochs"):
        words += ["--" + name.replace("_", "-"), str(getattr(options, name))]
    for name in ("sentences", "threads", "only"):
        if getattr(options, name) is not None:
            words += [f"--{name}", str(getattr(options, name))]
    return shlex.join([*words, "--sides", options.sides])


def say(line: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)

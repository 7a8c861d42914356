"""Recurrent models of one size, side by side: Regard, OpenNMT-py and JoeyNMT.

    python benchmarks/recurrent.py --data DIR

DIR holds train.en, train.de, test_2016_flickr.en and so on, plain or .gz. The peers are installed into environments of
their own below the work folder. All sides see the same text in the same 8,000 pieces; the sides take turns, and each
result is the median of the repeats. Every run's figures go to a JSON file, the tables to docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if not __package__:
    sys.path[0] = str(ROOT)  # started as a script: `benchmarks` is a package all the same

from benchmarks.joey import Joey  # noqa: E402
from benchmarks.opennmt import OpenNmt  # noqa: E402
from benchmarks.process import RunError, environment, run  # noqa: E402
from benchmarks.regard_side import MODELS, Regard  # noqa: E402
from benchmarks.report import write_report  # noqa: E402
from benchmarks.side import BATCHES, Job, Setting, SetUpError, Side  # noqa: E402
from benchmarks.text import Text, copy_raw, cut_into_pieces  # noqa: E402
from regard.text.tokenizer import Tokenizer  # noqa: E402

VOCABULARY = 8000
LONE_SENTENCES = 200


def main() -> None:
    """Set everything up, measure, report."""
    options = parse(sys.argv[1:])
    options.work.mkdir(parents=True, exist_ok=True)
    bench = Benchmark(options)
    bench.prepare_text()
    bench.choose_sides()
    if options.only != "translate":
        bench.measure_training()
    if options.only != "train":
        bench.train_models()
        bench.measure_translation()
    bench.save()
    write_report(options.report, bench.results)
    figures = options.report.with_name(f"{options.report.stem}-recurrent.json")
    shutil.copyfile(bench.json, figures)
    say(f"wrote {options.report}, and the figures of every run to {figures}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the text")
    parser.add_argument("--source", default="en", help="language to translate from (en)")
    parser.add_argument("--target", default="de", help="language to translate into (de)")
    parser.add_argument("--test", default="test_2016_flickr", help="name of the test set (test_2016_flickr)")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "benchmark", help="folder for all that is made")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each kind (3)")
    parser.add_argument("--minutes-per-run", type=float, default=1.0, help="training time that is measured (1)")
    parser.add_argument("--translation-updates", type=int, default=900, help="training of the models that translate")
    parser.add_argument("--sentences", type=int, help="translate so many sentences only")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="CPU threads (all)")
    parser.add_argument("--only", choices=("train", "translate"), help="measure only this")
    parser.add_argument("--sides", default="luong,bahdanau,opennmt,joeynmt", help="which to measure (all four)")
    parser.add_argument("--torch-index", help="where pip finds torch for the peers, if not where it looks by itself")
    parser.add_argument("--report", type=Path, default=ROOT / "docs" / "performance.md", help="file for the tables")
    options = parser.parse_args(arguments)
    options.work, options.data = options.work.resolve(), options.data.resolve()
    return options


class Benchmark:
    """One run of the command; results are kept in the work folder as they come."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.json = options.work / "recurrent.json"
        self.sides: list[Side] = []
        self.text: Text
        # with --only, the other kind's figures of an earlier run stay
        self.results: dict[str, Any] = json.loads(self.json.read_text("utf-8")) if self.json.exists() else {}
        for key in ("gemm", "parameters", "flop_per_token"):
            self.results.setdefault(key, {})
        self.results |= {"machine": machine(options.threads), "date": time.strftime("%Y-%m-%d"), "left_out": []}
        self.results |= {"repeats": options.repeats}
        commands = self.results.setdefault("commands", [])
        commands[:] = (
            list(dict.fromkeys([*commands, command_line(options)])) if options.only else [command_line(options)]
        )

    def prepare_text(self) -> None:
        """Learn the pieces with `regard train` itself (one update), and write the text in them for the peers."""
        options, folder = self.options, self.options.work / "text"
        languages = (options.source, options.target)
        say("preparing the text")
        copy_raw(options.data, folder, languages, options.test, options.sentences)
        setting = self.setting("pieces", "default")
        Regard("luong", VOCABULARY).run_training(folder, languages, BATCHES[0], 1, setting, None)
        tokenizer = Tokenizer.load(setting.folder / "model" / "tokenizer.json")
        self.text = cut_into_pieces(folder, languages, tokenizer)
        self.results["text"] = (
            f"{options.source}→{options.target}, {tokenizer.size:,} joint BPE pieces, "
            f"{self.text.test_sentences:,} test sentences."
        )

    def choose_sides(self) -> None:
        """Install the peers; one that cannot be installed is left out, and said."""
        options, size = self.options, self.text.vocabulary
        makers: dict[str, Callable[[], Side]] = {
            **{kind: lambda kind=kind: Regard(kind, size) for kind in MODELS},  # type: ignore[misc]
            "opennmt": lambda: OpenNmt(options.work / "opennmt-environment", size, options.torch_index),
            "joeynmt": lambda: Joey(options.work / "joeynmt-environment", size, options.torch_index),
        }
        for name in options.sides.split(","):
            if name not in makers:
                raise SystemExit(f"--sides {name}: there is no such side; there are {', '.join(makers)}.")
            side = makers[name]()
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
            for batch in BATCHES:
                self.measure_gemm("train")
                for side, allocator in self.turns(repeat):
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

    def train_models(self) -> None:
        """The models that translate, once; they stay in the folder `models`: remove it to train them again."""
        updates = self.options.translation_updates
        for side in list(self.sides):
            folder = self.model_folder(side)
            done = folder / "parameters.txt"
            if not done.exists():
                say(f"training {side.name} for {updates} updates, to translate with it")
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                try:
                    parameters = side.train_model(self.text, updates, Setting(folder, self.options.threads, "tuned"))
                except RunError as error:
                    self.leave_out(side, str(error))
                    continue
                done.write_text(str(parameters), "utf-8")
            self.results["parameters"][side.name] = int(done.read_text("utf-8"))

    def measure_translation(self) -> None:
        """Sentences per second, start-up excluded, and memory."""
        self.begin("translate")
        for repeat in range(self.options.repeats):
            for job in jobs():
                self.measure_gemm("translate")
                for side, allocator in self.turns(repeat):
                    if side not in self.sides or (job.batch is None and not side.own_batches):
                        continue
                    setting = self.setting("run", allocator)
                    try:
                        done = side.translate(self.text, job, self.model_folder(side), setting)
                    except RunError as error:
                        self.leave_out(side, str(error))
                        continue
                    speed, length = done.sentences / done.seconds, done.tokens / done.sentences
                    source = self.text.test_source_tokens / self.text.test_sentences
                    say(f"  {side.name}, {allocator}, {job.name}: {speed:.1f} sentences/s of {length:.1f} tokens")
                    record = {"job": job.name, "batch": job.batch, "sentences_per_second": speed}
                    record |= {"tokens_per_sentence": length, "peak_megabytes": done.peak_megabytes}
                    record["flop_per_sentence"] = side.cost.translating(source, length, job.beam)
                    self.add("translate", side, allocator, repeat, record)

    def measure_gemm(self, section: str) -> None:
        """The machine's limit at this moment."""
        setting = self.setting("run", "default")
        command: list[str | Path] = [sys.executable, Path(__file__).with_name("gemm.py")]
        finished = run(command, setting.folder, environment(setting.threads, "default"), setting.folder / "log.txt")
        self.results["gemm"][section].append(float(finished.lines[-1]))

    # --- bookkeeping ----------------------------------------------------------------------------------------------

    def turns(self, repeat: int) -> list[tuple[Side, str]]:
        """Sides and allocators, another one first each time."""
        pairs = [(side, allocator) for side in self.sides for allocator in side.allocators]
        first = repeat % max(1, len(pairs))
        return pairs[first:] + pairs[:first]

    def setting(self, name: str, allocator: str) -> Setting:
        """A fresh folder to run in."""
        folder = self.options.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return Setting(folder, self.options.threads, allocator)

    def model_folder(self, side: Side) -> Path:
        """Where a side's model for translating lies."""
        options = self.options
        name = f"{side.name} {options.source} {options.target} {options.translation_updates}"
        return Path(options.work / "models" / name.replace(" ", "-"))

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


def jobs() -> list[Job]:
    """Ways to translate."""
    return [
        Job("greedy, batch 32", 1, 32, None),
        Job("beam 5, batch 32", 5, 32, None),
        Job("greedy, own batches", 1, None, None),
        Job("beam 5, own batches", 5, None, None),
        Job("greedy, one by one", 1, 1, LONE_SENTENCES),
        Job("beam 5, one by one", 5, 1, LONE_SENTENCES),
    ]


def machine(threads: int) -> dict[str, Any]:
    """What the figures depend on; no names of hosts or folders."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    facts = {"cpu": cpu_name(), "cores": cores, "memory_gib": memory, "threads": threads}
    return facts | {"python": platform.python_version(), "torch": version("torch"), "regard": version("regard")}


def cpu_name() -> str:
    """What the processor calls itself."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def command_line(options: argparse.Namespace) -> str:
    """The command that was given, without local paths."""
    words = ["python", "benchmarks/recurrent.py", "--data", "DIR"]
    for name in ("source", "target", "test", "repeats", "minutes_per_run", "translation_updates"):
        words += ["--" + name.replace("_", "-"), str(getattr(options, name))]
    for name in ("sentences", "threads", "only"):
        if getattr(options, name) is not None:
            words += [f"--{name}", str(getattr(options, name))]
    return shlex.join([*words, "--sides", options.sides])


def say(line: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

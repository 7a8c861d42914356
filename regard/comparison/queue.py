"""Trains and evaluates every entrant, one after the other.

OUT/results.json           the arguments, and the results of finished entrants
OUT/NAME-SEED/             the model folders; NAME ends in a digest where signs are replaced
OUT/translations/          the translations of the test set, one file per entrant
OUT/comparison.md, .html   the report, rewritten after each entrant

It can be resumed: what is in results.json is skipped, an interrupted training is resumed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.comparison.entrants import Entrant, parse_entrants, with_common_text, with_one_precision
from regard.comparison.measure import Test, measure
from regard.comparison.results import REPORTS, Comparison
from regard.config.recipes import with_overrides
from regard.config.settings import Recipe
from regard.errors import ConfigError, ModelFolderError
from regard.evaluation.test_set import TestSet, TestText, given_test_set
from regard.inference.box import COMPARED, boxed_models, own_sentences
from regard.inference.captioner_evaluation import learned_scenes
from regard.process import tune_process
from regard.storage.files import write_json
from regard.storage.folder import holds_finished_model, read_metrics
from regard.storage.reading import read_json
from regard.storage.run import holds_run
from regard.training import Data, train
from regard.training.start import FilePath

RESULTS = "results.json"
LONG_ENOUGH, SHORT_ENOUGH, SHOWN = 5, 14, 2  # words of test sentences whose attention is drawn, and how many


def compare(
    entrants: Sequence[str],
    *,
    out: FilePath,
    train: Data | None = None,
    valid: Data | None = None,
    test: TestText | tuple[FilePath, FilePath] | TestSet | None = None,
    gold: FilePath | None = None,
    sentences: Sequence[str] = (),
    budget: str | None = None,
    epochs: float | None = None,
    vocabulary: int | None = None,
    seeds: int = 1,
    beam: int | None = None,
    overrides: Sequence[str] = (),
    device: str = "cpu",
    threads: int | None = None,
    progress: bool = True,
) -> Comparison:
    """Train each recipe with each seed under the same budget, evaluate everything on one test set, write the report.

    `entrants` are recipes, `RECIPE:KEY=VALUE,…`, model folders and names of installed models; braces make a grid.
    `budget` (time) or `epochs` (tokens) is the same for all. Translation recipes share one joint vocabulary. `test` is
    needed for text; embedded corpora have their own, and installed models of one direction short and long sentences.
    Models that learned from embedded images are tested on those.
    """
    tune_process(threads)
    chosen = with_one_precision(parse_entrants(entrants, [*_ends(budget, epochs), *overrides]))
    text = chosen[0].task == "translation"
    if text:
        chosen = with_common_text(chosen, vocabulary)
    if any(entrant.folder is None for entrant in chosen) and train is None:
        raise ConfigError("recipes need training data: give --train, or compare trained models only.")
    if test is None and train is None:
        test = own_test(chosen) if text else own_images(chosen)
    queue = _Queue(Path(out), train, valid, _test(text, train, test, gold, sentences, beam), device, threads, progress)
    asked = {"train": _describe_data(train), "test": _describe_data(test), "budget": budget, "epochs": epochs}
    queue.open(asked | {"vocabulary": vocabulary, "beam": beam, "overrides": list(overrides)}, chosen[0].task)
    # Seeds outside, so that an interrupted comparison has results for every entrant.
    for seed in range(1, seeds + 1):
        for entrant in chosen:
            queue.run(entrant, seed, seeds)
    return queue.report()


def own_test(chosen: Sequence[Entrant]) -> TestSet | None:
    """For installed models of one direction: sentences of their package, short and long; None for other models."""
    installed = {model.folder: model.languages for model in boxed_models()}
    directions = {installed.get(entrant.folder) for entrant in chosen if entrant.folder is not None}
    languages = directions.pop() if len(directions) == 1 else None
    rows = own_sentences(file=COMPARED)
    if languages is None or not rows or not set(languages) <= rows[0].keys():
        return None
    source, target = ([row[language] for row in rows] for language in languages)
    return TestSet(f"{len(rows)} sentences of regard-models", source, [target])


def own_images(chosen: Sequence[Entrant]) -> str | None:
    """For models that all learned from the same embedded images: their name; None for other images."""
    names = set()
    for metrics in (read_metrics(each.folder) for each in chosen if each.folder is not None):
        learned = str(metrics.get("data", {}).get("train", {}).get("data", ""))
        names.add(learned if learned.startswith("toy:") else learned_scenes(metrics))
    return names.pop() if len(names) == 1 else None


def _ends(budget: str | None, epochs: float | None) -> list[str]:
    """The common end of every training; a recipe's own end is unset."""
    if budget is None and epochs is None:
        return []
    ends = {"budget": budget, "epochs": epochs, "updates": None}
    return [f"training.{name}={'none' if value is None else value}" for name, value in ends.items()]


def _describe_data(data: object) -> str:
    """Data as one line, to recognise it on resume."""
    if data is None:
        return ""
    if isinstance(data, TestSet):
        return data.description
    if isinstance(data, tuple | list) and all(isinstance(part, str | Path) for part in data[:2]) and len(data) == 2:
        return " ".join(str(part) for part in data)
    return str(data) if isinstance(data, str | Path) else "data from Python"


def _test(
    text: bool,
    train: Data | None,
    test: TestText | tuple[FilePath, FilePath] | TestSet | None,
    gold: FilePath | None,
    sentences: Sequence[str],
    beam: int | None,
) -> Test:
    if not text:
        images = test if test is not None else train
        return Test(images=images if isinstance(images, str | Path) else None, beam=beam)
    if test is None:
        if not (isinstance(train, str) and train.startswith("toy:")):
            raise ConfigError("there is no test set: give --test SOURCE REFERENCE.")
        opened = given_test_set(":".join(train.split(":")[:3]))
    elif isinstance(test, TestSet):
        opened = test
    elif isinstance(test, tuple):
        opened = given_test_set(str(test[0]), str(test[1]), gold)
    else:
        opened = given_test_set(test, None, gold)
    drawn = (
        tuple(sentences)
        or tuple(source for source in opened.sources if LONG_ENOUGH <= len(source.split()) <= SHORT_ENOUGH)[:SHOWN]
    )
    return Test(text=opened, beam=beam, sentences=drawn)


class _Queue:
    """One call of `compare`."""

    def __init__(
        self,
        out: Path,
        train: Data | None,
        valid: Data | None,
        test: Test,
        device: str,
        threads: int | None,
        progress: bool,
    ) -> None:
        self.out, self.train, self.valid, self.test = out, train, valid, test
        self.device, self.threads, self.progress = device, threads, progress
        self.record: dict[str, Any] = {}

    def open(self, asked: dict[str, Any], task: str) -> None:
        """The results so far; results of another comparison raise."""
        path = self.out / RESULTS
        if not path.exists():
            if there := [name for name in REPORTS if (self.out / name).exists()]:
                raise ModelFolderError(
                    f"{self.out / there[0]}: was not written by `regard compare`: choose another --out."
                )
            self.out.mkdir(parents=True, exist_ok=True)
            self.record = {"asked": asked, "task": task, "runs": {}}
            return
        self.record = read_json(path)
        for key, value in asked.items():
            before = self.record.get("asked", {}).get(key)
            if before != value:
                raise ModelFolderError(
                    f"{self.out}: holds a comparison with {key} {before!r}, not {value!r}: choose another folder."
                )

    def run(self, entrant: Entrant, seed: int, seeds: int) -> None:
        """Train one entrant, or resume, and evaluate it; nothing if it is done. A trained model has one result."""
        key = f"{entrant.name}#{seed}"
        if key in self.record["runs"] or (entrant.folder is not None and seed > 1):
            return
        if self.progress:
            print(f"{entrant.name}" + (f", seed {seed} of {seeds}" if seeds > 1 and entrant.recipe else ""))
        folder = entrant.folder or self._trained(entrant, seed)
        found = measure(entrant.task, folder, self.test, self.device, entrant.search)
        self._keep_translations(entrant, seed, found.pop("translations", None))
        self.record["runs"][key] = {"entrant": entrant.name, "seed": seed, "folder": str(folder)} | found
        write_json(self.out / RESULTS, self.record)
        self.report()

    def report(self) -> Comparison:
        """Write the report of what is finished."""
        comparison = Comparison.read(self.record, self.out, self.test)
        comparison.write(self.out)
        return comparison

    def _trained(self, entrant: Entrant, seed: int) -> Path:
        """The folder of the trained model."""
        assert entrant.recipe is not None
        folder = self.out / f"{entrant.training}-{seed}"
        if not holds_finished_model(folder):
            resume = holds_run(folder / "training")
            recipe = with_overrides(entrant.recipe, [f"training.seed={seed}", *self._pieces(entrant)])
            train(
                None if resume else recipe,
                train=None if resume else self.train,
                valid=None if resume else self.valid,
                out=folder,
                resume=resume,
                device=self.device,
                threads=self.threads,
                progress=self.progress,
            )
        shutil.rmtree(folder / "training", ignore_errors=True)  # else one copy of the data per run
        return folder

    def _pieces(self, entrant: Entrant) -> list[str]:
        """The vocabulary of the first trained translator, so that all have the same subwords."""
        if not isinstance(entrant.recipe, Recipe):
            return []
        tokenizer = self.out / "tokenizer.json"
        for run in self.record["runs"].values():
            made = Path(run["folder"]) / tokenizer.name
            if not tokenizer.exists() and made.exists() and made.parent.parent == self.out:
                shutil.copyfile(made, tokenizer)
        return [f"text.source_tokenizer={tokenizer}"] if tokenizer.exists() else []

    def _keep_translations(self, entrant: Entrant, seed: int, lines: list[str] | None) -> None:
        if lines is None:
            return
        folder = self.out / "translations"
        folder.mkdir(exist_ok=True)
        (folder / f"{entrant.slug}-{seed}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")

"""Make the models of this package: train, measure, make compact, measure again, pack. `make models DATA=DIR` runs it.

DIR holds the text: DIR/tatoeba-eng-deu/train.de.gz, train.en.gz, val.…, test.…, and the same for tatoeba-eng-fra.
Trainings lie in WORK/GROUP-ARCHITECTURE. A finished one is packed, a stopped one resumed, an absent one begun; what is
packed already is left alone. With --pack nothing is trained: only finished trainings are packed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from measure import PACKAGE, Trained, floor_score, held_out_score

import regard
from regard.errors import RegardError
from regard.inference.box import CONFIG, METRICS, BoxedModel, Figure, Record, boxed_models
from regard.interop.compact import export_compact
from regard.process import tune_process
from regard.storage.files import write_bytes, write_json, writing_folder
from regard.storage.folder import CARD, COMPILED, WEIGHTS, WORDS_FILE, holds_finished_model
from regard.storage.run import holds_run
from regard.training import Interrupted

MOST_BYTES = 40_000_000  # of all models together
MOST_LOST = 0.2  # points of the test score that compact weights may cost
MARGIN = 3.0  # points below the measured score, for other processors: the floor of the tests
TATOEBA = "CC BY 2.0"
CREDIT = (
    "Sentence pairs by the contributors of Tatoeba (https://tatoeba.org), as distributed by "
    "https://www.manythings.org/anki, licensed CC BY 2.0 (https://creativecommons.org/licenses/by/2.0/)."
)
GENERATED = "Images that Regard generates; no data of others."


@dataclass(frozen=True)
class Plan:
    """A model to make."""

    name: str  # GROUP/ARCHITECTURE
    data: str  # a folder of DATA, or an embedded data set
    languages: tuple[str, str] | None = None
    vocabulary: str | None = None  # the model whose vocabulary it shares
    precision: str = "bfloat16"  # of its training: named, since "auto" depends on the processor

    @property
    def architecture(self) -> str:
        """The second part of the name, and the name of its recipe in recipes/box/."""
        return self.name.partition("/")[2]

    @property
    def folder(self) -> str:
        """The name of its folder in WORK."""
        return self.name.replace("/", "-")


GERMAN, FRENCH, FIRST = "tatoeba-eng-deu", "tatoeba-eng-fra", "de-en/transformer"
PLANS = [
    Plan(FIRST, GERMAN, ("de", "en"), precision="float32"),
    Plan("en-de/transformer", GERMAN, ("en", "de"), precision="float32"),
    *(
        Plan(f"de-en/{name}", GERMAN, ("de", "en"), vocabulary=FIRST, precision="float32")
        for name in ("bahdanau", "attention", "seq2seq")
    ),
    *(Plan(f"de-en/{name}", GERMAN, ("de", "en"), vocabulary=FIRST) for name in ("luong", "luong-local-p", "gnmt")),
    Plan("en-fr/transformer", FRENCH, ("en", "fr")),
    Plan("fr-en/transformer", FRENCH, ("fr", "en")),
    Plan("scenes/captioner", "toy:scenes", precision="float32"),
    Plan("two-ears/bam", "toy:two-ears", precision="float32"),
]


@dataclass(frozen=True)
class Places:
    """Where text, trainings and packed models lie."""

    data: Path
    work: Path
    package: Path
    threads: int

    def training(self, plan: Plan) -> Path:
        """The folder of a training."""
        return self.work / plan.folder

    def text(self, plan: Plan, split: str) -> tuple[str, str] | str:
        """The files of a split, or the embedded data."""
        if plan.languages is None:
            return plan.data
        source, target = (str(self.data / plan.data / f"{split}.{code}.gz") for code in plan.languages)
        return source, target


def train(plan: Plan, places: Places) -> None:
    """Train a model, or resume its training."""
    out = places.training(plan)
    if holds_run(out / "training"):
        regard.train(out=out, resume=True, threads=places.threads)
        return
    changes = [f"training.precision={plan.precision}"]
    if plan.languages is not None:
        changes.append(f"text.languages={json.dumps(plan.languages)}")
    if plan.vocabulary is not None:
        changes.append(f"text.source_tokenizer={json.dumps(str(vocabulary(plan.vocabulary, places)))}")
    valid = None if plan.languages is None else places.text(plan, "val")
    regard.train(
        f"box/{plan.architecture}",
        train=places.text(plan, "train"),
        valid=valid,
        out=out,
        threads=places.threads,
        overrides=changes,
    )


def vocabulary(name: str, places: Places) -> Path:
    """The tokenizer of another model of WORK, which is there as soon as its training has begun."""
    folder = places.training(next(plan for plan in PLANS if plan.name == name))
    for path in (folder / "tokenizer.json", folder / "training" / "tokenizer.json"):
        if path.exists():
            return path
    raise RegardError(f"{folder}: has no tokenizer.json yet: train {name} first.")


def pack(plan: Plan, places: Places) -> None:
    """Measure a trained model, make it compact, measure it again, and put it into the package."""
    trained, digest = places.training(plan), weights_digest(places.training(plan))
    target = places.package / plan.name
    if packed_digest(target) == digest:
        print(f"{plan.name}: is packed", flush=True)
        return
    before = held_out(regard.load(trained), plan, places)
    with writing_folder(target) as folder:
        compact = folder / "compact"
        export_compact(trained, compact)
        for path in compact.iterdir():
            path.rename(folder / path.name)
        compact.rmdir()
        (folder / WORDS_FILE).unlink(missing_ok=True)  # 3 MB of hashes in eleven models: more than a model
        settle_config(folder / CONFIG, plan)
        model = regard.load(folder)
        after = held_out(model, plan, places)
        print(f"{plan.name}: {before.value:.2f} {before.metric} before, {after.value:.2f} compact", flush=True)
        if after.value < before.value - MOST_LOST:
            raise RegardError(f"{plan.name}: compact weights lose more than {MOST_LOST}: it is not packed.")
        own = floor_score(model, plan.data, plan.languages)
        floor = own.model_copy(update={"value": max(0.0, round(own.value - MARGIN, 1))})
        record = Record(
            licence=TATOEBA if plan.languages else "generated",
            attribution=CREDIT if plan.languages else GENERATED,
            test=after.model_copy(update={"before": before.value}),
            floor=floor,
            weights=digest,
        )
        metrics = json.loads((folder / METRICS).read_text("utf-8"))
        write_json(folder / METRICS, metrics | {"box": record.model_dump()})
        shutil.rmtree(folder / COMPILED, ignore_errors=True)  # an engine's copy, of this machine
        write_bytes(folder / CARD, card((folder / CARD).read_text("utf-8"), plan, record, own).encode())


def held_out(model: Trained, plan: Plan, places: Places) -> Figure:
    """The score on the test set."""
    return held_out_score(model, plan.data, places.data / plan.data, plan.languages)


def settle_config(path: Path, plan: Plan) -> None:
    """Write the languages, and forget paths of the machine that trained: the tokenizer lies in the folder."""
    config = json.loads(path.read_text("utf-8"))
    if plan.languages is not None:
        config["text"] |= {"languages": plan.languages, "source_tokenizer": None}
    write_json(path, config)


def card(text: str, plan: Plan, record: Record, own: Figure) -> str:
    """The model card of the training, with name, test scores and attribution."""
    text = re.sub(r"^# .*$", f"# {plan.name}", text, count=1, flags=re.MULTILINE)
    lines = text.replace('regard.load(".")', f'regard.load("{plan.name}")').splitlines()
    test = record.test
    signature = f" (`{test.signature}`)" if test.signature else ""
    lines += [
        "",
        "## Test",
        "",
        f"- {test.data}: {test.value:.2f} {test.metric}{signature}; {test.before:.2f} before the weights were compact",
        f"- {own.data}: {own.value:.2f} {own.metric}; the tests of Regard ask for {record.floor.value:.1f}",
        "",
        "## Licence",
        "",
        f"Weights: Apache License 2.0. Data: {record.attribution}",
    ]
    return "\n".join(lines) + "\n"


def weights_digest(folder: Path) -> str:
    """The SHA-256 of the trained weights."""
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def packed_digest(folder: Path) -> str | None:
    """The SHA-256 of the weights that a packed model was made of; None if there is none."""
    try:
        return str(json.loads((folder / METRICS).read_text("utf-8"))["box"]["weights"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def make(plans: list[Plan], places: Places, *, only_pack: bool) -> int:
    """Make the models, in order; the exit code."""
    tune_process(places.threads)
    for plan in plans:
        if not holds_finished_model(places.training(plan)):
            if only_pack:
                print(f"{plan.name}: {places.training(plan)} holds no finished training: not packed", flush=True)
                continue
            print(f"{plan.name}: training in {places.training(plan)}", flush=True)
            train(plan, places)
        pack(plan, places)
    models = boxed_models(root=places.package)
    total = sum(each.bytes for each in models)
    print(f"{len(models)} of {len(PLANS)} models packed, {total / 1e6:.1f} MB of {MOST_BYTES / 1e6:.0f} MB")
    show(models)
    return 1 if total > MOST_BYTES else 0


def show(models: list[BoxedModel]) -> None:
    """What the package holds."""
    for model in models:
        test, size = model.record.test, model.bytes / 1e6
        print(f"  {model.name:<20} {size:5.2f} MB  {test.value:6.2f} {test.metric} ({test.before} before)")


def main() -> int:
    """Read the command line and make the models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these models: de-en/luong …")
    parser.add_argument("--data", type=Path, required=True, help="folder of the text")
    parser.add_argument("--work", type=Path, default=Path("build/models"), help="folder of the trainings")
    parser.add_argument("--package", type=Path, default=PACKAGE, help="folder to pack into")
    parser.add_argument("--threads", type=int, default=1, help="threads; part of what makes weights the same again")
    parser.add_argument("--pack", action="store_true", help="train nothing, pack finished trainings")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - {plan.name for plan in PLANS})
    if unknown:
        parser.error(f"{unknown[0]}: choose from {', '.join(plan.name for plan in PLANS)}")
    plans = [plan for plan in PLANS if plan.name in given.names or not given.names]
    places = Places(given.data, given.work, given.package, given.threads)
    try:
        return make(plans, places, only_pack=given.pack)
    except Interrupted as stopped:
        print("stopped; the same command continues", file=sys.stderr)
        return stopped.exit_code
    except RegardError as error:
        print(f"make.py: error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

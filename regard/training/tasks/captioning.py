"""Captioning as a task of the training loop: `train_captioner` takes a recipe and images, and returns a Captioner."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard import __version__
from regard.config.captioning import CaptionRecipe
from regard.config.recipes import check_as, with_overrides
from regard.config.settings import SearchSettings
from regard.config.vocabulary import BOS, EOS
from regard.data.images.captions import CaptionCorpus, Captioned, is_scenes, open_captions
from regard.data.text.batches import collate
from regard.data.text.sources import choose_tokenizer, spread
from regard.data.text.tokenizer import Tokenizer
from regard.decoding import search
from regard.errors import ConfigError, ModelFolderError, TrainingError
from regard.evaluation.scores import corpus_scores
from regard.inference.captioner import Captioner
from regard.inference.captioner_folder import write_captioner
from regard.models.contract import Batch, Model
from regard.models.show_attend_tell import ShowAttendTell
from regard.process import tune_process, usable_device
from regard.storage.files import write_bytes, write_json
from regard.storage.folder import JOINT, read_json
from regard.training.loop import Run, seed_of
from regard.training.loss import likelihood
from regard.training.prepare import RUN
from regard.training.progress import Reporter, check_tensorboard, choose_reporter
from regard.training.session import Session
from regard.training.start import check_out, count_parameters
from regard.training.task import Task
from regard.training.validation import SAMPLES, Validation

Given = str | PathLike[str]


def train_captioner(
    recipe: CaptionRecipe | None,
    *,
    data: Given = "toy:scenes",
    valid: Given | None = None,
    out: Given,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "cpu",
    threads: int | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
    tensorboard: bool = False,
) -> Captioner:
    """Train a captioner by a recipe and write its folder.

    `data` and `valid` are what `caption_data` tells of: "toy:scenes", a TSV file, or a folder with train.tsv and
    valid.tsv. `resume` goes on with the training in `out`; it needs no recipe and no images.
    """
    tune_process(threads)
    folder, target = Path(out), usable_device(device)
    if tensorboard:
        check_tensorboard()
    reporter = choose_reporter(progress)
    with Session.opened(folder, target, reporter, tensorboard) as session:
        if resume:
            return session.resume(CaptionTask.open, overrides)
        if recipe is None:
            raise ConfigError("no recipe was given: name one, such as captioner.")
        chosen = with_overrides(recipe, overrides)
        session.check_precision(chosen.training)
        sources = _sources(chosen, data, valid)
        check_out(folder, overwrite, CaptionTask.command)
        return session.start(lambda fresh: _prepare(chosen, sources, fresh, reporter), CaptionTask.open)


def _sources(recipe: CaptionRecipe, data: Given, valid: Given | None) -> dict[str, Captioned]:
    channels, training = recipe.model.image_channels, recipe.training
    if is_scenes(data) and channels != 3:
        raise ConfigError("model.image_channels = 1: the embedded scenes have colours; set it to 3.")
    train = open_captions(data, "train", channels)
    assert train is not None
    # A file that is named for validation is read as it is; a folder, or the scenes, have a part for it.
    named = open_captions(valid, "train" if Path(valid).is_file() else "valid", channels) if valid else None
    held_out = named or open_captions(data, "valid", channels)
    if held_out is None and (training.patience or training.schedule == "plateau" or training.average == "best"):
        raise ConfigError("patience, plateau and averaging the best need validation images: add a valid.tsv.")
    return {"train": train} | ({} if held_out is None else {"valid": held_out})


def _prepare(recipe: CaptionRecipe, sources: dict[str, Captioned], folder: Path, reporter: Reporter) -> Model:
    """Write everything that resuming needs, and build the model."""
    data: dict[str, Any] = {}
    for split, source in sources.items():
        reporter.say(f"reading {source.description}")

        def progress(count: int) -> None:
            reporter.working(f"reading, {count:,} images")

        data[split] = CaptionCorpus.write(source, folder / split, recipe.model.image_size, progress)
    captions = CaptionCorpus.open(folder / "train").texts()
    tokenizer = choose_tokenizer(recipe.text.target_tokenizer, captions, recipe.text)
    write_bytes(folder / JOINT, tokenizer.to_json().encode())
    write_json(folder / RUN, _run_record(recipe, data))
    task = CaptionTask.open(folder)
    model = task.build()
    reporter.say(
        f"{data['train']['images']:,} images with {data['train']['captions']:,} captions (skipped "
        f"{data['train']['skipped_blank']:,} blank ones); {tokenizer.size:,} pieces; {type(model).__name__} with "
        f"{count_parameters(model):,} parameters"
    )
    return model


def _run_record(recipe: CaptionRecipe, data: dict[str, Any]) -> dict[str, Any]:
    return {"version": __version__, "recipe": recipe.model_dump(mode="json"), "data": data}


@dataclass(frozen=True)
class CaptionTask(Task[Captioner]):
    """Captioned images that are prepared in OUT/training."""

    examples = "captions"
    command = "regard vision train"

    recipe: CaptionRecipe
    tokenizer: Tokenizer
    train: CaptionCorpus
    valid: CaptionCorpus | None
    data: dict[str, Any]  # what the images were, for the model card

    @classmethod
    def open(cls, folder: Path) -> CaptionTask:
        """Read what was prepared."""
        if not (folder / RUN).exists():
            raise ModelFolderError(
                f"{folder.parent}: holds no unfinished training: start one with `{cls.command} RECIPE --out …`."
            )
        record = read_json(folder / RUN)
        if record.get("version") != __version__:
            raise ModelFolderError(
                f"{folder / RUN}: was written by Regard {record.get('version')}, and this is {__version__}: "
                "resume with that version, or start anew."
            )
        return cls(
            check_as(CaptionRecipe, record["recipe"], str(folder / RUN)),
            Tokenizer.load(folder / JOINT),
            CaptionCorpus.open(folder / "train"),
            CaptionCorpus.open(folder / "valid") if (folder / "valid").exists() else None,
            record["data"],
        )

    def build(self) -> Model:
        """The recipe's model."""
        torch.manual_seed(seed_of(self.recipe.training.seed, 0))
        return ShowAttendTell(self.recipe.model, self.tokenizer.size)

    def plan(self) -> CaptionPlan:
        """Shuffled batches."""
        settings = self.recipe.training
        return CaptionPlan(self.train, self.tokenizer, settings.batch_images, settings.seed)

    def validator(self, device: torch.device) -> CaptionValidator | None:
        """Loss and BLEU."""
        return None if self.valid is None else CaptionValidator(self, self.valid, device)

    def changed(self, overrides: Sequence[str]) -> CaptionTask:
        """Model and text stay as they are."""
        recipe = with_overrides(self.recipe, overrides)
        if (recipe.model, recipe.text) != (self.recipe.model, self.recipe.text):
            raise ConfigError("--resume: model and text of a training cannot be changed: start a new one.")
        return replace(self, recipe=recipe)

    def save_recipe(self, folder: Path) -> None:
        """Write run.json."""
        write_json(folder / RUN, _run_record(self.recipe, self.data))

    def finish(self, run: Run, metrics: dict[str, Any]) -> Captioner:
        """A folder that `regard.load` reads."""
        assert isinstance(run.model, Model)
        metrics |= {"target_vocabulary": self.tokenizer.size, "data": self.data}
        name = run.out.resolve().name
        captioner = Captioner(run.model, self.recipe, self.tokenizer, metrics=metrics, device=run.device, name=name)
        write_captioner(run.out, captioner)
        return captioner


class CaptionPlan:
    """Captions in a random order, cut into batches; they are short, so that padding costs little."""

    def __init__(
        self, corpus: CaptionCorpus, tokenizer: Tokenizer, batch_images: int, seed: int, shuffle: bool = True
    ) -> None:
        self.corpus = corpus
        self.ids = tokenizer.encode_many(corpus.texts())
        self.batch_images = batch_images
        self.seed = seed
        self.shuffle = shuffle

    def epoch(self, number: int) -> list[npt.NDArray[np.int64]]:
        """The captions of each batch."""
        order = np.arange(len(self.ids))
        if self.shuffle:
            order = np.random.default_rng([self.seed, number]).permutation(order)
        return np.split(order, range(self.batch_images, len(order), self.batch_images))

    def batch(self, item: npt.NDArray[np.int64], /) -> Batch:
        """The tensors of these captions and their images."""
        ids = [self.ids[index] for index in item]
        images = self.corpus.images[[self.corpus.captions[index][0] for index in item]]  # (B, C, H, W)
        words = collate(ids, ids)
        return Batch(
            torch.from_numpy(np.ascontiguousarray(images)),
            None,
            words.target_in,
            words.target_out,
            words.target_mask,
            tuple(int(index) for index in item),
        )


class CaptionValidator:
    """Loss of the given captions, and BLEU of greedy ones against all captions of an image."""

    def __init__(self, task: CaptionTask, corpus: CaptionCorpus, device: torch.device) -> None:
        settings = task.recipe.training
        self.plan = CaptionPlan(corpus, task.tokenizer, settings.batch_images, 0, shuffle=False)
        self.items = self.plan.epoch(0)
        self.images = corpus.images[: settings.validation_captions]
        self.references = corpus.references(len(self.images))
        self.search = SearchSettings(**{**task.recipe.search.model_dump(), "beam": 1, "n_best": 1, "sample": False})
        self.tokenizer = task.tokenizer
        self.settings = settings
        self.device = device
        words = sum(len(ids) for ids in self.plan.ids)
        # Forwards only is a third of an update's work, and so is captioning an image.
        self.cost_tokens = words / 3 * (1 + len(self.images) / len(self.plan.ids))

    def use_part(self, share: float) -> None:
        """Use only this share of the captions and of the images that are captioned."""
        self.items = spread(self.items, max(1, round(share * len(self.items))))
        self.images = self.images[: max(1, round(share * len(self.images)))]
        self.references = [texts[: len(self.images)] for texts in self.references]
        self.cost_tokens *= share

    def __call__(self, model: Model, between: Callable[[], None] = lambda: None, /) -> Validation:
        """Validate; `between` is called between batches and may raise to break off."""
        training = model.training
        model.eval()
        try:
            loss, tokens = self._loss(model, between)
            if not self.references:
                return Validation(loss, tokens, select_by="loss")
            captions = self._captions(model, between)
        finally:
            model.train(training)
        bleu = corpus_scores(captions, self.references, metrics=("bleu",), tokenize="auto")["bleu"]
        samples = tuple(
            {"reference": reference, "caption": caption}
            for reference, caption in spread(list(zip(self.references[0], captions, strict=True)), SAMPLES)
        )
        return Validation(loss, tokens, round(bleu.value, 6), bleu.signature, self.settings.select_by, samples)

    @torch.inference_mode()
    def _loss(self, model: Model, between: Callable[[], None]) -> tuple[float, int]:
        total, tokens = 0.0, 0
        for item in self.items:
            between()
            batch = self.plan.batch(item).to(self.device)
            loss = likelihood(model, model(batch), batch)
            total += loss.negative_log_likelihood
            tokens += loss.tokens
        if not math.isfinite(total):
            raise TrainingError(
                "the validation loss is not finite: lower training.learning_rate or training.clip_norm."
            )
        return total / tokens, tokens

    def _captions(self, model: Model, between: Callable[[], None]) -> list[str]:
        texts: list[str] = []
        for first in range(0, len(self.images), self.settings.batch_images):
            between()
            images = torch.from_numpy(np.array(self.images[first : first + self.settings.batch_images]))
            found = search(model, images.to(self.device), None, self.search, bos=BOS, eos=EOS)
            texts += [self.tokenizer.decode(hypotheses[0].ids) for hypotheses in found]
        return texts

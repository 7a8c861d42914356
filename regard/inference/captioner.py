"""Captioner: a model with its tokenizer, from images to captions.

captioner = regard.load("models/scenes")
caption = captioner.caption("photo.png")
print(caption, caption.word_attention().shape)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from regard.config.captioning import CaptionRecipe
from regard.config.settings import SearchSettings
from regard.config.vocabulary import BOS, EOS, PAD
from regard.data.images.image_set import read_image
from regard.data.images.pixels import Picture, Pixels, as_tensor, check_pixels, png_of
from regard.data.text.batches import collate, source_batch
from regard.data.text.tokenizer import Token, Tokenizer
from regard.decoding.forced import force
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import search as run_search
from regard.decoding.search_settings import SearchChanges, chosen_settings
from regard.inference.box import model_folder
from regard.inference.caption import Caption
from regard.inference.folder import read_tokenizer
from regard.inference.representation import model_line
from regard.inference.translation import one_line
from regard.look.record import Look, LookedImage, Side
from regard.look.trace import record, walk_along
from regard.models.contract import Batch, Model
from regard.models.show_attend_tell import ShowAttendTell
from regard.nn.attention.intervention import Intervention
from regard.process import usable_device
from regard.storage.card import captioner_card
from regard.storage.folder import JOINT, WEIGHTS, read_config, read_metrics, write_model
from regard.storage.weights import build_checked, load_tensors, model_tensors, read_tensors

TOGETHER = 64  # images captioned at once
MOST_SHOWN = 512  # pixels of the longer side of an image in a look record


class Captioner:
    """A trained captioner. Like a Translator, it is thread-safe."""

    def __init__(
        self,
        model: Model,
        recipe: CaptionRecipe,
        tokenizer: Tokenizer,
        *,
        metrics: Mapping[str, Any] | None = None,
        device: str | torch.device = "cpu",
        name: str = "",
    ) -> None:
        self.device = usable_device(device)
        self.model = model.to(self.device).eval()
        self.recipe = recipe
        self.tokenizer = tokenizer
        self.metrics: dict[str, Any] = dict(metrics or {})
        self.name = name or recipe.model.kind

    def __repr__(self) -> str:
        grid = self.recipe.model.grid
        facts = [f"{grid} x {grid} cells", f"vocabulary {self.tokenizer.size:,}", str(self.device)]
        return model_line("Captioner", self.name, self.recipe.model.kind, self.model, facts)

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device = "cpu") -> Captioner:
        """The captioner of a folder that `regard train` wrote, or an installed one."""
        device, folder = usable_device(device), model_folder(folder)
        recipe, _ = read_config(folder, CaptionRecipe)
        tokenizer = read_tokenizer(folder / JOINT)
        model = build_checked(lambda: ShowAttendTell(recipe.model, tokenizer.size), folder / WEIGHTS)
        load_tensors(model, read_tensors(folder / WEIGHTS), folder / WEIGHTS)
        metrics = read_metrics(folder)
        return cls(model, recipe, tokenizer, metrics=metrics, device=device, name=folder.resolve().name)

    def save(self, folder: str | Path) -> None:
        """Write the model folder; an existing model is replaced."""
        folder = Path(folder)
        write_model(
            folder,
            recipe=self.recipe,
            weights=model_tensors(self.model),
            metrics=self.metrics,
            card=captioner_card(self.recipe, self.metrics, folder.resolve().name),
            files={JOINT: self.tokenizer.to_json().encode()},
            about={},
        )

    # --- captioning -----------------------------------------------------------------------------------------------

    @overload
    def caption(
        self,
        image: Picture,
        *,
        search: SearchChanges = ...,
        beam: int | None = ...,
        n_best: int | None = ...,
        attention: bool = ...,
        candidates: int = ...,
        prefix: str | Sequence[int] = ...,
        intervention: Intervention | None = ...,
    ) -> Caption: ...

    @overload
    def caption(
        self,
        image: list[Picture] | tuple[Picture, ...],
        *,
        search: SearchChanges = ...,
        beam: int | None = ...,
        n_best: int | None = ...,
        attention: bool = ...,
        candidates: int = ...,
        prefix: str | Sequence[int] = ...,
        intervention: Intervention | None = ...,
    ) -> list[Caption]: ...

    def caption(
        self,
        image: Picture | list[Picture] | tuple[Picture, ...],
        *,
        search: SearchChanges = None,
        beam: int | None = None,
        n_best: int | None = None,
        attention: bool = True,
        candidates: int = 0,
        prefix: str | Sequence[int] = "",
        intervention: Intervention | None = None,
    ) -> Caption | list[Caption]:
        """Caption one image or several; an image of another size is resized to the model's.

        `search` overrides the search settings of the recipe; `beam` and `n_best` are shortcuts. `prefix` is a target
        prefix, as text or as piece ids. `candidates` is the number of most probable pieces recorded at each step.
        """
        alone = not isinstance(image, list | tuple)
        captions = self.caption_images(
            [image] if alone else image,  # type: ignore[list-item, arg-type]  # told apart by `alone`
            search=self.search_settings(search, beam=beam, n_best=n_best),
            attention=attention,
            candidates=candidates,
            prefix=prefix,
            intervention=intervention,
        )
        return next(captions) if alone else list(captions)

    def caption_images(
        self,
        images: Iterable[Picture],
        *,
        search: SearchChanges = None,
        attention: bool = True,
        candidates: int = 0,
        prefix: str | Sequence[int] = "",
        intervention: Intervention | None = None,
        together: int = TOGETHER,
    ) -> Iterator[Caption]:
        """One caption for each image, in order; `together` images are held at a time."""
        settings = self.search_settings(search)
        beginning = self.tokenizer.encode_prefix(prefix)
        stream = iter(images)
        first = 0
        while chunk := [self.read(image) for image in islice(stream, together)]:
            source = torch.stack([self.tensor(pixels) for pixels in chunk]).to(self.device)
            forced = None
            if beginning:
                forced = source_batch([beginning] * len(chunk))[0].to(self.device)
            found = run_search(
                self.model,
                source,
                None,
                settings,
                prefix=forced,
                attention=attention,
                candidates=candidates,
                intervention=intervention,
                indices=range(first, first + len(chunk)),
                pad=PAD,
                bos=BOS,
                eos=EOS,
            )
            first += len(chunk)
            for pixels, hypotheses in zip(chunk, found, strict=True):
                yield self._captions(pixels, hypotheses)

    def force(
        self,
        image: Picture,
        text: str,
        *,
        attention: bool = True,
        candidates: int = 0,
        intervention: Intervention | None = None,
    ) -> Caption:
        """Forced decoding of a given caption: attention, candidates and log-probability."""
        pixels = self.read(image)
        ids = self.tokenizer.encode(text)
        words = collate([ids], [ids])
        source = self.tensor(pixels).unsqueeze(0)
        batch = Batch(source, None, words.target_in, words.target_out, words.target_mask).to(self.device)
        (forced,) = force(
            self.model,
            batch,
            attention=attention,
            candidates=candidates,
            intervention=intervention,
            alpha=self.recipe.search.length_penalty,
            beta=self.recipe.search.coverage_penalty,
        )
        return self._build(pixels, text, self.tokenizer.tokens(text), forced)

    def look(
        self,
        image: Picture,
        *,
        reference: str | None = None,
        prefix: str | Sequence[int] = "",
        beam: int | None = None,
        candidates: int = 5,
        intervention: Intervention | None = None,
    ) -> Look:
        """The look record of captioning an image, as described in docs/look-format.md.

        `reference` is a caption for forced decoding instead of the model's own.
        """
        pixels = self.read(image)
        if reference is None:
            caption = self.caption(pixels, beam=beam, prefix=prefix, intervention=intervention)
        else:
            caption = self.force(pixels, reference, intervention=intervention)
        source, target = self.tensor(pixels).unsqueeze(0), [token.id for token in caption.tokens]
        look = record(
            walk_along(self.model, source, None, target, intervention),
            caption,
            model=self.model,
            tokenizer=self.tokenizer,
            name=self.name,
            source=Side(text="", words=[], units=[], pieces=[]),
            candidates=candidates,
        )
        about = look.model.model_copy(update={"kind": self.recipe.model.kind})
        seen = {"image": picture_of(pixels, caption.grid), "model": about, "intervention": intervention}
        forced = len(self.tokenizer.encode_prefix(prefix)) if reference is None else 0
        return look.model_copy(update={**seen, "forced": reference is not None, "prefix": forced})

    # --- images, settings and results -----------------------------------------------------------------------------

    def read(self, image: Picture) -> Pixels:
        """The image as bytes (H, W, 3), or (H, W) for a model that reads grey images; refused if it does not fit."""
        channels = self.recipe.model.image_channels
        if isinstance(image, str | PathLike):
            return read_image(Path(image), channels)
        return check_pixels(image, channels)

    def tensor(self, pixels: Pixels) -> Tensor:
        """The image as the model reads it, bytes (C, H, W)."""
        return as_tensor(pixels, self.recipe.model.image_size)

    def search_settings(
        self, search: SearchChanges = None, *, beam: int | None = None, n_best: int | None = None
    ) -> SearchSettings:
        """The recipe's search settings with overrides; an `n_best` above the beam widens the beam."""
        return chosen_settings(self.recipe.search, search, beam=beam, n_best=n_best)

    def _captions(self, pixels: Pixels, hypotheses: Sequence[Hypothesis]) -> Caption:
        built = [
            (one_line(self.tokenizer.decode(each.ids)), self.tokenizer.decoded_tokens(each.ids), each)
            for each in hypotheses
        ]
        others = tuple(self._build(pixels, *each) for each in built[1:])
        return self._build(pixels, *built[0], others=others)

    def _build(
        self,
        pixels: Pixels,
        text: str,
        tokens: tuple[Token, ...],
        hypothesis: Hypothesis,
        others: tuple[Caption, ...] = (),
    ) -> Caption:
        piece, grid = self.tokenizer.piece, self.recipe.model.grid
        maps = hypothesis.alignment
        return Caption(
            image=pixels,
            text=text,
            tokens=tokens,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            finished=hypothesis.finished,
            attention=None if maps is None else maps.cpu().numpy().reshape(-1, grid, grid),
            candidates=tuple(
                tuple((piece(number), probability) for number, probability in step) for step in hypothesis.candidates
            ),
            token_log_probabilities=hypothesis.token_log_probabilities,
            _others=others,
        )


def picture_of(pixels: Pixels, grid: tuple[int, int]) -> LookedImage:
    """The image for the look record, downscaled if large."""
    picture = Image.fromarray(pixels)
    picture.thumbnail((MOST_SHOWN, MOST_SHOWN))
    return LookedImage(
        width=pixels.shape[1],
        height=pixels.shape[0],
        rows=grid[0],
        columns=grid[1],
        png=png_of(np.asarray(picture)),
    )

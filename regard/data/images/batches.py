"""Batches of images, with labels or captions, epoch by epoch."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.config.classification import ImageTrainingSettings
from regard.data.images.captions import CaptionCorpus
from regard.data.images.image_set import ImageSet
from regard.data.text.batches import collate
from regard.data.text.tokenizer import Tokenizer
from regard.models.contract import Batch


class Place(NamedTuple):
    """One batch of an epoch."""

    indices: npt.NDArray[np.int64]
    seed: tuple[int, ...]  # seed of its augmentation


class ImageBatchPlan:
    """The batches of each epoch; their sizes differ by at most one image."""

    def __init__(self, images: ImageSet, settings: ImageTrainingSettings, *, shuffle: bool = True) -> None:
        self.images = images
        self.settings = settings
        self.shuffle = shuffle

    def epoch(self, number: int) -> list[Place]:
        """The batches of an epoch."""
        order = np.arange(len(self.images))
        if self.shuffle:
            order = np.random.Generator(np.random.PCG64([self.settings.seed, number])).permutation(order)
        # Equal sizes: batch normalisation needs more than one image for its variance.
        count = max(1, -(-len(order) // self.settings.batch_images))
        parts = np.array_split(order, count)
        return [Place(part, (self.settings.seed, number, place)) for place, part in enumerate(parts)]

    def batch(self, item: Place) -> Batch:
        """The tensors of a batch, augmented during training."""
        images = torch.from_numpy(self.images.images[item.indices])
        if self.shuffle:
            images = augment(images, self.settings, np.random.Generator(np.random.PCG64(item.seed)))
        labels = torch.from_numpy(self.images.labels[item.indices]).unsqueeze(1)
        everywhere = torch.ones_like(labels, dtype=torch.bool)
        return Batch(images, None, torch.zeros_like(labels), labels, everywhere, tuple(item.indices.tolist()))


def augment(images: Tensor, settings: ImageTrainingSettings, generator: np.random.Generator) -> Tensor:
    """Random horizontal flips and shifts of images (B, C, H, W); shifted edges are filled with black."""
    if settings.flip:
        mirrored = torch.from_numpy(generator.random(len(images)) < 0.5)
        images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
    if settings.shift:
        most = settings.shift
        padded = torch.nn.functional.pad(images, (most, most, most, most))
        top, left = torch.from_numpy(generator.integers(0, 2 * most + 1, (2, len(images), 1)))
        rows = top + torch.arange(images.size(2))  # (B, H)
        columns = left + torch.arange(images.size(3))  # (B, W)
        each = torch.arange(len(images))[:, None, None]
        images = padded.permute(0, 2, 3, 1)[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    return images


def channel_statistics(images: ImageSet) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (C, 1, 1) of each channel; the deviation of a constant channel is 1."""
    pixels = images.images[:: max(1, len(images) // 10_000)]
    mean = pixels.mean((0, 2, 3), dtype=np.float64)
    deviation = pixels.std((0, 2, 3), dtype=np.float64)
    deviation[deviation == 0] = 1.0
    as_tensor = [torch.tensor(values, dtype=torch.float32)[:, None, None] for values in (mean, deviation)]
    return cast("tuple[Tensor, Tensor]", tuple(as_tensor))


class CaptionBatchPlan:
    """Captions in random order, cut into batches; captions are short, so padding costs little."""

    def __init__(
        self, corpus: CaptionCorpus, tokenizer: Tokenizer, batch_images: int, seed: int, shuffle: bool = True
    ) -> None:
        self.corpus = corpus
        self.ids = tokenizer.encode_many(corpus.texts())
        self.batch_images = batch_images
        self.seed = seed
        self.shuffle = shuffle

    def epoch(self, number: int) -> list[npt.NDArray[np.int64]]:
        """The caption indices of each batch."""
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

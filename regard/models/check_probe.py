"""Tools of `check.py`: a small batch, and the model's calls with exceptions reported as contract violations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from regard.config.vocabulary import BOS, EOS
from regard.errors import ContractError
from regard.models.contract import Batch, Model, Output, State, Step, join_steps
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.nn.attention.trace import Attention

SOURCE_LENGTHS = (5, 3, 4)
SOURCE_WIDTH = 6  # one column is padding for every sentence
TARGET_LENGTHS = (4, 2, 3)


@dataclass(frozen=True)
class Probe:
    """A model under test and its batch."""

    model: Model
    batch: Batch
    vocabulary: int
    at_most_one: bool
    tolerance: float

    @property
    def device(self) -> torch.device:
        return self.batch.source.device

    @cached_property
    def source_mask(self) -> Tensor:
        """(B, S): True at real words, or at all cells of an image."""
        if self.batch.source_mask is not None:
            return self.batch.source_mask
        return torch.ones_like(self.encode().mask)

    def fail(self, what: str, remedy: str) -> ContractError:
        return ContractError(f"{type(self.model).__name__} breaks the contract: {what}: {remedy}.")

    def same(self, got: Tensor, expected: Tensor, what: str, remedy: str) -> None:
        """Two tensors must agree within the tolerance."""
        if got.shape != expected.shape:
            raise self.fail(f"{what}: the shapes are {tuple(got.shape)} and {tuple(expected.shape)}", remedy)
        difference = (got - expected).abs().max().item() if got.numel() else 0.0
        if not difference <= self.tolerance:  # also when it is NaN
            raise self.fail(f"{what}: the numbers differ by {difference:.2g}", remedy)

    def shape(self, tensor: Tensor, expected: tuple[int, ...], what: str) -> None:
        if tuple(tensor.shape) != expected:
            raise self.fail(f"{what} has the shape {tuple(tensor.shape)}", f"make it {expected}")

    @contextmanager
    def calling(self, what: str) -> Iterator[None]:
        """Convert an exception in the model into a ContractError that names the call."""
        try:
            yield
        except ContractError:
            raise
        except Exception as error:
            # First line only: torch's messages can be long.
            reason = (str(error).strip() or "no message").splitlines()[0]
            raise self.fail(f"{what} raised {type(error).__name__} ({reason})", "it must work for this") from error

    # --- the model's calls -------------------------------------------------------------------------------------------

    def encode(
        self, batch: Batch | None = None, attention: bool = False, intervention: Intervention | None = None
    ) -> Memory:
        batch = batch or self.batch
        with self.calling(f"encode() of {batch.source.size(0)} sentences"):
            return self.model.encode(batch.source, batch.source_mask, attention=attention, intervention=intervention)

    def start(self, memory: Memory) -> State:
        with self.calling("start()"):
            return self.model.start(memory)

    def step(
        self,
        token: Tensor,
        state: State,
        memory: Memory,
        attention: bool = False,
        trace: bool = False,
        intervention: Intervention | None = None,
    ) -> Step:
        with self.calling(f"step() with {token.size(0)} rows for {memory.sentences} sentences"):
            return self.model.step(token, state, memory, attention=attention, trace=trace, intervention=intervention)

    def forward(
        self, batch: Batch | None = None, attention: bool = False, intervention: Intervention | None = None
    ) -> Output:
        with self.calling("forward()"):
            output: Output = self.model(batch or self.batch, attention=attention, intervention=intervention)
            return output

    @cached_property
    def plain(self) -> Output:
        """forward() with attention and without intervention."""
        return self.forward(attention=True)

    def run(
        self, memory: Memory, tokens: Tensor, state: State | None = None, intervention: Intervention | None = None
    ) -> tuple[Tensor, Attention]:
        """step() over tokens (N, T): hidden (N, T, D) and the attention of all steps."""
        state = state or self.start(memory)
        steps: list[Step] = []
        for token in tokens.unbind(1):
            steps.append(self.step(token, state, memory, attention=True, intervention=intervention))
            state = steps[-1].state
        recorded = [step.attention or {} for step in steps]
        return torch.stack([step.hidden for step in steps], 1), join_steps(recorded, memory)


def example_batch(source_vocabulary: int, target_vocabulary: int, seed: int) -> Batch:
    """Three sentence pairs of different lengths, with Regard's special ids."""
    if min(source_vocabulary, target_vocabulary) < 6:
        raise ContractError("check_contract needs vocabularies of at least 6 entries: four are special ones.")
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(EOS + 1, source_vocabulary, (len(SOURCE_LENGTHS), SOURCE_WIDTH), generator=generator)
    words = torch.randint(EOS + 1, target_vocabulary, (len(TARGET_LENGTHS), max(TARGET_LENGTHS)), generator=generator)
    source_lengths, target_lengths = torch.tensor(SOURCE_LENGTHS), torch.tensor(TARGET_LENGTHS)
    source_mask = torch.arange(SOURCE_WIDTH) < source_lengths.unsqueeze(1)
    target_mask = torch.arange(max(TARGET_LENGTHS)) < target_lengths.unsqueeze(1)
    source[torch.arange(len(SOURCE_LENGTHS)), source_lengths - 1] = EOS
    words[torch.arange(len(TARGET_LENGTHS)), target_lengths - 1] = EOS
    target_in = torch.cat([torch.full((len(TARGET_LENGTHS), 1), BOS), words[:, :-1]], 1)
    return Batch(source * source_mask, source_mask, target_in * target_mask, words * target_mask, target_mask)


def image_batch(image: tuple[int, int, int], target_vocabulary: int, seed: int, dtype: torch.dtype) -> Batch:
    """The same targets for three images of numbers from 0 to 1."""
    batch = example_batch(target_vocabulary, target_vocabulary, seed)
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(batch.source.size(0), *image, dtype=dtype, generator=generator)
    return replace(batch, source=images, source_mask=None)


def one_pair(batch: Batch, row: int, length: int, steps: int) -> Batch:
    """One pair of the batch without its padding."""
    source, mask = batch.source[row : row + 1], None
    if batch.source_mask is not None:
        source, mask = source[:, :length], batch.source_mask[row : row + 1, :length]
    target_in, target_out, target_mask = (
        part[row : row + 1, :steps] for part in (batch.target_in, batch.target_out, batch.target_mask)
    )
    return Batch(source, mask, target_in, target_out, target_mask)

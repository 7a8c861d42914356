"""The chunked loss against torch's own, values and gradients, in float64."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.settings import Recipe
from regard.models.contract import Batch, Model, Output, State, Step
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.training import loss as loss_module
from regard.training.loss import backward, likelihood, predictions
from regard.training.tasks.guided_attention import guided_loss
from regard.training.tasks.scheduled_sampling import sample_inputs
from regard.training.tasks.translation import PreparedTranslation


class Linear(Model):
    """Reads only the previous word: hidden = tanh(E y), logits = W hidden + b."""

    def __init__(self, words: int = 7, size: int = 5) -> None:
        super().__init__()
        self.vocabulary_size = words
        self.embedding = nn.Embedding(words, size)
        self.output = nn.Linear(size, words)
        self.projected: list[int] = []

    def encode(
        self,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        attention: bool = False,
        intervention: Intervention | None = None,
    ) -> Memory:
        mask = torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask
        return Memory(mask, mask.sum(1), ())

    def start(self, memory: Memory) -> State:
        return State(())

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
        return Step(torch.tanh(self.embedding(token)), state.advance(()))

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        self.projected.append(hidden.size(0))
        return self.output(hidden)


def a_batch(seed: int = 0, lengths: tuple[int, ...] = (5, 2, 4), words: int = 7) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    out = torch.randint(4, words, (len(lengths), longest), generator=generator)
    mask = torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)
    out = out.masked_fill(~mask, 0)
    target_in = torch.cat([torch.full((len(lengths), 1), 2), out[:, :-1]], 1)
    source = torch.ones(len(lengths), 3, dtype=torch.long)
    return Batch(source, torch.ones_like(source, dtype=torch.bool), target_in, out, mask)


def gradients(model: Model) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("elements", [16, 1 << 20])
def test_equals_torch_cross_entropy_values_and_gradients(
    smoothing: float, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "chunk_rows", lambda vocabulary: max(1, elements // vocabulary))
    torch.manual_seed(1)
    model, batch = Linear().double(), a_batch()

    expected = functional.cross_entropy(
        model.project(model(batch).hidden)[batch.target_mask],
        batch.target_out[batch.target_mask],
        label_smoothing=smoothing,
    )
    expected.backward()
    wanted = gradients(model)
    model.zero_grad()
    model.projected.clear()

    result = backward(model, model(batch), batch, smoothing=smoothing, total_tokens=batch.target_tokens)
    assert result.tokens == 11
    assert result.smoothed / 11 == pytest.approx(expected.item(), abs=1e-12)
    for ours, theirs in zip(gradients(model), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)
    # Padding is never projected, and small chunks are really used.
    assert sum(model.projected) == 11
    assert max(model.projected) == min(11, max(1, elements // 7))


def test_accumulated_batches_weigh_by_their_tokens() -> None:
    torch.manual_seed(1)
    model = Linear().double()
    whole = a_batch(lengths=(5, 2, 5, 4))
    halves = [
        replace(
            whole,
            source=whole.source[rows],
            target_in=whole.target_in[rows],
            target_out=whole.target_out[rows],
            target_mask=whole.target_mask[rows],
        )
        for rows in (slice(0, 1), slice(1, 4))
    ]
    backward(model, model(whole), whole, smoothing=0.1, total_tokens=16)
    wanted = gradients(model)
    model.zero_grad()
    for half in halves:
        backward(model, model(half), half, smoothing=0.1, total_tokens=16)
    for ours, theirs in zip(gradients(model), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)


def test_extra_loss_is_added_per_token() -> None:
    torch.manual_seed(1)
    model, batch = Linear().double(), a_batch()
    plain = backward(model, model(batch), batch, smoothing=0.0, total_tokens=22)
    without = gradients(model)
    model.zero_grad()
    output = model(batch)
    extra = (model.embedding.weight**2).sum()
    result = backward(model, Output(output.hidden, None, extra), batch, smoothing=0.0, total_tokens=22)
    assert result.smoothed == pytest.approx(plain.smoothed + 11 * float(extra.detach()))
    # the batch has 11 of the update's 22 tokens, so half of the extra loss's gradient 2 w
    torch.testing.assert_close(gradients(model)[0], without[0] + model.embedding.weight.detach())


def test_likelihood_is_the_plain_loss() -> None:
    torch.manual_seed(1)
    model, batch = Linear(), a_batch()
    expected = functional.cross_entropy(
        model.project(model(batch).hidden)[batch.target_mask],
        batch.target_out[batch.target_mask],
        reduction="sum",
    )
    assert likelihood(model, model(batch), batch).negative_log_likelihood == pytest.approx(expected.item(), rel=1e-5)


def test_scheduled_sampling_feeds_the_models_own_words() -> None:
    torch.manual_seed(1)
    model, batch = Linear(), a_batch()
    words = predictions(model, model(batch).hidden)
    everything = sample_inputs(model, batch, 1.0)
    assert torch.equal(everything.target_in[:, 0], batch.target_in[:, 0])
    assert torch.equal(everything.target_in[:, 1:], words[:, :-1])
    assert not torch.equal(everything.target_in, batch.target_in)
    assert torch.equal(everything.target_out, batch.target_out)
    assert torch.equal(sample_inputs(model, batch, 0.0).target_in, batch.target_in)


def test_guided_loss_is_the_cross_entropy_of_the_guided_tokens() -> None:
    batch = replace(a_batch(), guide=torch.tensor([[2, -1, 0, 1, -1], [0, -1, 2, 2, 2], [-1, 1, 1, -1, -1]]))
    scores = torch.randn(3, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    weights = scores.softmax(-1)
    found = guided_loss(weights, batch)
    assert batch.guide is not None
    terms = [
        -weights[b, t, int(batch.guide[b, t])].log()
        for b in range(3)
        for t in range(5)
        if batch.target_mask[b, t] and batch.guide[b, t] >= 0
    ]
    assert len(terms) == 6
    torch.testing.assert_close(found, torch.stack(terms).sum() / 11)
    found.backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert not scores.grad[0, 1].any()
    assert not scores.grad[1, 2:].any()


def test_a_link_outside_of_the_window_is_bad_but_finite() -> None:
    batch = replace(a_batch(lengths=(1,)), guide=torch.tensor([[1]]))
    weights = torch.tensor([[[1.0, 0.0]]], requires_grad=True)
    found = guided_loss(weights, batch)
    found.backward()  # type: ignore[no-untyped-call]
    assert float(found.detach()) == pytest.approx(-math.log(1e-9))
    assert weights.grad is not None
    assert weights.grad.isfinite().all()


@pytest.mark.parametrize("elements", [28, 1 << 20])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_r_drop_equals_its_formula_values_and_gradients(
    smoothing: float, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "chunk_rows", lambda vocabulary: max(2, elements // vocabulary))
    torch.manual_seed(1)
    model, batch, alpha = Linear().double(), a_batch(), 3.0
    masks = 2 * torch.bernoulli(torch.full((2, 3, 5, 5), 0.5, dtype=torch.float64))  # (copies, B, T, D)

    first, second = (model.project(model(batch).hidden * mask)[batch.target_mask] for mask in masks)
    targets = batch.target_out[batch.target_mask]
    wanted = functional.cross_entropy(torch.cat([first, second]), targets.repeat(2), label_smoothing=smoothing)
    log_p, log_q = first.log_softmax(-1), second.log_softmax(-1)
    both = functional.kl_div(log_q, log_p, log_target=True, reduction="batchmean") + functional.kl_div(
        log_p, log_q, log_target=True, reduction="batchmean"
    )
    (wanted + alpha / 4 * both).backward()
    expected = gradients(model)
    model.zero_grad()

    twice = batch.twice()
    output = Output(model(twice).hidden * masks.flatten(0, 1))
    found = backward(model, output, twice, smoothing=smoothing, total_tokens=11, r_drop=alpha)
    assert found.tokens == 11
    assert found.smoothed / 11 == pytest.approx(float((wanted + alpha / 4 * both).detach()), abs=1e-12)
    for ours, theirs in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)


def test_r_drop_of_equal_copies_is_the_plain_loss() -> None:
    torch.manual_seed(1)
    model, batch = Linear().double(), a_batch()
    plain = backward(model, model(batch), batch, smoothing=0.1, total_tokens=11)
    wanted = gradients(model)
    model.zero_grad()
    twice = batch.twice()
    found = backward(model, model(twice), twice, smoothing=0.1, total_tokens=11, r_drop=5.0)
    assert (found.smoothed, found.negative_log_likelihood) == pytest.approx(
        (plain.smoothed, plain.negative_log_likelihood)
    )
    for ours, theirs in zip(gradients(model), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)


def test_r_drop_compares_predictions_after_the_same_sampled_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both copies read the same words, although some are the model's own."""
    training = SimpleNamespace(r_drop=1.0, scheduled_sampling=1.0)
    task = PreparedTranslation.__new__(PreparedTranslation)
    task.recipe = cast("Recipe", SimpleNamespace(training=training))
    monkeypatch.setattr("regard.training.tasks.translation.sample_inputs", lambda model, batch, share: mixed(batch))

    def mixed(batch: Batch) -> Batch:
        return replace(batch, target_in=torch.randint(4, 7, batch.target_in.shape))

    model, batch = Linear(), a_batch()
    twice, output = task.forward(model, batch, 1, 1)
    assert torch.equal(twice.target_in[:3], twice.target_in[3:])
    assert not torch.equal(twice.target_in[:3], batch.target_in)
    assert output.hidden.size(0) == 6

"""Guided attention: an auxiliary loss between attention and a word alignment (Chen et al. 2016; Mi et al. 2016)."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from regard.models.contract import NOWHERE, Batch, Model, Output

LEAST_WEIGHT = 1e-9  # floor of attention weights in the logarithm


def guided_output(model: Model, batch: Batch, weight: float) -> Output:
    """The model's output with the weighted guided loss in its `extra_loss`."""
    output: Output = model(batch, attention=True)
    extra = weight * guided_loss(model.alignment(output.attention), batch)
    return replace(output, extra_loss=extra if output.extra_loss is None else output.extra_loss + extra)


def guided_loss(alignment: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy of the attention (B, T, S) against the batch's guide, per target token.

    -log α(b, t, guide) over aligned target tokens. A weight below LEAST_WEIGHT, such as 0 outside a local window, is
    clamped and has no gradient.
    """
    assert batch.guide is not None
    guided = (batch.guide != NOWHERE) & batch.target_mask
    places = batch.guide.clamp(min=0).unsqueeze(2)
    weights = alignment.gather(2, places).squeeze(2)[guided]
    return -weights.clamp(min=LEAST_WEIGHT).log().sum() / batch.target_tokens

"""Guided attention: a loss that pulls attention towards word links (Chen et al. 2016; Mi et al. 2016)."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from regard.models.contract import NOWHERE, Batch, Model, Output

LEAST_WEIGHT = 1e-9  # of attention, for its logarithm


def guided_output(model: Model, batch: Batch, weight: float) -> Output:
    """The model's output with the weighted guided loss in its `extra_loss`."""
    output: Output = model(batch, attention=True)
    extra = weight * guided_loss(model.alignment(output.attention), batch)
    return replace(output, extra_loss=extra if output.extra_loss is None else output.extra_loss + extra)


def guided_loss(alignment: Tensor, batch: Batch) -> Tensor:
    """How far the attention (B, T, S) is from the batch's guide, per target token.

    The cross-entropy -log α(b, t, guide) of the target tokens that
    have a guide. A weight below LEAST_WEIGHT, as outside of a local window, counts as that and has no gradient.
    """
    assert batch.guide is not None
    guided = (batch.guide != NOWHERE) & batch.target_mask
    places = batch.guide.clamp(min=0).unsqueeze(2)
    weights = alignment.gather(2, places).squeeze(2)[guided]
    return -weights.clamp(min=LEAST_WEIGHT).log().sum() / batch.target_tokens

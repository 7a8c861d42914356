"""Sampling with temperature, top-k and top-p.

The samples of a sentence depend only on (seed, sentence number, sample number), not on the rest of the batch.
Log-probabilities are those of the model, before temperature.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from regard.config.settings import SearchSettings
from regard.decoding.decoding import Decoding
from regard.decoding.greedy import Choose, walk
from regard.decoding.hypothesis import Hypothesis


def sample(decoding: Decoding) -> list[list[Hypothesis]]:
    """`n_best` independent samples of each sentence, in the order of sampling."""
    rows = decoding.request.settings.n_best
    return walk(decoding, sampler(decoding, rows), rows)


def sampler(decoding: Decoding, rows: int) -> Choose:
    """The sampler of `rows` hypotheses per sentence."""
    settings = decoding.request.settings
    numbers = _uniform(decoding, settings.seed, rows)  # (B, rows, maximum length)

    def choose(logits: Tensor, decoding: Decoding) -> Tensor:
        chance = numbers[decoding.sentence, :, decoding.position].flatten()  # (N,)
        return draw(logits, chance, settings)

    return choose


def draw(logits: Tensor, chance: Tensor, settings: SearchSettings) -> Tensor:
    """Inverse-transform sampling: tokens (N,) from logits (N, V) and uniform numbers (N,) in [0, 1)."""
    below_best = logits - logits.amax(-1, keepdim=True)  # at most 0: no overflow at any temperature
    temperature = max(settings.temperature, torch.finfo(logits.dtype).tiny)  # subnormal numbers may be flushed to 0
    likely, ids = (below_best / temperature).sort(dim=-1, descending=True, stable=True)
    if settings.top_k:
        likely, ids = likely[:, : settings.top_k], ids[:, : settings.top_k]
    probabilities = likely.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities  # (N, K) probability mass before each token
    kept = torch.where(before < settings.top_p, probabilities, 0.0)  # the first is always kept
    share = kept.cumsum(-1)
    total = share[:, -1:]
    place: Tensor = torch.searchsorted(share, chance.to(share.dtype).unsqueeze(1) * total, right=True)
    # a uniform number close to 1 may round up to the total: then the last kept token
    last = (kept > 0).sum(-1, keepdim=True) - 1
    return ids.gather(1, place.minimum(last)).squeeze(1)


def _uniform(decoding: Decoding, seed: int, rows: int) -> Tensor:
    numbers = decoding.request.indices or range(decoding.memory.sentences)
    steps = int(decoding.limits.maximum.max())
    drawn = [[np.random.default_rng((seed, number, row)).random(steps) for row in range(rows)] for number in numbers]
    return torch.from_numpy(np.array(drawn)).to(decoding.token.device)

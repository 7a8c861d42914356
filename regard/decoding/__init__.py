"""Search: from a model and source sentences to the translations it prefers, blind to the architecture.

    search(model, source, source_mask, settings) -> for each sentence its hypotheses, best first

`settings.sample` draws them, a beam of 1 is greedy, any other is beam search.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.config.settings import SearchSettings
from regard.config.vocabulary import BOS, EOS, PAD
from regard.decoding.beam import beam_search
from regard.decoding.decoding import Decoding, Request
from regard.decoding.greedy import greedy_search
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.sampling import sample
from regard.decoding.shortlist import Shortlist
from regard.decoding.tree import BeamTree
from regard.models.contract import Model
from regard.nn.attention.intervention import Intervention
from regard.nn.linear import PackedWeights, Weights, multiplying_with

__all__ = ["Hypothesis", "search"]


@torch.inference_mode()
def search(
    model: Model,
    source: Tensor,
    source_mask: Tensor | None,
    settings: SearchSettings,
    *,
    prefix: Tensor | None = None,
    attention: bool = False,
    candidates: int = 0,
    intervention: Intervention | None = None,
    indices: Sequence[int] = (),
    pad: int = PAD,
    bos: int = BOS,
    eos: int = EOS,
    unk: int | None = None,
    tree: BeamTree | None = None,
    shortlist: Shortlist | None = None,
    weights: Weights | None = None,
) -> list[list[Hypothesis]]:
    """Translate source (B, S): for each sentence its hypotheses, never none, best first (draws: as drawn).

    `prefix` (B, P), padded with `pad`, forces how each translation begins. `attention` and `candidates` record the
    weights and the likeliest tokens of each step. `indices` number the sentences for sampling. With `unk`, what
    each token attended to is noted for the replacement of unknown words, where the model has attention. `tree` notes
    what a beam search of one sentence keeps, drops and finishes. With a `shortlist`, only its pieces are scored, and
    probabilities are those among them. `weights` are what the model multiplies with (default: packed for this search).
    The model should be in evaluation mode; PAD and BOS are never produced; log-probabilities are its own.
    """
    if source.size(0) == 0:
        return []
    request = Request(
        settings,
        bos=bos,
        eos=eos,
        pad=pad,
        unk=unk if settings.replace_unknown else None,
        prefix=prefix,
        attention=attention,
        candidates=candidates,
        intervention=intervention,
        indices=indices,
        tree=tree,
        columns=None if shortlist is None else shortlist.columns(source, prefix),
    )
    with multiplying_with(weights or PackedWeights()):
        decoding = Decoding(model, source, source_mask, request)
        if settings.sample:
            return sample(decoding)
        if settings.beam == 1 and tree is None:
            return greedy_search(decoding)
        return beam_search(decoding)

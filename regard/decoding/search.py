"""The n-best list of each sentence by greedy search, beam search or sampling.

`settings.sample` selects sampling, a beam of 1 greedy search, a larger one beam search.
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
    """Translate source (B, S): the n-best list of each sentence, never empty (samples: in order).

    `prefix` (B, P), padded with `pad`, is the target prefix. `attention` and `candidates` record the weights and the
    most probable tokens of each step. `indices` seed the samples of each sentence. With `unk`, the most attended source
    position of each token is recorded for <unk> replacement. `tree` records the beam search of one sentence. With a
    `shortlist`, the softmax is over its tokens only. `weights` are packed or int8 weights (default: packed for this
    search). The model must be in evaluation mode. PAD and BOS are never produced. Log-probabilities are the model's,
    before constraints and temperature.
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
        columns=shortlist_columns(shortlist, source, prefix),
    )
    with multiplying_with(weights or PackedWeights()):
        decoding = Decoding(model, source, source_mask, request)
        if settings.sample:
            return sample(decoding)
        if settings.beam == 1 and tree is None:
            return greedy_search(decoding)
        return beam_search(decoding)


def shortlist_columns(shortlist: Shortlist | None, source: Tensor, prefix: Tensor | None) -> Tensor | None:
    """The token ids (C,) to score for the sentences (B, S) and their target prefix, on their device."""
    if shortlist is None:
        return None
    more = None if prefix is None else prefix.cpu().numpy()
    return torch.from_numpy(shortlist.columns(source.cpu().numpy(), more)).to(source.device)

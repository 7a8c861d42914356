"""Tests of the contract in `regard.models.contract` for any model: `check_contract` raises at the first violation.

    from regard.testing import check_contract
    check_contract(my_model, source_vocabulary=8000)
    check_contract(my_captioner, image=(3, 64, 64))

It runs a copy of the model in evaluation mode and float64 on a small synthetic batch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from regard.errors import ContractError, NoAttention
from regard.models.check_probe import SOURCE_LENGTHS, TARGET_LENGTHS, Probe, example_batch, image_batch, one_pair
from regard.models.contract import Model
from regard.nn.attention.intervention import Edit, Intervention

BEAMS = 2
BANNED = 1
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}


def check_contract(
    model: Model,
    *,
    source_vocabulary: int | None = None,
    image: tuple[int, int, int] | None = None,
    target_vocabulary: int | None = None,
    at_most_one: bool = False,
    dtype: torch.dtype = torch.float64,
    seed: int = 1,
) -> None:
    """Raise a ContractError at the first violation of the contract.

    Sources are sentences over `source_vocabulary` tokens, or images of the shape `image` (channels, height, width).
    The vocabularies default to the model's. `at_most_one` allows attention rows that sum to less than 1, as in local-p.
    `dtype` may be float32 for a model without float64 support; the tolerance is then larger.
    """
    vocabulary = model.vocabulary_size if target_vocabulary is None else target_vocabulary
    twin = copy.deepcopy(model).to(dtype).eval()
    with torch.no_grad():
        device = next((parameter.device for parameter in twin.parameters()), torch.device("cpu"))
        if image is None:
            batch = example_batch(source_vocabulary or vocabulary, vocabulary, seed).to(device)
        else:
            batch = image_batch(image, vocabulary, seed, dtype).to(device)
        check = Probe(twin, batch, vocabulary, at_most_one, TOLERANCES[dtype])
        for promise in PROMISES:
            promise(check)


# --- the checks, each building on the ones before it ------------------------------------------------------------------


def _shapes(check: Probe) -> None:
    batch, sentences = check.batch, check.batch.source.size(0)
    memory = check.encode()
    check.shape(memory.mask, (sentences, check.source_mask.size(1)), "Memory.mask")
    if not torch.equal(memory.mask, check.source_mask):
        raise check.fail("Memory.mask is not the source mask", "pass it on; True is a real position")
    if batch.source_mask is None and (memory.grid is None or math.prod(memory.grid) != memory.mask.size(1)):
        remedy = "give the rows and columns of the cells of an image"
        raise check.fail(f"Memory.grid is {memory.grid} for {memory.mask.size(1)} positions", remedy)
    if memory.lengths.tolist() != check.source_mask.sum(1).tolist():
        raise check.fail(f"Memory.lengths is {memory.lengths.tolist()}", "count the real positions of each sentence")
    state = check.start(memory)
    if state.position != 0:
        raise check.fail(f"start() gives a state at position {state.position}", "no step was taken: make it 0")
    for number, tensor in enumerate(state.tensors):
        check.shape(tensor, (sentences, *tensor.shape[1:]), f"tensor {number} of the first state")
    step = check.step(batch.target_in[:, 0], state, memory)
    if step.hidden.dim() != 2:
        raise check.fail(f"Step.hidden has the shape {tuple(step.hidden.shape)}", "make it (N, D)")
    check.shape(step.hidden, (sentences, step.hidden.size(-1)), "Step.hidden")
    if step.state.position != 1:
        raise check.fail(f"after one step the position is {step.state.position}", "use state.advance(tensors)")
    output = check.forward()
    check.shape(output.hidden, (*batch.target_in.shape, step.hidden.size(-1)), "Output.hidden")
    if output.extra_loss is not None:
        check.shape(output.extra_loss, (), "Output.extra_loss")
    if not torch.isfinite(output.hidden).all():
        raise check.fail("Output.hidden holds a number that is not finite", "look for a division by 0 or a log of 0")


def _repeatable(check: Probe) -> None:
    if not torch.equal(check.forward().hidden, check.forward().hidden):
        raise check.fail("two runs in evaluation mode differ", "drop out only while self.training is true")


def _projection(check: Probe) -> None:
    hidden = check.plain.hidden
    with check.calling("project()"):
        logits = check.model.project(hidden)
    check.shape(logits, (*hidden.shape[:-1], check.vocabulary), "project(hidden)")
    columns = torch.tensor([check.vocabulary - 1, 0, 2], device=check.device)
    with check.calling("project(hidden, columns)"):
        some = check.model.project(hidden, columns)
    check.same(
        some, logits[..., columns], "project(hidden, columns) is not those columns of project(hidden)", "select them"
    )


def _step_is_forward(check: Probe) -> None:
    output = check.plain
    hidden, attention = check.run(check.encode(attention=True), check.batch.target_in)
    remedy = "both must compute the same from the same tokens"
    check.same(hidden, output.hidden, "step() repeated is not forward()", remedy)
    whole = output.attention or {}
    if set(attention) != set(whole):
        raise check.fail(f"step() records {sorted(attention)} attention and forward() {sorted(whole)}", remedy)
    for kind in whole:
        check.same(attention[kind], whole[kind], f"the {kind} weights of step() are not those of forward()", remedy)


def _asking_changes_nothing(check: Probe) -> None:
    plain = check.forward()
    if plain.attention is not None:
        raise check.fail("forward() returns attention that nobody asked for", "return None without attention=True")
    if check.plain.attention is None:
        raise check.fail("forward(attention=True) returns None", "return the weights, or {} if there are none")
    remedy = "recording must not change what is computed"
    check.same(check.plain.hidden, plain.hidden, "attention=True changes the result", remedy)
    memory = check.encode()
    state, token = check.start(memory), check.batch.target_in[:, 0]
    step = check.step(token, state, memory, attention=True, trace=True)
    check.same(step.hidden, check.step(token, state, memory).hidden, "trace=True changes the result", remedy)
    for trace in step.trace:
        recorded = (step.attention or {}).get(trace.kind)
        if recorded is None:
            raise check.fail(f"the trace tells of {trace.kind} attention that is not recorded", "record it as well")
        what = f"the trace of layer {trace.layer}, head {trace.head} has other weights than the record"
        check.same(trace.weights, recorded[:, trace.layer, trace.head, 0], what, "trace what was used")


def _states_are_not_changed(check: Probe) -> None:
    memory = check.encode()
    state, token = check.start(memory), check.batch.target_in[:, 0]
    parts = [*state.tensors, *memory.summary, *(part for part in (memory.keys, memory.values) if part is not None)]
    before = [part.clone() for part in parts]
    first = check.step(token, state, memory)
    again = check.batch.target_in[:, 1]
    check.step(again, first.state, memory)
    for number, (part, kept) in enumerate(zip(parts, before, strict=True)):
        if not torch.equal(part, kept):
            owner = f"tensor {number} of its state" if number < len(state.tensors) else "the memory"
            raise check.fail(f"step() changes {owner} in place", "make a new tensor")
    remedy = "keep nothing on the model; all that a step needs is in State and Memory"
    check.same(check.step(token, state, memory).hidden, first.hidden, "a step taken again gives another result", remedy)


def _weights(check: Probe) -> None:
    batch, memory = check.batch, check.encode()
    attention = check.plain.attention or {}
    for kind, weights in attention.items():
        queries = memory.mask.size(1) if kind == "encoder-self" else batch.target_in.size(1)
        keys = batch.target_in.size(1) if kind == "decoder-self" else memory.mask.size(1)
        if weights.dim() != 5:
            raise check.fail(
                f"the {kind} weights have {weights.dim()} dimensions", "make them (B, layers, heads, T, S)"
            )
        check.shape(weights, (batch.source.size(0), *weights.shape[1:3], queries, keys), f"the {kind} attention")
        if weights.lt(0).any():
            raise check.fail(f"a {kind} weight is negative", "normalise with a softmax")
        key_mask = batch.target_mask if kind == "decoder-self" else check.source_mask
        query_mask = check.source_mask if kind == "encoder-self" else batch.target_mask
        real = query_mask[:, None, None, :, None].expand_as(weights)  # rows of padded queries are arbitrary
        if weights[real & ~key_mask[:, None, None, None]].any():
            raise check.fail(f"{kind} weights fall on padding", "mask it before the softmax")
        _sums(check, kind, weights.sum(-1)[real[..., 0]])


def _sums(check: Probe, kind: str, sums: Tensor) -> None:
    highest, lowest = sums.max().item(), sums.min().item()
    if highest > 1 + check.tolerance:
        raise check.fail(f"a row of {kind} weights sums to {highest:.4g}", "normalise with a softmax")
    if lowest < 1 - check.tolerance and not check.at_most_one:
        remedy = "normalise with a softmax, or check with at_most_one=True if it is meant, as in local-p"
        raise check.fail(f"a row of {kind} weights sums to {lowest:.4g}", remedy)


def _batch_mates(check: Probe) -> None:
    together = check.plain
    for row, (length, steps) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS, strict=True)):
        alone = check.forward(one_pair(check.batch, row, length, steps), attention=True)
        what = f"sentence {row} gets another result alone than in a batch with padding"
        remedy = "let neither padding nor the other sentences into it"
        check.same(together.hidden[row, :steps], alone.hidden[0], what, remedy)
        for kind, weights in (alone.attention or {}).items():
            padded = (together.attention or {})[kind][row, ..., : weights.size(-2), : weights.size(-1)]
            check.same(padded, weights[0], f"{what} ({kind} weights)", remedy)


def _no_future(check: Probe) -> None:
    before, target = check.plain.hidden, check.batch.target_in
    for position in range(1, target.size(1)):
        changed = target.clone()
        changed[:, position:] = (changed[:, position:] + 1) % check.vocabulary
        after = check.forward(replace(check.batch, target_in=changed)).hidden
        what = f"target position {position - 1} sees the tokens after it"
        check.same(after[:, :position], before[:, :position], what, "predict each token from those before it")


def _selection(check: Probe) -> None:
    memory = check.encode()
    tokens, index = check.batch.target_in, torch.tensor([2, 0], device=check.device)
    first = check.step(tokens[:, 0], check.start(memory), memory)
    second = check.step(tokens[:, 1], first.state, memory)
    with check.calling("select()"):
        some, state = memory.select(index), first.state.select(index)
    if some.sentences != 2 or state.position != first.state.position:
        raise check.fail("select() loses rows or the position", "keep one row for each index, and the position")
    what = "after State.select and Memory.select the rows go on otherwise than they would have"
    chosen = check.step(tokens[index, 1], state, some)
    check.same(chosen.hidden, second.hidden[index], what, "select the same rows of every tensor, in the index's order")


def _beams(check: Probe) -> None:
    """N = B·beams rows with one memory row per sentence give the results of separate runs."""
    memory, target = check.encode(), check.batch.target_in
    beams = [target, (target + 1) % check.vocabulary]
    alone = [check.run(memory, tokens) for tokens in beams]
    rows = torch.arange(memory.sentences, device=check.device).repeat_interleave(BEAMS)
    state = check.start(memory).select(rows)
    tokens = torch.stack(beams, 1).flatten(0, 1)  # (B·beams, T), the beams of a sentence side by side
    hidden, attention = check.run(memory, tokens, state)
    what = f"{BEAMS} beams per sentence get other results than {BEAMS} separate runs"
    remedy = "row n of the state belongs to sentence n // beams of the memory, and to no other beam"
    check.same(hidden, torch.stack([run[0] for run in alone], 1).flatten(0, 1), what, remedy)
    for kind in attention:
        if kind != "encoder-self":
            each = torch.stack([run[1][kind] for run in alone], 1).flatten(0, 1)
            check.same(attention[kind], each, f"{what} ({kind} weights)", remedy)


def _identity(check: Probe) -> None:
    plain = check.plain
    kinds = list(plain.attention or {})
    identities = [Intervention(), *(Intervention(edits=(Edit(kind=kind, multiply=1.0),)) for kind in kinds)]
    memory = check.encode()
    stepped, _ = check.run(memory, check.batch.target_in)
    for identity in identities:
        touched = check.forward(attention=True, intervention=identity)
        again, _ = check.run(check.encode(intervention=identity), check.batch.target_in, intervention=identity)
        if not (torch.equal(touched.hidden, plain.hidden) and torch.equal(again, stepped)):
            remedy = "compute the same, bit for bit, when an intervention changes nothing"
            raise check.fail("the identity intervention changes the result", remedy)


def _ban(check: Probe) -> None:
    ban = Intervention(ban=(BANNED,))
    plain, banned = check.plain, check.forward(attention=True, intervention=ban)
    kinds = [kind for kind in plain.attention or {} if kind != "decoder-self"]
    for kind in kinds:
        if (banned.attention or {})[kind][..., BANNED].any():
            raise check.fail(f"a banned source position still gets {kind} weight", "mask it before the softmax")
    looked_there = any((plain.attention or {})[kind][..., BANNED].any() for kind in kinds)  # hard attention may not
    if looked_there and torch.equal(banned.hidden, plain.hidden):
        remedy = "compute the context from the changed weights"
        raise check.fail("a ban changes the recorded weights but not the result", remedy)
    hidden, _ = check.run(check.encode(attention=True, intervention=ban), check.batch.target_in, intervention=ban)
    check.same(
        hidden, banned.hidden, "step() repeated is not forward() under a ban", "pass the intervention on in both"
    )


def _edits(check: Probe) -> None:
    plain = check.plain
    if "cross" not in (plain.attention or {}):
        return
    edit = Intervention(edits=(Edit(layer=0, head=0, step=1, position=0, replace=0.75),))
    edited = check.forward(attention=True, intervention=edit)
    got = (edited.attention or {})["cross"][:, 0, 0, 1, 0]
    check.same(got, torch.full_like(got, 0.75), "an edit does not replace the weight at its address", "apply it")
    if torch.equal(edited.hidden[:, 1], plain.hidden[:, 1]):
        remedy = "compute the context from the changed weights"
        raise check.fail("an edit changes the recorded weight but not the result", remedy)
    if not torch.equal(edited.hidden[:, 0], plain.hidden[:, 0]):
        raise check.fail("an edit of step 1 changes step 0", "pass the true numbers of the steps on")
    hidden, _ = check.run(check.encode(attention=True), check.batch.target_in, intervention=edit)
    check.same(
        hidden, edited.hidden, "step() repeated is not forward() under an edit", "pass the intervention on in both"
    )


def _alignment(check: Probe) -> None:
    attention = check.plain.attention or {}
    try:
        with check.calling("alignment()"):
            alignment = check.model.alignment(attention)
    except ContractError as error:
        if isinstance(error.__cause__, NoAttention) and "cross" not in attention:
            return
        raise
    if "cross" not in attention:
        raise check.fail("alignment() of a model without cross attention returns", "raise NoAttention")
    check.shape(alignment, (*check.batch.target_in.shape, check.source_mask.size(1)), "alignment(attention)")


PROMISES: tuple[Callable[[Probe], None], ...] = (
    _shapes,
    _repeatable,
    _projection,
    _states_are_not_changed,
    _step_is_forward,
    _asking_changes_nothing,
    _weights,
    _batch_mates,
    _no_future,
    _selection,
    _beams,
    _identity,
    _ban,
    _edits,
    _alignment,
)

"""The contract's own parts, and `check_contract`: it names the promise that a model breaks."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import regard.nn.attention.attend as attend_module
from regard.config.models import BahdanauSettings, GnmtSettings, LuongSettings, Seq2SeqSettings
from regard.errors import ContractError, NoAttention
from regard.models import Bahdanau, Seq2Seq, build_model
from regard.models.check import check_contract
from regard.models.contract import State, join_steps
from regard.nn.attention import Attend
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory

SETTINGS = BahdanauSettings(embedding_size=5, hidden_size=6, attention_size=4, maxout_size=3)


# --- parts -----------------------------------------------------------------------------------------------------------


def test_state_selects_and_advances_without_changing():
    state = State((torch.arange(6.0).view(3, 2), torch.tensor([7.0, 8.0, 9.0])), 4)
    chosen = state.select(torch.tensor([2, 0, 0]))
    assert chosen.position == 4
    assert chosen.tensors[0].tolist() == [[4, 5], [0, 1], [0, 1]]
    assert chosen.tensors[1].tolist() == [9, 7, 7]
    chosen.tensors[0].zero_()
    assert state.tensors[0].sum() == 15, "a selection is a copy"
    assert state.advance(chosen.tensors).position == 5


def test_memory_selects_every_part():
    memory = Memory(
        mask=torch.tensor([[True, True], [True, False]]),
        lengths=torch.tensor([2, 1]),
        summary=(torch.tensor([[1.0], [2.0]]),),
        keys=torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]]),
        attention={"encoder-self": torch.arange(2.0).view(2, 1, 1, 1, 1)},
    )
    chosen = memory.select(torch.tensor([1, 1, 0]))
    assert chosen.sentences == 3
    assert chosen.lengths.tolist() == [1, 1, 2]
    assert chosen.summary[0].flatten().tolist() == [2, 2, 1]
    assert chosen.keys is not None
    assert chosen.keys[0].flatten().tolist() == [3, 4]
    assert chosen.values is None
    assert chosen.attention["encoder-self"].flatten().tolist() == [1, 1, 0]


def test_steps_are_joined_along_the_target_with_the_encoders_own():
    memory = Memory(torch.ones(1, 2).bool(), torch.tensor([2]), (), attention={"encoder-self": torch.ones(1)})
    steps = [{"cross": torch.full((1, 1, 1, 1, 2), float(step))} for step in range(3)]
    joined = join_steps(steps, memory)
    assert set(joined) == {"cross", "encoder-self"}
    assert joined["cross"][0, 0, 0].tolist() == [[0, 0], [1, 1], [2, 2]]


def test_no_attention_no_alignment():
    model = build_model(Seq2SeqSettings(embedding_size=5, hidden_size=6), 10, 10)
    for attention in ({}, None):
        with pytest.raises(NoAttention, match=r"Seq2Seq has no attention and so no alignment: train a model with"):
            model.alignment(attention)


# --- models that keep it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "settings",
    [
        Seq2SeqSettings(embedding_size=5, hidden_size=6),
        SETTINGS,
        LuongSettings(embedding_size=5, hidden_size=6),
        GnmtSettings(embedding_size=5, hidden_size=6, attention_size=4, layers=3),
    ],
    ids=lambda settings: settings.kind,
)
def test_our_models_keep_the_contract(settings, dtype: torch.dtype):
    check_contract(build_model(settings, 11, 12), source_vocabulary=11, dtype=dtype)


def test_local_p_keeps_it_with_at_most_one():
    torch.manual_seed(1)
    model = build_model(LuongSettings(embedding_size=5, hidden_size=6, window="local-p", window_size=1), 11, 12)
    with pytest.raises(ContractError, match=r"Luong .* sums to 0\.\d+: normalise .* or check with at_most_one=True"):
        check_contract(model, source_vocabulary=11)
    check_contract(model, source_vocabulary=11, at_most_one=True)


def test_check_leaves_the_model_alone():
    model = build_model(SETTINGS, 11, 12)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.get_rng_state()
    check_contract(model, source_vocabulary=11, target_vocabulary=12)
    assert model.training
    assert torch.equal(torch.get_rng_state(), generator)
    for name, value in model.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[name])


def test_vocabulary_that_is_too_small_is_named():
    with pytest.raises(ContractError, match="at least 6 entries"):
        check_contract(build_model(SETTINGS, 5, 12), source_vocabulary=5)


# --- models that break one promise each ------------------------------------------------------------------------------


class WrongShape(Bahdanau):
    def step(self, *args, **options):
        step = super().step(*args, **options)
        return replace(step, hidden=step.hidden.unsqueeze(1))


class DropsOutAlways(Bahdanau):
    def forward(self, *args, **options):
        output = super().forward(*args, **options)
        return replace(output, hidden=torch.nn.functional.dropout(output.hidden, 0.5, True))


class WrongColumns(Bahdanau):
    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        logits = super().project(hidden)
        return logits if columns is None else logits[..., : len(columns)]


class StepIsNotForward(Bahdanau):
    def step(self, token, state, memory, **options):
        step = super().step(token, state, memory, **options)
        return replace(step, hidden=step.hidden + 0.01 * state.position)


class ChangesStateInPlace(Bahdanau):
    def step(self, token, state, memory, **options):
        step = super().step(token, state, memory, **options)
        state.tensors[0].copy_(step.state.tensors[0])
        return step


class KeepsStateOnItself(Bahdanau):
    seen = 0.0

    def step(self, token, state, memory, **options):
        self.seen += 0.1
        step = super().step(token, state, memory, **options)
        return replace(step, hidden=step.hidden + self.seen)


class AttendsToPadding(Bahdanau):
    class Attention(Attend):
        def forward(self, query, memory, *args):
            return super().forward(query, replace(memory, mask=torch.ones_like(memory.mask)), *args)

    def __init__(self, *args):
        super().__init__(*args)
        self.attend = self.Attention(self.attend.score)


class SumsToLess(Bahdanau):
    class Attention(Attend):
        def forward(self, *args):
            attended = super().forward(*args)
            return replace(attended, weights=0.9 * attended.weights)

    def __init__(self, *args):
        super().__init__(*args)
        self.attend = self.Attention(self.attend.score)


class MixesTheBatch(Bahdanau):
    def encode(self, source, source_mask=None, **options):
        memory = super().encode(source, source_mask, **options)
        values = memory.values - memory.values.mean(0, keepdim=True)
        return replace(memory, values=values)


class SeesTheFuture(Bahdanau):
    """In forward and, as if by a copy of the batch, in step."""

    def forward(self, batch, **options):
        output = super().forward(batch, **options)
        future = batch.target_in.double().flip(1).cumsum(1).flip(1) - batch.target_in
        self.leak = future
        return replace(output, hidden=output.hidden + 1e-3 * future.unsqueeze(-1) * batch.target_mask.unsqueeze(-1))

    def step(self, token, state, memory, **options):
        step = super().step(token, state, memory, **options)
        if not hasattr(self, "leak") or len(self.leak) != len(token):
            return step
        return replace(step, hidden=step.hidden + 1e-3 * self.leak[:, state.position, None])


class ForgetsToSelect(State):
    def select(self, index: Tensor) -> State:
        rows = torch.arange(len(index)) % len(self.tensors[0])
        return ForgetsToSelect(super().select(rows).tensors, self.position)

    def advance(self, tensors):
        return ForgetsToSelect(super().advance(tensors).tensors, self.position + 1)


class SelectsWrongRows(Bahdanau):
    def start(self, memory):
        return ForgetsToSelect(super().start(memory).tensors)


class OneBeamOnly(Bahdanau):
    def step(self, token, state, memory, **options):
        assert len(token) == memory.sentences, "one row per sentence, please"
        return super().step(token, state, memory, **options)


class MixesBeams(Bahdanau):
    """Takes row n's memory from sentence n % B, as if the sentences of a beam stood side by side."""

    def step(self, token, state, memory, **options):
        beams = len(token) // memory.sentences
        if beams > 1:
            memory = memory.select(torch.arange(len(token)) % memory.sentences)
        return super().step(token, state, memory, **options)


class IdentityIsNone(Bahdanau):
    def forward(self, batch, *, attention=False, intervention=None):
        output = super().forward(batch, attention=attention, intervention=intervention)
        return output if intervention is None else replace(output, hidden=output.hidden * (1 + 1e-15))


class IgnoresBans(Bahdanau):
    def forward(self, batch, *, attention=False, intervention=None):
        return super().forward(batch, attention=attention, intervention=without_ban(intervention))

    def step(self, token, state, memory, *, attention=False, trace=False, intervention=None):
        ban = without_ban(intervention)
        return super().step(token, state, memory, attention=attention, trace=trace, intervention=ban)


def without_ban(intervention: Intervention | None) -> Intervention | None:
    return None if intervention is None else replace(intervention, ban=())


class IgnoresEdits(Bahdanau):
    def forward(self, batch, *, attention=False, intervention=None):
        return super().forward(batch, attention=attention, intervention=without_edits(intervention))

    def step(self, token, state, memory, *, attention=False, trace=False, intervention=None):
        edits = without_edits(intervention)
        return super().step(token, state, memory, attention=attention, trace=trace, intervention=edits)


def without_edits(intervention: Intervention | None) -> Intervention | None:
    return None if intervention is None else replace(intervention, edits=())


class EditsTheRecordOnly(Bahdanau):
    """Attends as ever, and changes only what it shows."""

    def forward(self, batch, *, attention=False, intervention=None):
        plain = super().forward(batch, attention=attention)
        shown = super().forward(batch, attention=attention, intervention=intervention)
        return replace(plain, attention=shown.attention)


class WrongAlignment(Bahdanau):
    def alignment(self, attention):
        return super().alignment(attention).transpose(1, 2)


class AlignsWithoutAttention(Seq2Seq):
    def alignment(self, attention):
        return torch.zeros(3, 4, 6)


class RecordsUnasked(Bahdanau):
    def forward(self, batch, *, attention=False, intervention=None):
        return super().forward(batch, attention=True, intervention=intervention)


class Unfinished(Bahdanau):
    def start(self, memory):
        raise ValueError("to be\nwritten")


BROKEN = [
    (WrongShape, r"Step\.hidden has the shape \(3, 1, 3\): make it \(N, D\)"),
    (DropsOutAlways, "two runs in evaluation mode differ: drop out only while"),
    (WrongColumns, r"project\(hidden, columns\) is not those columns"),
    (StepIsNotForward, r"step\(\) repeated is not forward\(\): the numbers differ by 0\.0"),
    (ChangesStateInPlace, r"step\(\) changes tensor 0 of its state in place: make a new tensor"),
    (KeepsStateOnItself, "a step taken again gives another result: .* keep nothing on the model"),
    (AttendsToPadding, "cross weights fall on padding: mask it"),
    (SumsToLess, r"a row of cross weights sums to 0\.9: normalise"),
    (MixesTheBatch, "sentence 0 gets another result alone than in a batch"),
    (SeesTheFuture, "target position 0 sees the tokens after it"),
    (SelectsWrongRows, r"after State\.select and Memory\.select the rows go on otherwise"),
    (OneBeamOnly, r"step\(\) with 6 rows for 3 sentences raised AssertionError \(one row per sentence, please"),
    (MixesBeams, "2 beams per sentence get other results than 2 separate runs"),
    (IdentityIsNone, "the identity intervention changes the result"),
    (IgnoresBans, "a banned source position still gets cross weight"),
    (IgnoresEdits, "an edit does not replace the weight at its address"),
    (EditsTheRecordOnly, "a ban changes the recorded weights but not the result"),
    (WrongAlignment, r"alignment\(attention\) has the shape \(3, 6, 4\): make it \(3, 4, 6\)"),
    (RecordsUnasked, r"forward\(\) returns attention that nobody asked for"),
    (Unfinished, r"start\(\) raised ValueError \(to be\): it must work for this"),
]


@pytest.mark.parametrize(("broken", "sentence"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_broken_promise_is_named(broken: type[Bahdanau], sentence: str):
    torch.manual_seed(1)
    with pytest.raises(ContractError, match=sentence) as caught:
        check_contract(broken(SETTINGS, 11, 12), source_vocabulary=11)
    message = str(caught.value)
    assert message.startswith(f"{broken.__name__} breaks the contract: ")
    assert "\n" not in message


def test_alignment_without_attention_is_named():
    model = AlignsWithoutAttention(Seq2SeqSettings(embedding_size=5, hidden_size=6), 11, 12)
    with pytest.raises(ContractError, match=r"without cross attention returns: raise NoAttention"):
        check_contract(model, source_vocabulary=11)


def test_check_notices_a_softmax_without_mask(monkeypatch: pytest.MonkeyPatch):
    """The real thing, in our own attention: what the mask is for."""
    monkeypatch.setattr(attend_module, "masked_softmax", lambda scores, mask: torch.softmax(scores, -1))
    with pytest.raises(ContractError, match="cross weights fall on padding"):
        check_contract(build_model(SETTINGS, 11, 12), source_vocabulary=11)

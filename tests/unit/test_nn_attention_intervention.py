"""What a caller may do to attention: ban positions, and replace or multiply weights at an address."""

import pytest
import torch

from regard.errors import ConfigError
from regard.nn.attention import Attend, Dot, make_window
from regard.nn.attention.intervention import Edit, Intervention
from regard.nn.attention.memory import Memory

D, S = 4, 5
LENGTHS = [5, 3]


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MEMORY = Memory(
    torch.arange(S) < torch.tensor(LENGTHS).unsqueeze(1),
    torch.tensor(LENGTHS),
    (),
    random(2, S, D, seed=2),
    random(2, S, 3, seed=3),
)
QUERY = random(2, 3, D, seed=4)


def attend(window: str = "global", layer: int = 0) -> Attend:
    torch.manual_seed(2)
    return Attend(Dot(D, D), make_window(window, 1, D), layer=layer).double()


def run(intervention: Intervention | None, window: str = "global", layer: int = 0):
    return attend(window, layer)(QUERY, MEMORY, range(3), intervention)


@pytest.mark.parametrize("window", ["global", "local-m", "local-p"])
@pytest.mark.parametrize(
    "identity", [Intervention(), Intervention(edits=(Edit(multiply=1.0),)), Intervention(edits=(Edit(step=99),))]
)
def test_identity_changes_nothing_bit_for_bit(identity: Intervention, window: str):
    plain, touched = run(None, window), run(identity, window)
    assert torch.equal(plain.weights, touched.weights)
    assert torch.equal(plain.context, touched.context)


@pytest.mark.parametrize("window", ["global", "local-m"])
def test_banned_position_gets_nothing_and_the_others_share_its_weight(window: str):
    plain, banned = run(None, window), run(Intervention(ban=(1,)), window)
    assert not banned.weights[..., 1].any()
    assert not torch.equal(plain.context, banned.context)
    rest = plain.weights.clone()
    rest[..., 1] = 0
    torch.testing.assert_close(banned.weights, rest / rest.sum(-1, keepdim=True), rtol=1e-12, atol=1e-15)


def test_everything_banned_gives_zeros():
    banned = run(Intervention(ban=(0, 1, 2, 3, 4)))
    assert not banned.weights.any()
    assert not banned.context.any()


def test_edit_changes_exactly_the_addressed_weight():
    plain = run(None)
    edited = run(Intervention(edits=(Edit(step=1, position=2, replace=0.75),)))
    expected = plain.weights.clone()
    expected[:, 1, 2] = 0.75  # and nothing is renormalised
    assert torch.equal(edited.weights, expected)
    assert MEMORY.values is not None
    torch.testing.assert_close(edited.context, expected @ MEMORY.values)


def test_edits_multiply_in_order():
    plain = run(None)
    edits = (Edit(step=0, multiply=0.5), Edit(position=0, multiply=3.0), Edit(step=2, position=0, replace=0.125))
    expected = plain.weights.clone()
    expected[:, 0] *= 0.5
    expected[:, :, 0] *= 3.0
    expected[:, 2, 0] = 0.125
    torch.testing.assert_close(run(Intervention(edits=edits)).weights, expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize(
    "elsewhere",
    [Edit(kind="decoder-self", replace=0.5), Edit(layer=1, replace=0.5), Edit(head=1, replace=0.5)],
)
def test_edits_for_another_address_do_nothing(elsewhere: Edit):
    assert torch.equal(run(Intervention(edits=(elsewhere,))).weights, run(None).weights)


def test_layer_of_the_address_is_the_layer_of_the_attention():
    edit = Intervention(edits=(Edit(layer=3, position=0, replace=0.5),))
    assert (run(edit, layer=3).weights[..., 0] == 0.5).all()
    assert torch.equal(run(edit, layer=2).weights, run(None, layer=2).weights)


def test_padding_stays_0_when_every_position_is_replaced():
    weights = run(Intervention(edits=(Edit(replace=0.25),))).weights
    assert (weights[0] == 0.25).all()
    assert (weights[1, :, :3] == 0.25).all()
    assert not weights[1, :, 3:].any()


def test_banned_position_stays_0_when_every_position_is_replaced():
    weights = run(Intervention(ban=(0,), edits=(Edit(replace=0.25),))).weights
    assert not weights[..., 0].any()
    assert (weights[..., 1:3] == 0.25).all()


def test_edit_may_look_outside_a_local_window():
    weights = run(Intervention(edits=(Edit(step=0, position=2, replace=0.5),)), "local-m").weights
    assert (weights[:, 0, 2] == 0.5).all()


@pytest.mark.parametrize("window", ["global", "local-m", "local-p"])
def test_beams_are_all_edited_alike(window: str):
    change = Intervention(ban=(1,), edits=(Edit(step=2, position=0, replace=0.5), Edit(step=1, replace=9.0)))
    query = random(6, D, seed=8)
    context, weights, (trace,) = attend(window).at_step(query, MEMORY, 2, trace=True, intervention=change)
    assert (weights[:, 0] == 0.5).all()
    assert (weights < 9).all(), "the edit of step 1 is not for step 2"
    assert torch.equal(trace.weights, weights)
    for row in range(6):
        one = MEMORY.select(torch.tensor([row // 3]))
        alone, alone_weights, _ = attend(window).at_step(query[row : row + 1], one, 2, intervention=change)
        torch.testing.assert_close(context[row : row + 1], alone, rtol=0, atol=1e-14)
        torch.testing.assert_close(weights[row : row + 1], alone_weights, rtol=0, atol=1e-14)


def test_weights_given_to_apply_are_not_changed():
    weights = torch.full((1, 1, 2), 0.5)
    Intervention(edits=(Edit(replace=0.0),)).apply(weights, "cross", 0, [0])
    assert torch.equal(weights, torch.full((1, 1, 2), 0.5))


def test_a_place_that_a_sentence_does_not_have_changes_nothing_and_a_negative_one_is_refused():
    attend = Attend(Dot(D, D))
    beyond = Intervention(ban=(S,), edits=(Edit(position=S + 2, replace=1.0),))
    assert torch.equal(attend(QUERY, MEMORY, range(3), beyond).weights, attend(QUERY, MEMORY, range(3)).weights)
    with pytest.raises(ConfigError, match="-1: places are counted from 0"):
        Intervention(ban=(-1,))
    with pytest.raises(ConfigError, match="step of an edit is -2"):
        Edit(step=-2)

"""The Transformer against its paper and against torch's own layers; its two paths, its cache, its positions."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.config.models import TransformerSettings
from regard.config.recipes import check_recipe
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.models import build_model
from regard.models.contract import Batch, Model, State, join_steps
from regard.models.transformer import Transformer
from regard.nn.attention.intervention import Edit, Intervention
from regard.nn.attention.multihead import SHORT, Heads, MultiHead
from regard.nn.cache import FIRST_CAPACITY, Cache
from regard.nn.dropout import add_dropped, dropout, noise
from regard.nn.positions import position_table
from regard.nn.ragged import Rows

D, H, F, V = 8, 2, 12, 11
SIZES = {"hidden_size": D, "heads": H, "feedforward_size": F, "encoder_layers": 2, "decoder_layers": 3}


def build(**options: object) -> Transformer:
    torch.manual_seed(4)
    model = build_model(TransformerSettings(**{**SIZES, **options}), V, V).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # zeros and ones would hide a bias or a scale
            parameter.add_(0.2 * torch.randn_like(parameter))
    assert isinstance(model, Transformer)
    return model


def make_batch() -> Batch:
    source = torch.tensor([[5, 6, 7, 8, 3], [9, 10, 3, 0, 0]])
    target = torch.tensor([[2, 4, 5, 6], [2, 7, 8, 0]])
    out = torch.tensor([[4, 5, 6, 3], [7, 8, 3, 0]])
    return Batch(source, source != 0, target, out, target != 0)


# --- the equations ----------------------------------------------------------------------------------------------------


def test_multi_head_attention_is_the_papers_loop():
    torch.manual_seed(1)
    attention = MultiHead(D, H, "cross", 0).double()
    asking, looked_at = torch.randn(1, 3, D).double(), torch.randn(1, 5, D).double()
    rows, keys = Rows(1, 3), Rows(1, 5)
    heads = Heads(attention.ask(asking[0], rows), *attention.prepare(looked_at[0], keys))
    seen = attention.look(heads, None, range(3))
    got = attention.join(seen.contexts, rows).detach().numpy()
    query_matrix, key_matrix, value_matrix = (part.detach().numpy() for part in attention.weight.chunk(3))
    output_matrix, size = attention.output.weight.detach().numpy(), D // H
    for step in range(3):
        joined = []
        for head in range(H):
            own = slice(head * size, (head + 1) * size)
            query = query_matrix[own] @ asking[0, step].numpy()
            scores = [query @ (key_matrix[own] @ key.numpy()) / math.sqrt(size) for key in looked_at[0]]
            weights = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(seen.weights[0, head, step].detach().numpy(), weights, atol=1e-12)
            values = [value_matrix[own] @ value.numpy() for value in looked_at[0]]
            joined.append(sum(weight * value for weight, value in zip(weights, values, strict=True)))
        np.testing.assert_allclose(got[step], output_matrix @ np.concatenate(joined), atol=1e-12)


@pytest.mark.parametrize("length", [7, SHORT + 1])
@pytest.mark.parametrize("hidden", ["nothing", "padding", "future"])
def test_short_and_long_sentences_give_the_looking_paths_contexts_and_gradients(length: int, hidden: str):
    torch.manual_seed(2)
    attention = MultiHead(D, H, "encoder-self", 0).double()
    inputs = torch.randn(3 * length, D, dtype=torch.float64)
    padding = (torch.arange(length) < torch.tensor([[length], [length - 2], [3]]))[:, None, None]
    future = torch.ones(1, 1, length, length, dtype=torch.bool).tril()
    allowed = {"nothing": None, "padding": padding, "future": future}[hidden]
    results = []
    for fast in (True, False):
        attention.zero_grad()
        heads = attention.project(inputs, Rows(3, length))
        if fast:
            contexts = attention.fast(heads, padding if hidden == "padding" else None, causal=hidden == "future")
        else:
            contexts = attention.look(heads, allowed, range(length)).contexts
        contexts.square().sum().backward()
        assert attention.weight.grad is not None
        results.append((contexts.detach(), attention.weight.grad.clone()))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_positions_are_sines_and_cosines(layout: str):
    table = position_table(64, D, layout, torch.float64, torch.device("cpu"))
    for position in (0, 1, 37):
        for pair in range(D // 2):
            angle = position / 10000 ** (2 * pair / D)
            sine, cosine = (2 * pair, 2 * pair + 1) if layout == "interleaved" else (pair, pair + D // 2)
            assert table[position, sine].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[position, cosine].item() == pytest.approx(math.cos(angle), abs=1e-12)


@pytest.mark.parametrize("tied", ["all", "none"])
def test_matrices_begin_at_half_their_usual_size_whatever_is_tied(tied: str):
    torch.manual_seed(4)
    sizes = {"hidden_size": 64, "heads": 4, "feedforward_size": 96, "tie_embeddings": tied}
    model = build_model(TransformerSettings(**{**SIZES, **sizes}), V, V).requires_grad_(False)
    assert isinstance(model, Transformer)
    inner = model.encoder[0].feedforward.inner.weight
    bound = 0.5 * math.sqrt(6 / (64 + 96))  # half of Glorot's
    assert 0.95 * bound < float(inner.abs().max()) <= bound
    vectors = model.embeddings.source.weight * model.scale
    assert float(vectors.square().mean().sqrt()) == pytest.approx(0.5, rel=0.15)  # √d E; positions have 0.7


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHead) -> None:
    assert ours.bias is not None
    theirs.in_proj_weight.copy_(ours.weight)
    theirs.in_proj_bias.copy_(ours.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())


@torch.no_grad()
def torch_twin(model: Transformer, norm: str, activation: str) -> nn.Transformer:
    """torch's Transformer with our weights; it always ends with a norm, the paper's does not."""
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre", "activation": activation}
    twin = nn.Transformer(D, H, 2, 3, F, **options).double().eval()
    if norm == "post":
        twin.encoder.norm = twin.decoder.norm = None
    else:
        twin.encoder.norm.load_state_dict(model.encoder_norm.state_dict())
        twin.decoder.norm.load_state_dict(model.decoder_norm.state_dict())
    for stack, layers in ((twin.encoder, model.encoder), (twin.decoder, model.decoder)):
        for theirs, ours in zip(stack.layers, layers, strict=True):
            copy_attention(theirs.self_attn, ours.self_attention)
            norms = [ours.self_norm, ours.feedforward_norm]
            if hasattr(theirs, "multihead_attn"):
                copy_attention(theirs.multihead_attn, ours.cross_attention)
                norms.insert(1, ours.cross_norm)
            for number, own in enumerate(norms, start=1):
                getattr(theirs, f"norm{number}").load_state_dict(own.state_dict())
            theirs.linear1.load_state_dict(ours.feedforward.inner.state_dict())
            theirs.linear2.load_state_dict(ours.feedforward.outer.state_dict())
    return twin


@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch's nested tensors
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_agrees_with_torchs_transformer(norm: str, activation: str):
    model, batch = build(norm=norm, activation=activation, attention_bias=True), make_batch()
    twin = torch_twin(model, norm, activation)

    def vectors(ids: Tensor, table: nn.Embedding) -> Tensor:
        places = position_table(64, D, "interleaved", torch.float64, ids.device)
        return table(ids) * math.sqrt(D) + places[: ids.size(1)]

    length = batch.target_in.size(1)
    with torch.no_grad():
        expected = twin(
            vectors(batch.source, model.embeddings.source),
            vectors(batch.target_in, model.embeddings.target),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            src_key_padding_mask=~batch.source_mask,
            memory_key_padding_mask=~batch.source_mask,
        )
        got = model(batch).hidden
    torch.testing.assert_close(got[batch.target_mask], expected[batch.target_mask], rtol=0, atol=1e-10)


# --- the two paths ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_looking_path_gives_the_fast_paths_values_and_gradients(norm: str):
    model, batch = build(norm=norm, attention_bias=True, dropout=0.0).train(), make_batch()
    results = []
    for attention in (False, True):
        model.zero_grad()
        hidden = model(batch, attention=attention).hidden[batch.target_mask]
        hidden.square().sum().backward()
        results.append((hidden.detach(), [parameter.grad.clone() for parameter in model.parameters()]))
    (fast, fast_gradients), (looking, looking_gradients) = results
    torch.testing.assert_close(fast, looking, rtol=0, atol=1e-11)
    for own, other in zip(fast_gradients, looking_gradients, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-8, atol=1e-9)


def test_the_fast_path_is_taken_unless_somebody_looks(monkeypatch: pytest.MonkeyPatch):
    model, batch, calls = build(), make_batch(), []
    fast = MultiHead.fast
    monkeypatch.setattr(MultiHead, "fast", lambda *arguments, **options: calls.append(1) or fast(*arguments, **options))
    with torch.no_grad():
        model(batch)
        assert len(calls) == 2 + 3 + 3  # encoder-self, decoder-self, cross
        calls.clear()
        model(batch, attention=True)
        assert not calls
        model(batch, intervention=Intervention(edits=(Edit(kind="cross", layer=1, multiply=0.5),)))
        assert len(calls) == 2 + 3 + 2  # only the layer that is changed is looked at


def test_every_head_of_every_layer_and_kind_is_there():
    model, batch = build(), make_batch()
    attention = model(batch, attention=True).attention
    assert {kind: tuple(weights.shape) for kind, weights in attention.items()} == {
        "encoder-self": (2, 2, H, 5, 5),
        "decoder-self": (2, 3, H, 4, 4),
        "cross": (2, 3, H, 4, 5),
    }
    assert not attention["decoder-self"].triu(1).any()  # nothing of what is to come
    assert not attention["cross"][1, ..., 3:].any()
    memory = model.encode(batch.source, batch.source_mask)
    step = model.step(batch.target_in[:, 0], model.start(memory), memory, attention=True, trace=True)
    assert len(step.trace) == 2 * 3 * H
    for trace in step.trace:
        torch.testing.assert_close(trace.weighted_values.sum(1), trace.context)


def test_an_edit_reaches_one_head_of_one_kind():
    model, batch = build(), make_batch()
    plain = model(batch, attention=True).attention
    for kind in ("encoder-self", "decoder-self", "cross"):
        edit = Edit(kind=kind, layer=0, head=1, step=2, position=0, replace=0.25)
        changed = model(batch, attention=True, intervention=Intervention(edits=(edit,))).attention
        differs = (changed[kind][:, 0] != plain[kind][:, 0]).nonzero().tolist()
        assert differs == [[0, 1, 2, 0], [1, 1, 2, 0]]
        assert (changed[kind][:, 0, 1, 2, 0] == 0.25).all()
    ahead = Intervention(edits=(Edit(kind="decoder-self", step=1, position=3, replace=0.9),))
    assert torch.equal(model(batch, intervention=ahead, attention=True).hidden, model(batch, attention=True).hidden)


def test_a_model_that_starts_with_padding_reads_its_vector_in_place_of_bos():
    model, batch = build(start_token="pad"), make_batch()
    other = build(start_token="bos")
    with torch.no_grad():
        other.embeddings.target.weight[2] = other.embeddings.target.weight[0]
        model.embeddings.target.weight[2] = torch.nan  # never read as an input
    hidden = model(batch).hidden
    assert torch.equal(hidden, other(batch).hidden)


def test_alignment_is_the_mean_of_the_last_layer_but_one_or_what_is_set():
    batch = make_batch()
    model = build()
    attention = model(batch, attention=True).attention
    assert torch.equal(model.alignment(attention), attention["cross"][:, 1].mean(1))
    one = build(alignment_layer=3, alignment_head=1)
    attention = one(batch, attention=True).attention
    assert torch.equal(one.alignment(attention), attention["cross"][:, 2, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "hidden_size = 8 is not a multiple of heads = 3: change one of them"),
        ({"hidden_size": 9, "heads": 3}, "hidden_size = 9 is odd: position encodings need an even size"),
        ({"alignment_layer": 4}, "alignment_layer = 4: decoder layers are 1 to 3"),
        ({"alignment_head": 3}, "alignment_head = 3: heads are 1 to 2"),
    ],
)
def test_sizes_that_do_not_fit_are_named(changes: dict[str, int], message: str):
    table = {
        "model": {"kind": "transformer", **SIZES, **changes},
        "text": {"joint": True},
        "training": {"updates": 1},
    }
    with pytest.raises(ConfigError) as caught:
        check_recipe(table, "test")
    assert message in str(caught.value)


# --- the cache --------------------------------------------------------------------------------------------------------


@torch.no_grad()
def run(model: Model, tokens: Tensor, batch: Batch) -> tuple[list[Tensor], State]:
    memory = model.encode(batch.source, batch.source_mask)
    state, hidden = model.start(memory), []
    for token in tokens.unbind(1):
        step = model.step(token, state, memory)
        state = step.state
        hidden.append(step.hidden)
    return hidden, state


def test_steps_beyond_the_first_buffer_equal_forward():
    model, batch = build(), make_batch()
    length = 2 * FIRST_CAPACITY + 3
    tokens = torch.randint(4, V, (2, length), generator=torch.Generator().manual_seed(1))
    long = Batch(batch.source, batch.source_mask, tokens, tokens, torch.ones_like(tokens, dtype=torch.bool))
    hidden, _ = run(model, tokens, batch)
    torch.testing.assert_close(torch.stack(hidden, 1), model(long).hidden.detach(), rtol=0, atol=1e-10)


@torch.no_grad()
def test_two_steps_from_one_state_do_not_disturb_each_other():
    model, batch = build(), make_batch()
    memory = model.encode(batch.source, batch.source_mask)
    state = model.step(torch.tensor([2, 2]), model.start(memory), memory).state
    first = model.step(torch.tensor([4, 5]), state, memory)
    second = model.step(torch.tensor([6, 7]), state, memory)  # the same place of the buffer is wanted again
    after_first = model.step(torch.tensor([8, 8]), first.state, memory).hidden
    model.step(torch.tensor([9, 9]), second.state, memory)
    expected, _ = run(model, torch.tensor([[2, 4, 8], [2, 5, 8]]), batch)
    torch.testing.assert_close(after_first, expected[-1], rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_step_writes_its_buffer_in_place_and_only_a_move_copies_it():
    cache = Cache.empty(1, 3, H, 4, like=torch.zeros(1))
    grown = cache.grow()
    grown.write(0, torch.ones(3, H, 1, 4), torch.ones(3, H, 1, 4))
    assert grown.buffers[0].data_ptr() == cache.buffers[0].data_ptr()
    assert grown.select(torch.arange(3)) is grown
    moved = grown.select(torch.tensor([2, 0]))
    assert moved.buffers[0].data_ptr() != grown.buffers[0].data_ptr()
    assert moved.length == 1
    assert (moved.filled()[0] == 1).all()


def test_a_state_whose_rows_all_stay_is_not_copied():
    state = State((torch.zeros(3, 2),), 1)
    assert state.select(torch.arange(3)) is state
    assert state.select(torch.tensor([0, 1])).tensors[0].shape == (2, 2)
    assert state.select(torch.tensor([0, 2, 1])) is not state


def test_joined_steps_of_a_growing_look_back_are_padded_with_zeros():
    memory = build().encode(make_batch().source)
    steps = [{"decoder-self": torch.ones(1, 1, 1, 1, width)} for width in (1, 2, 3)]
    assert torch.equal(join_steps(steps, memory)["decoder-self"][0, 0, 0], torch.ones(3, 3).tril())


@pytest.mark.parametrize("beam", [1, 3])
def test_search_records_the_attention_that_forward_gives(beam: int):
    """Reordered caches and sentences that leave do not change what a hypothesis looked at."""
    from regard.config.settings import SearchSettings

    model, batch = build(norm="pre"), make_batch()
    settings = SearchSettings(beam=beam, max_length_ratio=1.0, max_length_extra=4)
    with torch.no_grad():
        found = search(model, batch.source, batch.source_mask, settings, bos=2, eos=3, attention=True)
    for row, (best, *_) in enumerate(found):
        source = batch.source[row : row + 1, : int(batch.source_mask[row].sum())]
        target = torch.tensor([[2, *best.ids[:-1]]])
        ones = torch.ones_like(target, dtype=torch.bool)
        alone = Batch(source, torch.ones_like(source, dtype=torch.bool), target, target, ones)
        expected = model(alone, attention=True).attention
        for kind, weights in expected.items():
            torch.testing.assert_close(best.attention[kind], weights[0].detach(), rtol=0, atol=1e-6)


# --- padding and dropout ----------------------------------------------------------------------------------------------


def test_rows_leave_padding_out_and_send_gradients_home():
    mask = torch.tensor([[True, True, False], [True, False, False]])
    rows = Rows.of(mask)
    padded = torch.arange(12.0).view(2, 3, 2).requires_grad_()
    taken = rows.take(padded)
    assert taken.tolist() == [[0, 1], [2, 3], [6, 7]]
    spread = rows.spread(taken)
    assert torch.equal(spread[mask], padded[mask])
    (spread * torch.arange(1.0, 13.0).view(2, 3, 2)).sum().backward()
    assert padded.grad.tolist() == [[[1, 2], [3, 4], [0, 0]], [[7, 8], [0, 0], [0, 0]]]
    whole = Rows.of(torch.ones(2, 3, dtype=torch.bool))
    assert whole.real is None
    assert torch.equal(whole.spread(whole.take(padded)), padded)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share_everywhere_alike_and_keeps_the_mean(share: float):
    torch.manual_seed(3)
    drawn = noise(torch.empty(50_000, 4), share)
    assert drawn.unique().tolist() == [0.0, pytest.approx(1 / (1 - share), rel=1e-3)]
    for column in drawn.t():  # each of the four parts of a random word
        assert (column == 0).float().mean().item() == pytest.approx(share, abs=0.01)
    inputs = torch.ones(3, 5, requires_grad=True)
    torch.manual_seed(3)
    dropped = add_dropped(torch.ones(3, 5), inputs, share, training=True)
    torch.manual_seed(3)
    assert torch.equal(dropped, 1 + dropout(inputs, share, training=True))
    dropped.sum().backward()
    torch.testing.assert_close(inputs.grad, dropped.detach() - 1)
    assert noise(torch.empty(8), 0.9999999).isfinite().all()
    assert dropout(inputs, share, training=False) is inputs

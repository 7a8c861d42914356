"""Every model with every option keeps the contract, learns in all its parameters, and differs where its paper does."""

from dataclasses import replace
from itertools import product
from typing import get_args

import pytest
import torch

from regard.config.models import (
    STACKED_SOURCE_SCALE,
    BahdanauSettings,
    GnmtSettings,
    LuongSettings,
    ModelConfig,
    ModelSettings,
    ScoreName,
    Seq2SeqSettings,
    TransformerSettings,
    WindowName,
)
from regard.errors import ConfigError
from regard.models import MODELS, build_model
from regard.models.check import check_contract
from regard.models.contract import Batch, Model
from regard.nn.attention.intervention import Edit, Intervention

E, D, V = 6, 8, 11
SIZES = {"embedding_size": E, "hidden_size": D}
SCORES, WINDOWS = get_args(ScoreName), get_args(WindowName)
CELLS, TIES = ("lstm", "gru", "rnn"), ("none", "target", "all")


def luong_settings() -> list[LuongSettings]:
    """Every score × window × input feeding × query; the other options take turns."""
    grid = []
    choices = product(SCORES, WINDOWS, (False, True), ("current", "previous"))
    for number, (score, window, feeding, query) in enumerate(choices):
        # A tied output layer needs the embedding's size: that of h̃ (current), or of [c; h] (previous).
        tie = TIES[number % 3]
        embedding = E if tie == "none" else D if query == "current" else 2 * D
        grid.append(
            LuongSettings(
                embedding_size=embedding,
                hidden_size=D,
                attention_size=5,
                max_source_positions=20,
                window_size=1 + number % 2,
                score=score,
                window=window,
                input_feeding=feeding,
                query=query,
                context_to="output" if query == "previous" and number // 4 % 2 else "step",
                sharpness=(None, 1.0, 3.0)[number // 4 % 3],
                tie_embeddings=tie,
                cell=CELLS[number // 3 % 3],
                layers=1 + number // 2 % 2,
                layer_norm=number // 5 % 2 == 0,
                reverse_source=number // 7 % 2 == 0,
                bidirectional=number // 11 % 2 == 0,
            )
        )
    return grid


def seq2seq_settings() -> list[Seq2SeqSettings]:
    grid = [
        Seq2SeqSettings(
            embedding_size=E if tie == "none" else D,
            hidden_size=D,
            cell=cell,
            layers=layers,
            reverse_source=reverse,
            layer_norm=norm,
            tie_embeddings=tie,
        )
        for (cell, norm, reverse), (layers, tie) in zip(
            product(CELLS, (False, True), (False, True)), [(1, "none"), (2, "target"), (3, "all")] * 4, strict=True
        )
    ]
    cho = {**SIZES, "context": "every_step", "cell": "gru", "layers": 1}
    for norm, reverse, (size, tie) in product((False, True), (False, True), ((4, "none"), (E, "all"))):
        grid.append(
            Seq2SeqSettings(**cho, maxout_size=size, layer_norm=norm, reverse_source=reverse, tie_embeddings=tie)
        )
    return grid


def bahdanau_settings() -> list[BahdanauSettings]:
    return [
        BahdanauSettings(
            **SIZES,
            # These scores need annotations as wide as the state.
            encoder_size=D // 2 if score in ("dot", "scaled_dot", "cosine") else None,
            score=score,
            attention_size=5,
            maxout_size=E if tie != "none" else 4,
            max_source_positions=20,
            layer_norm=norm,
            tie_embeddings=tie,
            encoder_reset=("after", "before")[number // 3 % 2],
            maxout_state=("current", "previous")[number % 2],
            sharpness=(None, 1.0)[number // 2 % 2],
        )
        for number, (score, norm, tie) in enumerate(product(SCORES, (False, True), ("none", "all")))
    ]


def gnmt_settings() -> list[GnmtSettings]:
    return [
        GnmtSettings(
            embedding_size=D if layers == 3 else E,
            hidden_size=D,
            attention_size=5,
            layers=layers,
            context_to=context_to,
            query=query,
            layer_norm=norm,
            tie_embeddings="target" if layers == 3 else "none",
        )
        for layers, norm in product((2, 3, 4), (False, True))
        for context_to, query in (("upper", "previous"), ("all", "previous"), ("upper", "current"))
    ]


def transformer_settings() -> list[TransformerSettings]:
    """Both norms with each position scheme and start; the other options take turns."""
    choices = product(("post", "pre"), ("interleaved", "halves"), ("bos", "pad"))
    return [
        TransformerSettings(
            hidden_size=D,
            feedforward_size=12,
            encoder_layers=1 + number % 2,
            decoder_layers=1 + number // 2 % 3,
            heads=(2, 4, 1)[number % 3],
            norm=norm,
            positions=positions,
            start_token=start,
            activation=("relu", "silu", "gelu")[number % 3],
            attention_bias=number // 3 % 2 == 0,
            output_bias=number % 2 == 0,
            scale_embeddings=number % 4 != 3,
            tie_embeddings=TIES[number % 3],
            alignment_layer=1 if number % 2 else None,
            alignment_head=1 if number % 3 else None,
        )
        for number, (norm, positions, start) in enumerate(choices)
    ]


ALL: list[ModelConfig] = [
    *seq2seq_settings(),
    *bahdanau_settings(),
    *luong_settings(),
    *gnmt_settings(),
    *transformer_settings(),
]
# Its training differs from single steps: padding does not count in the statistics.
BATCH_NORM: list[ModelConfig] = [
    Seq2SeqSettings(**SIZES, batch_norm=True),
    LuongSettings(**SIZES, attention_size=5, batch_norm=True, input_feeding=False, bidirectional=True),
]


def name(settings: object) -> str | None:
    if not isinstance(settings, ModelSettings):
        return None  # pytest finds a name itself
    shown = settings.model_dump(exclude_defaults=True, exclude={"embedding_size", "hidden_size", "attention_size"})
    return "-".join([type(settings).__name__.removesuffix("Settings"), *(str(value) for value in shown.values())])


def build(settings: ModelConfig, seed: int = 1) -> Model:
    torch.manual_seed(seed)
    return build_model(settings, V, V).double().eval()


def make_batch() -> Batch:
    source = torch.tensor([[5, 6, 7, 8, 3], [9, 10, 3, 0, 0]])
    target = torch.tensor([[2, 4, 5, 6], [2, 7, 8, 0]])
    out = torch.tensor([[4, 5, 6, 3], [7, 8, 3, 0]])
    return Batch(source, source != 0, target, out, target != 0)


def loss_of(model: Model, hidden: torch.Tensor, batch: Batch) -> torch.Tensor:
    logits = model.project(hidden)[batch.target_mask]
    return torch.nn.functional.cross_entropy(logits, batch.target_out[batch.target_mask])


def stepwise(model: Model, batch: Batch) -> torch.Tensor:
    memory = model.encode(batch.source, batch.source_mask)
    state = model.start(memory)
    hidden = []
    for token in batch.target_in.unbind(1):
        step = model.step(token, state, memory)
        state = step.state
        hidden.append(step.hidden)
    return torch.stack(hidden, 1)


def test_every_kind_of_model_is_tried():
    assert {settings.kind for settings in ALL} == set(MODELS)


@pytest.mark.parametrize("settings", [*ALL, *BATCH_NORM], ids=name)
def test_contract(settings: ModelConfig):
    local_p = isinstance(settings, LuongSettings) and settings.window == "local-p"
    check_contract(build(settings), source_vocabulary=V, at_most_one=local_p)


@pytest.mark.parametrize("settings", ALL, ids=name)
def test_gradients_reach_every_parameter_and_are_those_of_single_steps(settings: ModelConfig):
    """The loops of `forward` sum weight gradients their own way; plain steps are autograd's."""
    model, batch = build(settings).train(), make_batch()
    for module in model.modules():
        if hasattr(module, "dropout"):
            module.dropout = 0.0
    found = []
    for hidden in (model(batch).hidden, stepwise(model, batch)):
        model.zero_grad()
        loss_of(model, hidden, batch).backward()
        found.append({key: parameter.grad for key, parameter in model.named_parameters()})
    for key, gradient in found[0].items():
        assert gradient is not None, f"{key} gets no gradient"
        assert gradient.any(), f"the gradient of {key} is 0"
        torch.testing.assert_close(gradient, found[1][key], rtol=1e-9, atol=1e-12)


# --- where the architectures differ ----------------------------------------------------------------------------------


def cross(model: Model, batch: Batch, intervention: Intervention | None = None) -> torch.Tensor:
    with torch.no_grad():
        return model(batch, attention=True, intervention=intervention).attention["cross"][:, 0, 0]


@pytest.mark.parametrize(
    ("settings", "sees_the_word"),
    [
        (BahdanauSettings(**SIZES), False),
        (GnmtSettings(**SIZES, layers=3), False),
        (GnmtSettings(**SIZES, layers=3, context_to="all"), False),
        (LuongSettings(**SIZES), True),
        (LuongSettings(**SIZES, input_feeding=False), True),
        (LuongSettings(**SIZES, query="previous"), False),
        (LuongSettings(**SIZES, query="previous", context_to="output", input_feeding=False), False),
    ],
    ids=name,
)
def test_the_query_is_from_before_or_after_the_step(settings: ModelConfig, sees_the_word: bool):
    """Changing a step's input word changes its own weights only where the query is the state after the step."""
    model, batch = build(settings), make_batch()
    target = batch.target_in.clone()
    target[:, 1] = 9
    before, after = cross(model, batch), cross(model, replace(batch, target_in=target))
    assert torch.equal(before[:, 0], after[:, 0])
    assert torch.equal(before[:, 1], after[:, 1]) != sees_the_word
    assert not torch.equal(before[:, 2], after[:, 2]), "the next step sees it in every model"


@pytest.mark.parametrize(
    ("settings", "reaches_next_step"),
    [
        (LuongSettings(**SIZES, input_feeding=True), True),
        (LuongSettings(**SIZES, input_feeding=False), False),
        (LuongSettings(**SIZES, input_feeding=False, query="previous"), True),
        (LuongSettings(**SIZES, input_feeding=False, query="previous", context_to="output"), False),
        (LuongSettings(**SIZES, input_feeding=True, query="previous", context_to="output"), True),
        (BahdanauSettings(**SIZES), True),
        # The query is the bottom layer, which in the paper never sees the context.
        (GnmtSettings(**SIZES, layers=3), False),
        (GnmtSettings(**SIZES, layers=3, context_to="all"), True),
    ],
    ids=name,
)
def test_past_attention_reaches_the_next_query_or_not(settings: ModelConfig, reaches_next_step: bool):
    model, batch = build(settings), make_batch()
    edit = Intervention(edits=(Edit(step=0, position=0, replace=0.9),))
    before, after = cross(model, batch), cross(model, batch, edit)
    assert torch.equal(before[:, 1:], after[:, 1:]) != reaches_next_step


def test_gnmt_upper_layers_remember_the_context():
    """Its context never reaches the query, but the upper layers' states carry it to the next word."""
    model, batch = build(GnmtSettings(**SIZES, layers=3)), make_batch()
    edit = Intervention(edits=(Edit(step=0, position=0, replace=0.9),))
    with torch.no_grad():
        assert not torch.equal(model(batch).hidden[:, 1], model(batch, intervention=edit).hidden[:, 1])


@pytest.mark.parametrize("layers", [2, 3, 4])
def test_gnmt_residuals_begin_at_the_third_layer(layers: int):
    """With upper layers that give 0, what comes out is the input of the residual ones: the second layer's output."""
    model, batch = build(GnmtSettings(**SIZES, layers=layers)), make_batch()
    with torch.no_grad():
        for layer in model.upper[1:]:
            for parameter in layer.parameters():
                parameter.zero_()  # tanh(g) = 0 and c = 0: the layer gives 0 if its state starts at 0
        for layer in model.encoder_upper[1:]:
            for parameter in layer.parameters():
                parameter.zero_()
        memory = model.encode(batch.source, batch.source_mask)
        state = model.start(memory)
        step = model.step(batch.target_in[:, 0], state, memory)
    second = step.state.tensors[3]  # the query, h and c of the bottom layer, then h of the second
    torch.testing.assert_close(step.hidden, second, rtol=0, atol=0)
    assert second.any()


def test_seq2seq_has_no_attention_and_cho_reads_the_vector_at_every_step():
    batch = make_batch()
    for context, cell, layers in (("start", "lstm", 2), ("every_step", "gru", 1)):
        model = build(Seq2SeqSettings(**SIZES, context=context, cell=cell, layers=layers))
        assert model(batch, attention=True).attention == {}
        memory = model.encode(batch.source, batch.source_mask)
        assert memory.keys is None
        assert memory.values is None
        state = model.start(memory)
        step = model.step(batch.target_in[:, 0], state, memory).state
        kept = [torch.equal(a, b) for a, b in zip(state.tensors, step.tensors, strict=True)]
        assert any(kept) == (context == "every_step"), "Cho's state carries the vector on, unchanged"


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_attention_is_in_sentence_order_with_a_reversed_source(cell: str, bidirectional: bool):
    """Reading a sentence backwards is reading its mirror image forwards; positions are the sentence's own."""
    options = {**SIZES, "cell": cell, "bidirectional": bidirectional}
    ahead = build(LuongSettings(**options, reverse_source=False))
    back = build(LuongSettings(**options, reverse_source=True))
    batch = make_batch()
    mirrored = torch.tensor([[8, 7, 6, 5, 3], [10, 9, 3, 0, 0]])  # the end token stays last
    there, here = cross(ahead, replace(batch, source=mirrored)), cross(back, batch)
    torch.testing.assert_close(here[0], there[0][:, [3, 2, 1, 0, 4]], rtol=0, atol=1e-14)
    torch.testing.assert_close(here[1], there[1][:, [1, 0, 2, 3, 4]], rtol=0, atol=1e-14)
    assert not torch.allclose(here[0], there[0])


def test_reversed_source_keeps_the_windows_of_the_sentence():
    """local-m looks at the first word first, also where the model reads it last."""
    model = build(LuongSettings(**SIZES, window="local-m", window_size=1, reverse_source=True))
    weights = cross(model, make_batch())
    assert weights[0, 0].nonzero().flatten().tolist() == [0, 1]
    assert weights[0, 2].nonzero().flatten().tolist() == [1, 2, 3]
    assert weights[1, 3].nonzero().flatten().tolist() == [1, 2]


def test_sutskever_reverses_and_keeps_the_end_last():
    options = {**SIZES, "layers": 1}
    ahead = build(Seq2SeqSettings(**options, reverse_source=False))
    back = build(Seq2SeqSettings(**options, reverse_source=True))
    mirrored = torch.tensor([[8, 7, 6, 5, 3], [10, 9, 3, 0, 0]])
    batch = make_batch()
    with torch.no_grad():
        torch.testing.assert_close(
            back(batch).hidden, ahead(replace(batch, source=mirrored)).hidden, rtol=0, atol=1e-14
        )


# --- what they share -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Seq2SeqSettings, LuongSettings, TransformerSettings])
def test_tied_embeddings_are_one_parameter(kind: type[ModelConfig]):
    options = {"hidden_size": D} if kind is TransformerSettings else {"embedding_size": D, "hidden_size": D}
    sizes = {
        tie: sum(p.numel() for p in build_model(kind(**options, tie_embeddings=tie), V, V).parameters()) for tie in TIES
    }
    assert sizes["none"] - sizes["target"] == V * D
    assert sizes["target"] - sizes["all"] == V * D
    model = build_model(kind(**options, tie_embeddings="all"), V, V)
    assert model.embeddings.source.weight is model.embeddings.target.weight is model.embeddings.output_weight


def test_tying_that_cannot_be_is_named():
    with pytest.raises(ConfigError, match=r"'target' needs an output layer .* 8 and 6: make them equal"):
        build_model(LuongSettings(**SIZES, tie_embeddings="target"), V, V)
    with pytest.raises(ConfigError, match=r"one vocabulary for both languages, not 11 and 12 entries"):
        build_model(LuongSettings(embedding_size=D, hidden_size=D, tie_embeddings="all"), V, V + 1)


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "cosine"])
def test_bahdanau_with_a_score_of_equal_sizes_is_named(score: str):
    with pytest.raises(ConfigError, match=r"one size, not 8 and 16: choose"):
        build_model(BahdanauSettings(**SIZES, score=score), V, V)


@pytest.mark.parametrize(
    "settings",
    [
        BahdanauSettings(**SIZES),
        LuongSettings(**SIZES),
        GnmtSettings(**SIZES, layers=3),
        TransformerSettings(hidden_size=D, dropout=0.3),
    ],
    ids=name,
)
def test_dropout_acts_in_training_and_leaves_the_recorded_weights_whole(settings: ModelConfig):
    model, batch = build(settings).train(), make_batch()
    first, second = model(batch, attention=True), model(batch, attention=True)
    assert not torch.equal(first.hidden, second.hidden)
    sums = first.attention["cross"].sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize(
    "settings",
    [ALL[0], *bahdanau_settings()[:1], *luong_settings()[:1], *gnmt_settings()[:1], *transformer_settings()[:1]],
    ids=name,
)
def test_the_same_seed_gives_the_same_model(settings: ModelConfig):
    first, second = build(settings, seed=3).state_dict(), build(settings, seed=3).state_dict()
    other = build(settings, seed=4).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize(
    "settings",
    [
        Seq2SeqSettings(**SIZES),
        Seq2SeqSettings(**SIZES, context="every_step", cell="gru", layers=1, layer_norm=True),
        BahdanauSettings(**SIZES),
        LuongSettings(**SIZES, window="local-p"),
        LuongSettings(**SIZES, input_feeding=False, cell="gru"),
        GnmtSettings(**SIZES, layers=3, context_to="all"),
        *transformer_settings()[::5],
    ],
    ids=name,
)
@pytest.mark.processor("bfloat16")
def test_mixed_precision_learns_nearly_the_same(settings: ModelConfig):
    """training.precision = "bfloat16": every operation takes the types that the one before it gives."""
    model, batch = build(settings).float(), make_batch()
    found = []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss_of(model, model(batch).hidden, batch).backward()
        found.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    assert torch.isfinite(found[1]).all()
    assert torch.nn.functional.cosine_similarity(found[0], found[1], 0) > 0.98


@pytest.mark.parametrize(
    "settings",
    [
        LuongSettings(embedding_size=128, hidden_size=128, layers=2),
        GnmtSettings(embedding_size=128, hidden_size=128, layers=3),
    ],
    ids=lambda settings: settings.kind,
)
def test_words_are_heard_at_the_top_of_a_fresh_stack(settings: ModelSettings) -> None:
    torch.manual_seed(0)
    model = build_model(settings, 100, 100)
    values = model.encode(torch.randint(4, 100, (8, 10))).values
    assert values is not None
    apart = (values - values.mean(1, keepdim=True)).square().mean().sqrt()  # how much one place differs from others
    assert float(apart.detach()) > 0.15


def test_a_stacked_encoder_reads_larger_source_embeddings_also_from_a_shared_table() -> None:
    ids = torch.tensor([[4, 5]])
    for layers, scale in ((1, 1.0), (2, STACKED_SOURCE_SCALE)):
        settings = LuongSettings(layers=layers, embedding_size=8, hidden_size=8, tie_embeddings="all")
        embeddings = build_model(settings, 20, 20).eval().embeddings
        assert torch.equal(embeddings.read_source(ids), scale * embeddings.read_target(ids))

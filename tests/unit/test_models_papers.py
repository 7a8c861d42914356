"""Each architecture against a slow loop over one sentence, written from its paper and sharing only the parameters.

The model runs both sentences in one padded batch; the loops never see padding.
"""

import math

import numpy as np
import pytest
import torch

from regard.config.models import BahdanauSettings, GnmtSettings, LuongSettings, ModelConfig, Seq2SeqSettings
from regard.models import build_model
from regard.models.contract import Batch, Model

E, D, A, L = 4, 6, 5, 3
SOURCE_VOCABULARY, TARGET_VOCABULARY = 9, 10
SOURCES = [[5, 8, 4, 6, 7, 3], [6, 5, 3]]
TARGETS = [[2, 4, 9, 5, 5], [2, 7, 4, 6, 8]]

Vector = np.ndarray
Parameters = dict[str, np.ndarray]
Loop = tuple[Vector, Vector | None]  # logits (T, V), weights (T, S)


def build(settings: ModelConfig) -> tuple[Model, Parameters]:
    torch.manual_seed(5)
    model = build_model(settings, SOURCE_VOCABULARY, TARGET_VOCABULARY).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # zeros and ones would hide a bias, a scale or a gate
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model, {name: value.detach().numpy() for name, value in model.named_parameters()}


def compare(settings: ModelConfig, loop) -> None:
    """The model's logits and weights of both sentences equal the loop's."""
    model, parameters = build(settings)
    width = max(map(len, SOURCES))
    source = torch.tensor([ids + [0] * (width - len(ids)) for ids in SOURCES])
    target = torch.tensor(TARGETS)
    batch = Batch(source, source != 0, target, target, torch.ones_like(target, dtype=torch.bool))
    with torch.no_grad():
        output = model(batch, attention=True)
        logits = model.project(output.hidden).numpy()
    for row, (ids, words) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected, weights = loop(settings, parameters, ids, words)
        np.testing.assert_allclose(logits[row], expected, rtol=0, atol=1e-10)
        if weights is None:
            assert output.attention == {}
            continue
        got = output.attention["cross"][row, 0, 0].numpy()
        np.testing.assert_allclose(got[:, : len(ids)], weights, rtol=0, atol=1e-10)
        assert not got[:, len(ids) :].any()


# --- cells -----------------------------------------------------------------------------------------------------------


def sigmoid(x: Vector) -> Vector:
    return 1 / (1 + np.exp(-x))


def softmax(scores: list[float]) -> Vector:
    top = max(scores)
    exponentials = np.array([math.exp(score - top) for score in scores])
    return exponentials / exponentials.sum()


def lstm(p: Parameters, name: str, x: Vector, h: Vector, c: Vector) -> tuple[Vector, Vector]:
    gates = p[f"{name}.weight_input"] @ x + p[f"{name}.weight_hidden"] @ h + p[f"{name}.bias"]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def elman(p: Parameters, name: str, x: Vector, h: Vector) -> Vector:
    return np.tanh(p[f"{name}.weight_input"] @ x + p[f"{name}.weight_hidden"] @ h + p[f"{name}.bias"])


def gru_of_torch(p: Parameters, name: str, x: Vector, h: Vector) -> Vector:
    """The listed departure: the reset gate after the matrix."""
    xr, xz, xn = np.split(p[f"{name}.weight_input"] @ x + p[f"{name}.bias"], 3)
    hr, hz, hn = np.split(p[f"{name}.weight_hidden"] @ h + p[f"{name}.bias_hidden"], 3)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + r * hn) + z * h


def gru_of_bahdanau(p: Parameters, name: str, x: Vector, s: Vector) -> Vector:
    """A.1.1: s̃ = tanh(W x + U [r ∘ s]), s = (1 − z) ∘ s + z ∘ s̃."""
    Wr, Wz, W = np.split(p[f"{name}.weight_input"], 3)
    Ur, Uz = np.split(p[f"{name}.weight_hidden"], 2)
    br, bz, b = np.split(p[f"{name}.bias"], 3)
    r = sigmoid(Wr @ x + Ur @ s + br)
    z = sigmoid(Wz @ x + Uz @ s + bz)
    return (1 - z) * s + z * np.tanh(W @ x + p[f"{name}.weight_candidate"] @ (r * s) + b)


def cell_step(kind: str, p: Parameters, name: str, x: Vector, state: tuple[Vector, ...]) -> tuple[Vector, ...]:
    if kind == "lstm":
        return lstm(p, name, x, *state)
    return ((gru_of_torch if kind == "gru" else elman)(p, name, x, *state),)


def zeros(kind: str, size: int) -> tuple[Vector, ...]:
    return (np.zeros(size),) * (2 if kind == "lstm" else 1)


def embed(p: Parameters, side: str, ids: list[int]) -> list[Vector]:
    return [p[f"embeddings.{side}.weight"][token] for token in ids]


def logits(p: Parameters, hidden: Vector) -> Vector:
    return p["embeddings.output_weight"] @ hidden + p["embeddings.output_bias"]


def additive(p: Parameters, query: Vector, annotations: list[Vector]) -> list[float]:
    W, U, v = (p[f"attend.score.{name}"] for name in ("query.weight", "key.weight", "v"))
    return [float(v @ np.tanh(W @ query + U @ h)) for h in annotations]


def mix(weights: Vector, values: list[Vector]) -> Vector:
    return sum((weight * value for weight, value in zip(weights, values, strict=True)), np.zeros_like(values[0]))


def maxout(pairs: Vector) -> Vector:
    return np.array([max(pairs[2 * unit], pairs[2 * unit + 1]) for unit in range(len(pairs) // 2)])


def read_stack(kind: str, layers: int, p: Parameters, words: list[Vector]) -> tuple[list[Vector], list]:
    """Top outputs and the final state of every layer of `encoder`."""
    final = []
    for layer in range(layers):
        state = zeros(kind, D)
        outputs = []
        for word in words:
            state = cell_step(kind, p, f"encoder.layers.{layer}", word, state)
            outputs.append(state[0])
        words = outputs
        final.append(state)
    return words, final


def backwards(ids: list[int]) -> list[int]:
    """Sutskever's order, with the end token still last."""
    return [*ids[-2::-1], ids[-1]]


# --- Sutskever 2014 --------------------------------------------------------------------------------------------------


def sutskever(settings: Seq2SeqSettings, p: Parameters, source: list[int], target: list[int]) -> Loop:
    ids = backwards(source) if settings.reverse_source else source
    _, states = read_stack(settings.cell, settings.layers, p, embed(p, "source", ids))
    rows = []
    for x in embed(p, "target", target):
        for layer in range(settings.layers):
            states[layer] = cell_step(settings.cell, p, f"decoder.layers.{layer}", x, states[layer])
            x = states[layer][0]
        rows.append(logits(p, x))
    return np.array(rows), None


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("reverse", [False, True])
def test_sutskever(cell: str, reverse: bool):
    settings = Seq2SeqSettings(embedding_size=E, hidden_size=D, cell=cell, layers=3, reverse_source=reverse)
    compare(settings, sutskever)


# --- Cho 2014, appendix A.1 ------------------------------------------------------------------------------------------


def cho(settings: Seq2SeqSettings, p: Parameters, source: list[int], target: list[int]) -> Loop:
    ids = backwards(source) if settings.reverse_source else source
    _, [(last,)] = read_stack("gru", 1, p, embed(p, "source", ids))
    c = np.tanh(p["decoder.summary.weight"] @ last + p["decoder.summary.bias"])
    s = np.tanh(p["decoder.initial.weight"] @ c + p["decoder.initial.bias"])
    Wz, Wr, W = np.split(p["decoder.cell.weight_input"], 3)
    Uz, Ur, U = np.split(p["decoder.cell.weight_hidden"], 3)
    Cz, Cr, C = np.split(p["decoder.gates_summary.weight"], 3)
    bz, br, b = np.split(p["decoder.cell.bias"], 3)
    rows = []
    for y in embed(p, "target", target):
        z = sigmoid(Wz @ y + Uz @ s + Cz @ c + bz)
        r = sigmoid(Wr @ y + Ur @ s + Cr @ c + br)
        candidate = np.tanh(W @ y + b + r * (U @ s + C @ c))
        s = z * s + (1 - z) * candidate  # z keeps the old state here, and takes the new one in Bahdanau
        pairs = p["decoder.output_state.weight"] @ s + p["decoder.output_state.bias"]
        pairs = pairs + p["decoder.output_word.weight"] @ y + p["decoder.output_summary.weight"] @ c
        rows.append(logits(p, maxout(pairs)))
    return np.array(rows), None


@pytest.mark.parametrize("reverse", [False, True])
def test_cho(reverse: bool):
    settings = Seq2SeqSettings(
        embedding_size=E,
        hidden_size=D,
        cell="gru",
        layers=1,
        context="every_step",
        maxout_size=L,
        reverse_source=reverse,
    )
    compare(settings, cho)


# --- Bahdanau 2015, appendix A.2 -------------------------------------------------------------------------------------


def bahdanau(settings: BahdanauSettings, p: Parameters, source: list[int], target: list[int]) -> Loop:
    words = embed(p, "source", source)
    size = settings.encoder_size or D
    reads = gru_of_bahdanau if settings.encoder_reset == "before" else gru_of_torch
    ahead, back = [], []
    h = np.zeros(size)
    for x in words:
        h = reads(p, "encoder_forward", x, h)
        ahead.append(h)
    h = np.zeros(size)
    for x in reversed(words):
        h = reads(p, "encoder_backward", x, h)
        back.insert(0, h)
    annotations = [np.concatenate(pair) for pair in zip(ahead, back, strict=True)]
    s = np.tanh(p["initial.weight"] @ back[0] + p["initial.bias"])  # s₀ from ←h₁
    rows, used = [], []
    for y in embed(p, "target", target):
        alpha = softmax(luong_scores(settings, p, s, annotations))  # of sᵢ₋₁
        c = mix(alpha, annotations)
        before = s
        s = gru_of_bahdanau(p, "cell", np.concatenate([y, c]), s)
        shown = before if settings.maxout_state == "previous" else s
        pairs = p["output_state.weight"] @ shown + p["output_state.bias"]
        pairs = pairs + p["output_word.weight"] @ y + p["output_context.weight"] @ c
        rows.append(logits(p, maxout(pairs)))
        used.append(alpha)
    return np.array(rows), np.array(used)


BAHDANAU = {"embedding_size": E, "hidden_size": D, "attention_size": A, "maxout_size": L}


@pytest.mark.parametrize("reset", ["after", "before"])
@pytest.mark.parametrize("state", ["current", "previous"])
def test_bahdanau(reset: str, state: str):
    compare(BahdanauSettings(**BAHDANAU, encoder_reset=reset, maxout_state=state), bahdanau)


@pytest.mark.parametrize("sharpness", [None, 1.0, 2.5])
def test_bahdanau_with_cosine(sharpness: float | None):
    compare(BahdanauSettings(**BAHDANAU, encoder_size=D // 2, score="cosine", sharpness=sharpness), bahdanau)


# --- Luong 2015, equations 5 to 10 -----------------------------------------------------------------------------------


def luong_scores(
    settings: LuongSettings | BahdanauSettings, p: Parameters, query: Vector, keys: list[Vector]
) -> list[float]:
    match settings.score:
        case "dot":
            return [float(query @ key) for key in keys]
        case "general":
            return [float(query @ p["attend.score.weight"] @ key) for key in keys]
        case "concat" | "additive":
            return additive(p, query, keys)
        case "cosine":
            learned = settings.sharpness is None
            beta = math.exp(p["attend.score.log_sharpness"]) if learned else settings.sharpness
            return [float(beta * (query @ key) / np.linalg.norm(query) / np.linalg.norm(key)) for key in keys]
        case "location":
            W = p["attend.score.position.weight"]
            return [float(W[j] @ query) if j < len(W) else -math.inf for j in range(len(keys))]
    raise AssertionError(settings.score)


def luong_weights(settings: LuongSettings, p: Parameters, query: Vector, keys: list[Vector], step: int) -> Vector:
    scores = luong_scores(settings, p, query, keys)
    length, D_window = len(keys), settings.window_size
    reached = min(length, settings.max_source_positions) if settings.score == "location" else length
    if settings.window == "global":
        return softmax(scores)
    centre = float(min(step, reached))
    if settings.window == "local-p":
        inner = p["attend.window.v.weight"][0] @ np.tanh(p["attend.window.weight.weight"] @ query)
        centre = reached * float(sigmoid(inner))  # eq. 9
    inside = [s for s in range(1, length + 1) if abs(s - centre) <= D_window]
    weights = np.zeros(length)
    weights[[s - 1 for s in inside]] = softmax([scores[s - 1] for s in inside])
    if settings.window == "local-p":  # eq. 10
        weights *= [math.exp(-((s - centre) ** 2) / (2 * (D_window / 2) ** 2)) for s in range(1, length + 1)]
    return weights


def luong(settings: LuongSettings, p: Parameters, source: list[int], target: list[int]) -> Loop:
    ids = backwards(source) if settings.reverse_source else source
    keys, states = read_stack(settings.cell, settings.layers, p, embed(p, "source", ids))
    if settings.reverse_source:
        keys = [*keys[-2::-1], keys[-1]]  # the state that read word j stands at j again
    current = settings.query == "current"
    fed = np.zeros(D if current else 2 * D)
    rows, used = [], []
    for step, word in enumerate(embed(p, "target", target), start=1):
        inputs = [word, fed] if settings.input_feeding else [word]
        if not current:
            weights = luong_weights(settings, p, states[-1][0], keys, step)
            context = mix(weights, keys)
            if settings.context_to == "step":
                inputs.append(context)
        x = np.concatenate(inputs)
        for layer in range(settings.layers):
            states[layer] = cell_step(settings.cell, p, f"decoder.layers.{layer}", x, states[layer])
            x = states[layer][0]
        if current:
            weights = luong_weights(settings, p, x, keys, step)
            context = mix(weights, keys)
        fed = np.concatenate([context, x])
        if current:
            fed = np.tanh(p["combine.weight"] @ fed)  # eq. 5
        rows.append(logits(p, fed))
        used.append(weights)
    return np.array(rows), np.array(used)


@pytest.mark.parametrize("window", ["global", "local-m", "local-p"])
@pytest.mark.parametrize(
    ("score", "option"),
    [
        ("dot", {}),
        ("general", {}),
        ("concat", {}),
        ("location", {}),
        pytest.param("location", {"max_source_positions": 2}, marks=pytest.mark.filterwarnings("ignore:a source is")),
        ("cosine", {}),
        ("cosine", {"sharpness": 1.0}),
    ],
)
def test_luong_attention(score: str, option: dict[str, int], window: str):
    sizes = {"embedding_size": E, "hidden_size": D, "attention_size": A}
    compare(LuongSettings(**sizes, score=score, window=window, window_size=1, layers=2, **option), luong)


@pytest.mark.parametrize(("query", "context_to"), [("current", "step"), ("previous", "step"), ("previous", "output")])
@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("cell", "layers"), [("lstm", 4), ("gru", 1), ("rnn", 2)])
def test_luong_options(query: str, context_to: str, feeding: bool, reverse: bool, cell: str, layers: int):
    settings = LuongSettings(
        embedding_size=E,
        hidden_size=D,
        cell=cell,
        layers=layers,
        query=query,
        context_to=context_to,
        input_feeding=feeding,
        reverse_source=reverse,
    )
    compare(settings, luong)


# --- Wu et al. 2016, equations 4 to 7 --------------------------------------------------------------------------------


def gnmt(settings: GnmtSettings, p: Parameters, source: list[int], target: list[int]) -> Loop:
    words = embed(p, "source", source)
    ahead, back = [], []
    state = zeros("lstm", D)
    for x in words:
        state = lstm(p, "encoder_forward", x, *state)
        ahead.append(state[0])
    state = zeros("lstm", D)
    for x in reversed(words):
        state = lstm(p, "encoder_backward", x, *state)
        back.insert(0, state[0])
    starts = [state]  # the bottom decoder layer goes on from the backward direction
    x_layer = [np.concatenate(pair) for pair in zip(ahead, back, strict=True)]
    for layer in range(2, settings.layers + 1):  # counted from 1
        state = zeros("lstm", D)
        m = []
        for x in x_layer:
            state = lstm(p, f"encoder_upper.{layer - 2}", x, *state)
            m.append(state[0])
        starts.append(state)
        # eq. 6: xᵢ = mᵢ + xᵢ₋₁, from the third layer on
        x_layer = [a + b for a, b in zip(m, x_layer, strict=True)] if settings.residual and layer >= 3 else m
    states, query = starts, np.zeros(D)
    rows, used = [], []
    for word in embed(p, "target", target):
        if settings.query == "current":
            states[0] = lstm(p, "bottom", word, *states[0])
            query = states[0][0]
        alpha = softmax(additive(p, query, x_layer))  # eq. 4, of the bottom layer's last output
        context = mix(alpha, x_layer)
        x = np.concatenate([word, context]) if settings.context_to == "all" else word
        if settings.query == "previous":
            states[0] = lstm(p, "bottom", x, *states[0])
        x = query = states[0][0]
        for layer in range(2, settings.layers + 1):
            states[layer - 1] = lstm(p, f"upper.{layer - 2}", np.concatenate([x, context]), *states[layer - 1])
            added = x if settings.residual and layer >= 3 else 0  # never the context
            x = states[layer - 1][0] + added
        rows.append(logits(p, x))
        used.append(alpha)
    return np.array(rows), np.array(used)


@pytest.mark.parametrize("layers", [2, 3, 5])
@pytest.mark.parametrize(("context_to", "query"), [("upper", "previous"), ("all", "previous"), ("upper", "current")])
def test_gnmt(layers: int, context_to: str, query: str):
    sizes = {"embedding_size": E, "hidden_size": D, "attention_size": A}
    compare(GnmtSettings(**sizes, layers=layers, context_to=context_to, query=query), gnmt)
    compare(GnmtSettings(**sizes, layers=layers, context_to=context_to, query=query, residual=False), gnmt)

"""ONNX graphs: the numbers of every model, for every option, and files that only such a model has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.config.recipes import check_recipe
from regard.decoding.engines.graphs.compile import GRAPH_FILES, MANIFEST, compile_model, is_compiled
from regard.models import build_model
from regard.models.contract import Model

onnxruntime = pytest.importorskip("onnxruntime")

SMALL = {"hidden_size": 16, "embedding_size": 12}
SCORE = {"kind": "luong", **SMALL, "window_size": 2, "max_source_positions": 9, "attention_size": 10}
TRANSFORMER = {"kind": "transformer", "hidden_size": 16, "heads": 4, "encoder_layers": 2, "feedforward_size": 20}
CASES: dict[str, dict[str, Any]] = {
    "seq2seq": {"kind": "seq2seq", **SMALL},
    "seq2seq gru norm": {"kind": "seq2seq", **SMALL, "cell": "gru", "layer_norm": True},
    "seq2seq rnn norm": {"kind": "seq2seq", **SMALL, "cell": "rnn", "layer_norm": True, "reverse_source": False},
    "seq2seq lstm norm": {"kind": "seq2seq", **SMALL, "layer_norm": True},
    "cho": {"kind": "seq2seq", **SMALL, "cell": "gru", "layers": 1, "context": "every_step", "maxout_size": 6},
    "cho norm": {
        "kind": "seq2seq",
        **SMALL,
        "cell": "gru",
        "layers": 1,
        "context": "every_step",
        "maxout_size": 6,
        "layer_norm": True,
    },
    "bahdanau": {"kind": "bahdanau", **SMALL, "attention_size": 10, "maxout_size": 12, "tie_embeddings": "target"},
    "bahdanau paper": {
        "kind": "bahdanau",
        **SMALL,
        "encoder_reset": "before",
        "maxout_state": "previous",
        "encoder_size": 7,
        "layer_norm": True,
        "score": "general",
    },
    "bahdanau location": {"kind": "bahdanau", **SMALL, "score": "location", "max_source_positions": 9},
    "gnmt": {"kind": "gnmt", **SMALL, "layers": 4},
    **{  # one table, whose source embeddings are multiplied by ten
        f"{kind} one table": {
            "kind": kind,
            "hidden_size": 16,
            "embedding_size": 16,
            "layers": 2,
            "tie_embeddings": "all",
        }
        for kind in ("seq2seq", "luong", "gnmt")
    },
    "gnmt plain": {"kind": "gnmt", **SMALL, "layers": 4, "residual": False},
    "gnmt all": {"kind": "gnmt", **SMALL, "layers": 2, "context_to": "all"},
    "gnmt current": {"kind": "gnmt", **SMALL, "layers": 3, "query": "current", "layer_norm": True},
    "transformer": {**TRANSFORMER, "decoder_layers": 3, "tie_embeddings": "target"},
    "transformer pre": {
        **TRANSFORMER,
        "decoder_layers": 2,
        "norm": "pre",
        "activation": "gelu",
        "positions": "halves",
        "attention_bias": True,
        "output_bias": True,
        "start_token": "pad",
        "tie_embeddings": "none",
        "alignment_head": 1,
    },
    "transformer silu": {**TRANSFORMER, "decoder_layers": 1, "activation": "silu", "scale_embeddings": False},
    **{
        f"luong {score} {window}": {**SCORE, "score": score, "window": window}
        for score in ("dot", "scaled_dot", "general", "additive", "concat", "location", "cosine")
        for window in ("global", "local-m", "local-p")
    },
    "luong no feeding": {**SCORE, "input_feeding": False},
    "luong previous": {**SCORE, "query": "previous"},
    "luong textbook": {**SCORE, "query": "previous", "context_to": "output", "cell": "gru"},
    "luong both ways": {**SCORE, "bidirectional": True, "cell": "rnn", "layer_norm": True, "reverse_source": False},
    "luong fixed cosine": {**SCORE, "score": "cosine", "sharpness": 2.0, "query": "previous", "input_feeding": False},
}
WORDS = 25


def make(case: dict[str, Any]) -> Model:
    """A model with weights that make it decide."""
    recipe = check_recipe({"model": case, "text": {"joint": True}, "training": {"updates": 1}}, "test")
    torch.manual_seed(3)
    model = build_model(recipe.model, WORDS, WORDS).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def files(model: Model, *, int8: bool = False) -> dict[str, bytes]:
    weights = model.compilable()
    assert weights is not None
    return compile_model(weights.settings, {key: value.numpy() for key, value in weights.tensors.items()}, int8=int8)


def write(model: Model, folder: Path, *, int8: bool = False) -> Path:
    for name, content in files(model, int8=int8).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("name", CASES)
@torch.inference_mode()
def test_graphs_give_the_numbers_of_the_model(name: str, tmp_path: Path) -> None:
    model = make(CASES[name])
    write(model, tmp_path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    graphs = {part: onnxruntime.InferenceSession(str(tmp_path / f"{part}.onnx"), options) for part in PARTS}
    source = torch.randint(4, WORDS, (3, 7))
    lengths = torch.tensor([7, 4, 2])
    mask = torch.arange(7) < lengths[:, None]
    memory = model.encode(source * mask, mask)
    parent, token = torch.tensor([0, 0, 1, 1, 2, 2]), torch.full((6,), 2)
    state = model.start(memory).select(parent)
    values = run(graphs["encode"], {"source": (source * mask).numpy(), "lengths": lengths.numpy()})
    for step in range(5):
        ours = model.step(token, state, memory, attention=True)
        logits = model.project(ours.hidden)
        values |= {"token": token.numpy(), "parent": parent.numpy(), "position": np.array([step])}
        theirs = run(graphs["step"], values)
        found = run(graphs["project"], {**theirs, "k": np.array([4])})
        np.testing.assert_allclose(found["logits"], logits, atol=2e-5, rtol=1e-5)
        best = logits.log_softmax(-1).topk(4)
        np.testing.assert_allclose(found["best"], best.values, atol=2e-5)
        if "alignment" in theirs:
            np.testing.assert_allclose(theirs["alignment"], model.alignment(ours.attention)[:, 0], atol=1e-5)
        else:
            assert CASES[name]["kind"] == "seq2seq"
        values |= {key.replace("next", "state"): value for key, value in theirs.items() if key.startswith("next")}
        parent, token = torch.tensor([1, 0, 3, 2, 5, 5]), torch.randint(4, WORDS, (6,))
        state = ours.state.select(parent)


PARTS = ("encode", "step", "project")


def run(graph: Any, values: dict[str, Any]) -> dict[str, Any]:
    names = [output.name for output in graph.get_outputs()]
    needed = {given.name: values[given.name] for given in graph.get_inputs()}
    return dict(zip(names, graph.run(names, needed), strict=True))


@pytest.mark.parametrize("name", ["gnmt", "luong location local-p", "bahdanau", "transformer pre"])
@pytest.mark.parametrize("int8", [False, True])
def test_onnx_accepts_the_files(name: str, int8: bool, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="needs the extra dev")
    write(make(CASES[name]), tmp_path, int8=int8)
    for part in PARTS:
        onnx.checker.check_model(str(tmp_path / f"{part}.onnx"), full_check=not int8)


@pytest.mark.parametrize("name", ["seq2seq", "bahdanau", "luong cosine global", "gnmt", "transformer"])
@pytest.mark.parametrize("int8", [False, True])
def test_a_copy_of_another_model_is_told_apart(name: str, int8: bool) -> None:
    model = make(CASES[name])
    weights = model.compilable()
    assert weights is not None
    shapes = {key: tuple(value.shape) for key, value in model.named_parameters()}  # tied weights once, as in a file
    found = files(model, int8=int8)
    size = len(found["weights.bin"])
    graphs = {key: found[key] for key in GRAPH_FILES}
    assert is_compiled(graphs, size, weights.settings, shapes, int8=int8)
    assert not is_compiled(graphs, size - 1, weights.settings, shapes, int8=int8)
    assert not is_compiled(graphs, size, weights.settings, {}, int8=int8)
    assert not is_compiled(graphs, size, weights.settings, shapes, int8=not int8)
    changed = {**graphs, "step.onnx": graphs["step.onnx"].replace(b"Tanh", b"Sinh")}
    assert (name == "transformer") == is_compiled(changed, size, weights.settings, shapes, int8=int8)


def test_tied_weights_are_stored_once() -> None:
    size = {tie: len(files(make({**TRANSFORMER, "tie_embeddings": tie}))["weights.bin"]) for tie in ("none", "all")}
    assert size["none"] - size["all"] >= 2 * WORDS * 16 * 4
    manifest = json.loads(files(make(CASES["bahdanau"]))[MANIFEST])
    assert (manifest["target_vocabulary"], manifest["states"], manifest["eos"]) == (WORDS, [[16]], 3)


def test_a_model_of_ones_own_is_not_compiled() -> None:
    from regard.models.bahdanau import Bahdanau

    class Mine(Bahdanau):
        """Another step."""

    recipe = check_recipe({"model": CASES["bahdanau"], "training": {"updates": 1}}, "test")
    assert recipe.model.kind == "bahdanau"
    assert Mine(recipe.model, WORDS, WORDS).compilable() is None

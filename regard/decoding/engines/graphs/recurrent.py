"""The recurrent architectures as ONNX graphs of the encoder and of one decoder step.

Each function follows `encode`, `start` and `step` of the model in `models/`. Products with the same input are one
product; parts of an input are concatenated first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.config.models import BahdanauSettings, GnmtSettings, LuongSettings, Seq2SeqSettings
from regard.decoding.engines.graphs.attention import Attention
from regard.decoding.engines.graphs.builder import Graph
from regard.decoding.engines.graphs.cells import STATE_TENSORS, Cell, CellKind, Direction, State, run
from regard.decoding.engines.graphs.sentence import Reader
from regard.decoding.engines.graphs.signature import Signature, name_state, states

# --- seq2seq (Sutskever 2014, Cho 2014) ------------------------------------------------------------------------------


def seq2seq(settings: Seq2SeqSettings, encoder: Graph, step: Graph) -> Signature:
    """Encoder and step without attention."""
    reader = Reader(encoder)
    words = reader.words(settings.source_scale, settings.reverse_source)
    cells = [Cell(settings.cell, f"encoder.layers.{layer}") for layer in range(settings.layers)]
    _, final = stack(encoder, words, reader.real, cells)
    if settings.context == "every_step":
        return cho(settings, encoder, step, final[0])
    name_state(encoder, final)
    decoder = [Cell(settings.cell, f"decoder.layers.{layer}") for layer in range(settings.layers)]
    after = stack_step(step, decoder, decoder[0].project(step, step.embed("token", "target")), states(step, len(final)))
    step.op("Identity", after[-STATE_TENSORS[settings.cell]], name="hidden")
    name_state(step, after, "next")
    return Signature(hidden=settings.hidden_size, memory={}, states=[settings.hidden_size] * len(final))


def cho(settings: Seq2SeqSettings, encoder: Graph, step: Graph, last: str) -> Signature:
    """The summary is an input of every step; the state is (s, C c, O_c c)."""
    summary = encoder.op("Tanh", encoder.apply(last, "decoder.summary"))
    start = encoder.op("Tanh", encoder.apply(summary, "decoder.initial"))
    gates, output = (encoder.apply(summary, f"decoder.{part}_summary") for part in ("gates", "output"))
    name_state(encoder, [start, gates, output])
    hidden, gates, output = states(step, 3)
    word, cell = step.embed("token", "target"), Cell("cho", "decoder.cell")
    (after,) = cell.step(step, cell.project(step, word), (hidden,), gates)
    sums = [step.apply(after, "decoder.output_state"), step.apply(word, "decoder.output_word"), output]
    maxout(step, step.op("Add", step.op("Add", sums[0], sums[1]), sums[2]), settings.maxout_size)
    name_state(step, [after, gates, output], "next")
    size = settings.hidden_size
    return Signature(hidden=settings.maxout_size, memory={}, states=[size, 3 * size, 2 * settings.maxout_size])


# --- Bahdanau 2015 ---------------------------------------------------------------------------------------------------


def bahdanau(settings: BahdanauSettings, encoder: Graph, step: Graph) -> Signature:
    """Attention before the step, with the previous state as query; maxout output."""
    size, width = settings.hidden_size, settings.maxout_size
    encoder_size = settings.encoder_size or size
    attention = Attention(
        settings.score,
        size,
        2 * encoder_size,
        attention_size=settings.attention_size,
        sharpness=settings.sharpness,
        reach=settings.max_source_positions if settings.score == "location" else None,
    )
    reader = Reader(encoder)
    kind: CellKind = "paper_gru" if settings.encoder_reset == "before" else "gru"
    ways = [Direction(Cell(kind, "encoder_forward")), Direction(Cell(kind, "encoder_backward"), backwards=True)]
    both, ((_,), (first,)) = run(encoder, reader.words(settings.source_scale), reader.real, ways)
    annotations = reader.batch_first(encoder.op("Concat", *both, axis=-1))
    attention.prepare(encoder, annotations, reader.mask, "lengths")
    name_state(encoder, [encoder.op("Tanh", encoder.apply(first, "initial"))])

    (before,) = states(step, 1)
    context, weights = attention.attend(step, before)
    inputs = step.op("Concat", step.embed("token", "target"), context, axis=-1)
    cell = Cell("paper_gru", "cell")
    gates, bias = cell.input_weight(step)
    output = np.concatenate([step.tensor(f"output_{part}.weight") for part in ("word", "context")], 1)
    both_weights, no_bias = np.concatenate([gates, output]), np.zeros(len(output), dtype=np.float32)
    joined = step.linear(inputs, both_weights, np.concatenate([bias, no_bias]), "cell.input_and_output")
    product, deep = step.split(joined, 3 * size, 2 * width)
    (after,) = cell.step(step, product, (before,))
    shown = step.apply(after if settings.maxout_state == "current" else before, "output_state")
    maxout(step, step.op("Add", shown, deep), width)
    name_state(step, [after], "next")
    step.op("Identity", weights, name="alignment")
    return Signature(hidden=width, memory=attention.memory(), states=[size], aligns=True, max_positions=attention.reach)


# --- Luong 2015 ------------------------------------------------------------------------------------------------------


def luong(settings: LuongSettings, encoder: Graph, step: Graph) -> Signature:
    """Attention after the step with the current state as query, or before it with the previous one."""
    size, per_layer = settings.hidden_size, STATE_TENSORS[settings.cell]
    current = settings.query == "current"
    context_in_step = not current and settings.context_to == "step"
    output_size = size if current else 2 * size
    attention = Attention(
        settings.score,
        size,
        size,
        attention_size=settings.attention_size,
        sharpness=settings.sharpness,
        reach=settings.max_source_positions if settings.score == "location" else None,
        window=settings.window,
        width=settings.window_size,
    )
    reader = Reader(encoder)
    words = reader.words(settings.source_scale, settings.reverse_source)
    cells = [Cell(settings.cell, f"encoder.layers.{layer}") for layer in range(settings.layers)]
    back = [Cell(settings.cell, f"encoder.backward_layers.{layer}") for layer in range(settings.layers)]
    outputs, final = stack(encoder, words, reader.real, cells, back if settings.bidirectional else [])
    keys = reader.batch_first(outputs)
    if settings.reverse_source:
        keys = reader.reordered(keys)
    attention.prepare(encoder, keys, reader.mask, "lengths")
    nothing = [encoder.op("Mul", final[0], encoder.number(0.0))] if settings.input_feeding else []
    if nothing and output_size != size:
        nothing = [encoder.op("Concat", nothing[0], nothing[0], axis=-1)]
    name_state(encoder, [*final, *nothing])

    before = states(step, len(final) + len(nothing))
    layers = before[: len(final)]
    decoder = [Cell(settings.cell, f"decoder.layers.{layer}") for layer in range(settings.layers)]
    inputs = [step.embed("token", "target"), *before[len(final) :]]
    context = weights = ""
    if not current:
        context, weights = attention.attend(step, layers[-per_layer])
        inputs += [context] if context_in_step else []
    joined = inputs[0] if len(inputs) == 1 else step.op("Concat", *inputs, axis=-1)
    after = stack_step(step, decoder, decoder[0].project(step, joined), layers)
    top = after[-per_layer]
    if current:
        context, weights = attention.attend(step, top)
    attentional = step.op("Concat", context, top, axis=-1)
    if current:
        attentional = step.op("Tanh", step.apply(attentional, "combine"))
    step.op("Identity", attentional, name="hidden")
    name_state(step, [*after, attentional] if settings.input_feeding else after, "next")
    step.op("Identity", weights, name="alignment")
    sizes = [size] * len(final) + [output_size] * len(nothing)
    return Signature(
        hidden=output_size, memory=attention.memory(), states=sizes, aligns=True, max_positions=attention.reach
    )


# --- GNMT 2016 -------------------------------------------------------------------------------------------------------


def gnmt(settings: GnmtSettings, encoder: Graph, step: Graph) -> Signature:
    """Residual layers; the bottom decoder layer's output is the query, the context an input of the others."""
    size = settings.hidden_size
    attention = Attention("additive", size, size, attention_size=settings.attention_size)
    reader = Reader(encoder)
    ways = [Direction(Cell("lstm", "encoder_forward")), Direction(Cell("lstm", "encoder_backward"), backwards=True)]
    both, (_, last) = run(encoder, reader.words(settings.source_scale), reader.real, ways)
    inputs, final = encoder.op("Concat", *both, axis=-1), [*last]
    for number in range(1, settings.layers):
        cell = Cell("lstm", f"encoder_upper.{number - 1}")
        (outputs,), (last,) = run(encoder, inputs, reader.real, [Direction(cell)])
        inputs = encoder.op("Add", outputs, inputs) if settings.is_residual(number) else outputs
        final += last
    attention.prepare(encoder, reader.batch_first(inputs), reader.mask, "lengths")
    name_state(encoder, [encoder.op("Mul", final[0], encoder.number(0.0)), *final])

    query, *layers = states(step, 1 + len(final))
    word, bottom = step.embed("token", "target"), Cell("lstm", "bottom")
    if settings.query == "current":
        query, memory = bottom.step(step, bottom.project(step, word), (layers[0], layers[1]))
        context, weights = attention.attend(step, query)
        below = query
    else:
        context, weights = attention.attend(step, query)
        joined = step.op("Concat", word, context, axis=-1) if settings.context_to == "all" else word
        below, memory = bottom.step(step, bottom.project(step, joined), (layers[0], layers[1]))
    after = [below, below, memory]
    for number in range(1, settings.layers):
        cell = Cell("lstm", f"upper.{number - 1}")
        joined = step.op("Concat", below, context, axis=-1)
        hidden, memory = cell.step(step, cell.project(step, joined), (layers[2 * number], layers[2 * number + 1]))
        after += [hidden, memory]
        below = step.op("Add", hidden, below) if settings.is_residual(number) else hidden
    step.op("Identity", below, name="hidden")
    name_state(step, after, "next")
    step.op("Identity", weights, name="alignment")
    return Signature(hidden=size, memory=attention.memory(), states=[size] * len(after), aligns=True)


# --- stacks ----------------------------------------------------------------------------------------------------------


def stack(
    graph: Graph, inputs: str, real: str, cells: Sequence[Cell], backward: Sequence[Cell] = ()
) -> tuple[str, list[str]]:
    """Outputs of the top layer (S, B, D) and the flat final state of all layers."""
    final: list[str] = []
    for number, cell in enumerate(cells):
        ways = [Direction(cell)]
        if backward:
            ways.append(Direction(backward[number], backwards=True))
        outputs, ends = run(graph, inputs, real, ways)
        inputs = graph.op("Concat", *outputs, axis=-1) if backward else outputs[0]
        final += [graph.op("Concat", *pair, axis=-1) if backward else pair[0] for pair in zip(*ends, strict=True)]
    return inputs, final


def stack_step(graph: Graph, cells: Sequence[Cell], product: str, before: Sequence[str]) -> list[str]:
    """The flat state of all layers after one step, from the bottom layer's input product."""
    after: list[str] = []
    for number, cell in enumerate(cells):
        count = STATE_TENSORS[cell.kind]
        if number:
            product = cell.project(graph, after[-count])
        own: State = tuple(before[number * count : (number + 1) * count])
        after += cell.step(graph, product, own)
    return after


def maxout(graph: Graph, inputs: str, size: int) -> None:
    """The output: the maximum of each pair of neighbours."""
    pairs = graph.op("Reshape", inputs, graph.numbers(0, size, 2))
    graph.op("ReduceMax", pairs, axes=[2], keepdims=0, name="hidden")

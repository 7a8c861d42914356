"""What feeds what in a model, unrolled over a short sentence, as its recipe and its paper say.

The graph follows the equations of `regard/models` and needs no torch; `diagram_svg.py` draws it.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.config.models import (
    BahdanauSettings,
    GnmtSettings,
    LuongSettings,
    ModelConfig,
    Seq2SeqSettings,
    TransformerSettings,
)
from regard.errors import ConfigError
from regard.look.views.graph import Diagram, Edge, Plan, layer_name, literal, state_text

MOST_WORDS = 8
END = "</s>"
FIRST_RESIDUAL = 3  # the third layer


def build_diagram(model: ModelConfig, source: str, target: str | None = None) -> Diagram:
    """The graph of a model over the words of a sentence; without a target, three placeholder steps."""
    source_words = [*_words(source, "source"), END]
    target_words = [*(_words(target, "target") if target is not None else ["y_1", "y_2"]), END]
    plan = Plan(source_words, target_words)
    if isinstance(model, BahdanauSettings):
        _bahdanau(plan, model)
    elif isinstance(model, LuongSettings):
        _luong(plan, model)
    elif isinstance(model, GnmtSettings):
        _gnmt(plan, model)
    elif isinstance(model, TransformerSettings):
        _transformer(plan, model)
    else:
        _seq2seq(plan, model)
    return Diagram(plan.nodes, tuple(plan.edges), tuple(plan.row_labels), tuple(plan.notes))


def _words(text: str, side: str) -> list[str]:
    words = text.split()
    if not 1 <= len(words) <= MOST_WORDS:
        raise ConfigError(
            f"the {side} sentence has {len(words)} words: a diagram is legible with 1 to {MOST_WORDS}; "
            f"give a sentence of that length with --{side}."
        )
    return [literal(word) for word in words]


def _formula(score: str, query: str, key: str, sharpness: float | None = 1.0) -> str:
    beta = "β " if sharpness is None else "" if sharpness == 1 else f"{sharpness:g} "
    return {
        "dot": f"{query}^T {key}",
        "scaled_dot": f"{query}^T {key} / √d",
        "general": f"{query}^T W {key}",
        "additive": f"v^T tanh(W {query} + U {key})",
        "concat": f"v^T tanh(W [{query}; {key}])",
        "location": f"(W {query})_s",
        "cosine": f"{beta}cos({query}, {key})",
    }[score]


def _sharpness_note(model: BahdanauSettings | LuongSettings) -> str:
    return ";  β is learned" if model.score == "cosine" and model.sharpness is None else ""


def _seq2seq(plan: Plan, model: Seq2SeqSettings) -> None:
    plan.read_source(model.reverse_source)
    plan.read_target()
    if model.context == "every_step":
        _cho(plan, model)
        return
    plan.encode(model.layers, model.cell, "h̄")
    _stacked_decoder(plan, model.layers, model.cell, 2)
    for layer in range(1, model.layers + 1):
        plan.link(f"encoder.{layer}.{plan.order[-1]}", f"decoder.{layer}.1", "start")
    plan.write(model.layers + 2, f"decoder.{model.layers}")
    plan.notes += ["The last states of the encoder are all that the decoder ever learns of the source."]


def _stacked_decoder(plan: Plan, layers: int, cell: str, first_row: int) -> None:
    below = "embed.target"
    for layer in range(1, layers + 1):
        plan.decoder_layer(layer, first_row + layer - 1, "h", numbered=layers > 1)
        for step in plan.steps:
            plan.link(f"{below}.{step}", f"decoder.{layer}.{step}", "input")
        plan.label("decoder", first_row + layer - 1, layer_name(cell, layer, layers))
        below = f"decoder.{layer}"


def _cho(plan: Plan, model: Seq2SeqSettings) -> None:
    plan.encode(1, model.cell, "h")
    plan.add("summary", "layer", "c", "decoder", 0, 2)
    plan.add("start", "cell", "s_0", "decoder", 0, 3)
    plan.link(f"encoder.1.{plan.order[-1]}", "summary", "start")
    plan.link("summary", "start", "start")
    _maxout_decoder(plan, dict.fromkeys(plan.steps, "summary"))
    plan.notes += [
        "c = tanh(V h_N),  s_0 = tanh(V′ c)",
        "s_i = GRU(E y_{i−1}, s_{i−1}, c)",
        "output: maxout(O_h s_i + O_y E y_{i−1} + O_c c)",
    ]


def _maxout_decoder(plan: Plan, contexts: dict[int, str], previous: bool = False) -> None:
    """The decoder of Cho and of Bahdanau: state, word and context make the output; its rows are 3 to 5.

    The state is that after the step, or the `previous` one.
    """
    plan.decoder_layer(1, 3, "s", numbered=False)
    plan.link("start", "decoder.1.1", "recurrent")
    for step in plan.steps:
        state, maxout, word = f"decoder.1.{step}", f"maxout.{step}", f"embed.target.{step}"
        plan.add(maxout, "layer", f"t_{step}", "decoder", step, 4)
        plan.link(word, state, "input")
        plan.link(contexts[step], state, "context")
        before = "start" if step == 1 else f"decoder.1.{step - 1}"
        plan.link(before if previous else state, maxout, "input")
        plan.link(word, maxout, "word")
        plan.link(contexts[step], maxout, "context")
    plan.label("decoder", 3, "GRU")
    plan.label("decoder", 4, "maxout")
    plan.write(5, "maxout")


def _bahdanau(plan: Plan, model: BahdanauSettings) -> None:
    plan.read_source()
    plan.read_target()
    plan.both_directions(1, 2, "embed.source")
    for position in plan.positions:
        plan.add(f"annotation.{position}", "layer", f"h_{position}", "encoder", plan.column(position), 4)
        for direction in ("forward", "backward"):
            plan.link(f"encoder.1.{direction}.{position}", f"annotation.{position}", "input")
    plan.label("encoder", 2, "GRU →")
    plan.label("encoder", 3, "GRU ←")
    plan.label("encoder", 4, "annotation [→; ←]")
    plan.attend(2, model.score, [f"annotation.{position}" for position in plan.positions])
    plan.label("decoder", 2, "attention")
    plan.add("start", "cell", "s_0", "decoder", 0, 3)
    plan.link("encoder.1.backward.1", "start", "start")
    for step in plan.steps:
        plan.link("start" if step == 1 else f"decoder.1.{step - 1}", f"attend.{step}", "query")
    previous = model.maxout_state == "previous"
    _maxout_decoder(plan, {step: f"attend.{step}" for step in plan.steps}, previous)
    shown = "s_{i−1}" if previous else "s_i"
    reset = "U (r ∘ h)" if model.encoder_reset == "before" else "r ∘ (U h)"
    plan.notes += [
        f"e_{{ij}} = {_formula(model.score, 's_{i−1}', 'h_j', model.sharpness)}:  the previous state is the query"
        + _sharpness_note(model),
        "α_{ij} = softmax_j e_{ij},  c_i = Σ_j α_{ij} h_j,  s_i = GRU([E y_{i−1}; c_i], s_{i−1})",
        f"t_i = maxout(U {shown} + V E y_{{i−1}} + C c_i),  s_0 = tanh(W ←h_1)",
        f"GRU candidates:  tanh(W x + {reset}) in the encoder,  tanh(W x + U (r ∘ s)) in the decoder",
    ]


def _luong(plan: Plan, model: LuongSettings) -> None:
    plan.read_source(model.reverse_source)
    plan.read_target()
    current, layers = model.query == "current", model.layers
    first_row = 2 if current else 3  # attention stands above the layers, or below them
    if model.bidirectional:
        keys = _both_ways(plan, model)
    else:
        keys = plan.encode(layers, model.cell, "h̄", first_row)
    _stacked_decoder(plan, layers, model.cell, first_row)
    for layer in range(1, layers + 1):
        for final in _final_states(plan, model, layer):
            plan.link(final, f"decoder.{layer}.1", "start")
    attend_row, output_row = (layers + 2, layers + 3) if current else (2, layers + 3)
    plan.attend(attend_row, model.score, keys)
    plan.label("decoder", attend_row, "attention")
    for step in plan.steps:
        joined = f"attentional.{step}"
        text = f"h̃_{step}" if current else f"[c_{step}; h_{step}]"
        plan.add(joined, "layer", text, "decoder", step, output_row)
        plan.link(f"decoder.{layers}.{step}", joined, "input")
        plan.link(f"attend.{step}", joined, "context")
        if not current and model.context_to == "step":
            plan.link(f"attend.{step}", f"decoder.1.{step}", "context")
        if model.input_feeding and step > 1:
            plan.link(f"attentional.{step - 1}", f"decoder.1.{step}", "feeding")
    _luong_queries(plan, model, attend_row)
    plan.label("decoder", output_row, "tanh" if current else "joined")
    plan.write(output_row + 1, "attentional")
    plan.notes += _luong_notes(model)


def _both_ways(plan: Plan, model: LuongSettings) -> list[str]:
    below = "embed.source"
    for layer in range(1, model.layers + 1):
        row = 3 * layer - 1
        plan.both_directions(layer, row, below)
        below = f"joined.{layer}"
        for position in plan.positions:
            name = f"{below}.{position}"
            plan.add(name, "layer", f"h̄_{position}", "encoder", plan.column(position), row + 2)
            for direction in ("forward", "backward"):
                plan.link(f"encoder.{layer}.{direction}.{position}", name, "input")
        cell = layer_name(model.cell, layer, model.layers)
        for offset, text in enumerate((f"{cell} →", f"{cell} ←", "[→; ←]")):
            plan.label("encoder", row + offset, text)
    return [f"{below}.{position}" for position in plan.positions]


def _final_states(plan: Plan, model: LuongSettings, layer: int) -> list[str]:
    if model.bidirectional:
        return [f"encoder.{layer}.forward.{plan.order[-1]}", f"encoder.{layer}.backward.{plan.order[0]}"]
    return [f"encoder.{layer}.{plan.order[-1]}"]


def _luong_queries(plan: Plan, model: LuongSettings, attend_row: int) -> None:
    current, layers = model.query == "current", model.layers
    if not current:
        plan.add("start", "cell", "h_0", "decoder", 0, layers + 2)
        # h₀ is the state that the encoder leaves to the top layer, drawn as a box of its own to be a query.
        plan.edges = [
            Edge(edge.source, "start", "start")
            if edge.target == f"decoder.{layers}.1" and edge.role == "start"
            else edge
            for edge in plan.edges
        ]
        plan.link("start", f"decoder.{layers}.1", "recurrent")
    for step in plan.steps:
        before = "start" if step == 1 else f"decoder.{layers}.{step - 1}"
        query = f"decoder.{layers}.{step}" if current else before
        plan.link(query, f"attend.{step}", "query")
        if model.window != "global":
            plan.add(f"centre.{step}", "centre", f"p_{step}", "decoder", step, attend_row + 0.66)
            plan.link(f"centre.{step}", f"attend.{step}", "centre")
        if model.window == "local-p":
            plan.link(query, f"centre.{step}", "query")


def _luong_notes(model: LuongSettings) -> list[str]:
    query = "h_t" if model.query == "current" else "h_{t−1}"
    which = "current" if model.query == "current" else "previous"
    score = _formula(model.score, query, "h̄_s", model.sharpness)
    notes = [f"a_t(s) = softmax_s {score}:  the {which} state is the query;  c_t = Σ_s a_t(s) h̄_s"]
    notes[0] += _sharpness_note(model)
    reach = f"only positions p_t ± {model.window_size} are attended to"
    if model.score == "location":
        notes.append(
            f"location:  only the first {model.max_source_positions} positions are scored;  S counts no others"
        )
    if model.window == "local-m":
        notes.append(f"local-m:  p_t = min(t, S);  {reach}")
    if model.window == "local-p":
        notes.append(
            f"local-p:  p_t = S · sigmoid(v^T tanh(W {query}));  {reach}, times exp(−(s − p_t)^2 / 2σ^2), "
            f"σ = {model.window_size / 2:g}"
        )
    joined = "h̃_t = tanh(W [c_t; h_t])"
    if model.query == "previous":
        use = "joins the input" if model.context_to == "step" else "is used there alone"
        joined = f"[c_t; h_t] makes the output; c_t {use}"
    fed = {"current": "h̃_{t−1}", "previous": "[c_{t−1}; h_{t−1}]"}[model.query]
    if model.layers > 1:
        notes[0] += f";  h and h̄ are the states of layer {model.layers}"
    notes.append(f"{joined};  " + (f"{fed} is fed to the next step" if model.input_feeding else "no input feeding"))
    return notes


def _gnmt(plan: Plan, model: GnmtSettings) -> None:
    plan.read_source()
    plan.read_target()
    plan.both_directions(1, 2, "embed.source")
    plan.label("encoder", 2, "LSTM 1 →")
    plan.label("encoder", 3, "LSTM 1 ←")
    below = {position: f"embed.source.{position}" for position in plan.positions}
    for layer in range(2, model.layers + 1):
        plan.encoder_layer(layer, layer + 2, "h̄", numbered=True)
        plan.label("encoder", layer + 2, f"LSTM {layer}")
        for position in plan.positions:
            if layer == 2:
                for direction in ("forward", "backward"):
                    plan.link(f"encoder.1.{direction}.{position}", f"encoder.2.{position}", "input")
            below[position] = _residual(plan, f"encoder.{layer}.{position}", layer, below[position])
    _gnmt_decoder(plan, model, list(below.values()))
    context = "every layer but the bottom one" if model.context_to == "upper" else "every layer"
    now = model.query == "current"
    score = _formula("additive", "h_i^1" if now else "h_{i−1}^1", "h̄_j")
    asks = "output is the query" if now else "previous output is the query, 0 at first"
    plan.notes += [
        f"e_{{ij}} = {score}:  the bottom layer's {asks}",
        f"c_i = Σ_j softmax_j(e_{{ij}}) h̄_j  goes to {context};  h̄_j is the top of the encoder",
    ]
    if model.layers >= FIRST_RESIDUAL:
        plan.notes.append("From the third layer on, a layer's input is added to its output (+); the context is not.")


def _residual(plan: Plan, cell: str, layer: int, below: str) -> str:
    """Feed a cell from below and return what it hands on: itself, or from the third layer on the sum of both."""
    if layer > 2:
        plan.link(below, cell, "input")
    if layer < FIRST_RESIDUAL:
        return cell
    node, total = plan.nodes[cell], f"sum.{cell}"
    plan.add(total, "add", "+", node.side, node.column, node.row + 0.5)
    plan.link(cell, total, "input")
    plan.link(below, total, "residual")
    return total


def _gnmt_decoder(plan: Plan, model: GnmtSettings, keys: Sequence[str]) -> None:
    plan.attend(3, "additive", keys)
    plan.label("decoder", 3, "attention")
    if model.query == "previous":
        plan.add("zero", "zero", "0", "decoder", 0, 3)
    for layer in range(1, model.layers + 1):
        row = 2 if layer == 1 else layer + 2
        plan.decoder_layer(layer, row, "h", numbered=True)
        plan.label("decoder", row, f"LSTM {layer}")
        # the bottom layer goes on from the backward direction, which ends at the first word
        final = "encoder.1.backward.1" if layer == 1 else f"encoder.{layer}.{plan.order[-1]}"
        plan.link(final, f"decoder.{layer}.1", "start")
    for step in plan.steps:
        asks = step if model.query == "current" else step - 1
        plan.link(f"decoder.1.{asks}" if asks else "zero", f"attend.{step}", "query")
        plan.link(f"embed.target.{step}", f"decoder.1.{step}", "input")
        if model.context_to == "all":
            plan.link(f"attend.{step}", f"decoder.1.{step}", "context")
        plan.link(f"decoder.1.{step}", f"decoder.2.{step}", "input")
        below = f"decoder.1.{step}"
        for layer in range(2, model.layers + 1):
            plan.link(f"attend.{step}", f"decoder.{layer}.{step}", "context")
            below = _residual(plan, f"decoder.{layer}.{step}", layer, below)
    last = f"decoder.{model.layers}" if model.layers < FIRST_RESIDUAL else f"sum.decoder.{model.layers}"
    plan.write(model.layers + 3, last)


ATTEND_ROWS, LAYER_ROWS = 0.85, 1.65  # of a decoder layer, above its self-attention: the look at the source, the output


def _transformer(plan: Plan, model: TransformerSettings) -> None:
    plan.read_source()
    plan.read_target()
    below = "embed.source"
    for layer in range(1, model.encoder_layers + 1):
        for position in plan.positions:
            name, text = f"encoder.{layer}.{position}", state_text("x", position, layer, model.encoder_layers > 1)
            plan.add(name, "cell", text, "encoder", position, layer + 1)
            plan.link(f"{below}.{position}", name, "input")
            for other in plan.positions:
                plan.link(f"{below}.{other}", name, "self")
        plan.label("encoder", layer + 1, f"layer {layer}")
        below = f"encoder.{layer}"
    keys = [f"{below}.{position}" for position in plan.positions]
    below, row = "embed.target", 2.0
    for layer in range(1, model.decoder_layers + 1):
        _transformer_decoder_layer(plan, model, layer, row, below, keys)
        below, row = f"decoder.{layer}", row + LAYER_ROWS + 1
    plan.write(row, below)
    plan.notes += _transformer_notes(model)


def _transformer_decoder_layer(
    plan: Plan, model: TransformerSettings, layer: int, row: float, below: str, keys: Sequence[str]
) -> None:
    numbered = model.decoder_layers > 1
    for step in plan.steps:
        own, look, output = f"decoder.{layer}.self.{step}", f"attend.{layer}.{step}", f"decoder.{layer}.{step}"
        plan.add(own, "cell", state_text("s", step, layer, numbered), "decoder", step, row)
        plan.add(look, "attend", f"{model.heads} heads", "decoder", step, row + ATTEND_ROWS)
        plan.add(output, "cell", state_text("h", step, layer, numbered), "decoder", step, row + LAYER_ROWS)
        plan.link(f"{below}.{step}", own, "input")
        for earlier in range(1, step + 1):  # causal
            plan.link(f"{below}.{earlier}", own, "self")
        plan.link(own, look, "query")
        for key in keys:
            plan.link(key, look, "keys")
        plan.link(look, output, "context")
        plan.link(own, output, "input")
    plan.label("decoder", row, f"layer {layer}: self")
    plan.label("decoder", row + ATTEND_ROWS, "cross attention")
    plan.label("decoder", row + LAYER_ROWS, "feed-forward")


def _transformer_notes(model: TransformerSettings) -> list[str]:
    scale = "√d " if model.scale_embeddings else ""
    size = model.hidden_size // model.heads
    wrapped = {
        "post": "sub-layers are added to their input and normalised:  norm(x + f(x))",
        "pre": "sub-layers read their input normalised and are added to it:  x + f(norm(x))",
    }[model.norm]
    return [
        f"each of {model.heads} heads:  softmax(q^T k / √{size});  d = {model.hidden_size};  "
        f"inputs are {scale}E x + PE(position)",
        wrapped + ";  an encoder layer is self-attention and a feed-forward network",
        "in the decoder a word looks at itself and at the words before it, never ahead",
    ]

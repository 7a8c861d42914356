"""The animation: every number on every frame is the record's, and what is drawn can be read back."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest
from look_help import translator_of
from PIL import Image

from regard.cli import main
from regard.errors import ConfigError
from regard.inference.translator import Translator
from regard.look.maps import Choice
from regard.look.record import Look
from regard.look.views.animation import TWEENS, frames_of, save_animation
from regard.look.views.fonts import fonts_for
from regard.look.views.gif import Frame, Lettering, Mark, draw_frame, save_gif
from regard.look.views.scene import CONTEXT, STATES, VALUES, gaussian_curve

SENTENCE, REFERENCE = "the cat saw a tree", "작은 here"


PASSING = {"asked", "key", "term", "formula", "sum"}  # seen with the scores alone


def look_with(**model: Any) -> Look:
    return translator_of(model).look(SENTENCE, reference=REFERENCE)


@pytest.fixture(scope="module")
def bahdanau() -> Look:
    return look_with(kind="bahdanau")


def value_at(look: Look, frame: Frame, what: str) -> float:
    """The number of the record that a mark says it shows."""
    name, *places = re.findall(r"\w+", what)
    step = look.steps[frame.step]
    first, *rest = [int(place) for place in places] or [0]
    if name == "vector":
        assert look.fixed_vector is not None
        return look.fixed_vector[first]
    if name == "chosen_probability":
        return step.probability
    if name == "probability":
        return step.candidates[first].probability
    trace = step.attention[0]
    if name == "centre":
        assert trace.centre is not None
        return trace.centre
    if name == "state":
        return trace.weighted_values[first][rest[0]] / trace.weights[first] if trace.weights[first] else 0.0
    if name in ("key", "term", "asked"):
        (keys,) = look.keys
        assert trace.asked is not None
        if name == "asked":
            return trace.asked[first]
        query, key, factor = trace.asked[rest[0]], keys.keys[first][rest[0]], keys.factor[rest[0]]
        return key if name == "key" else factor * (math.tanh(query + key) if keys.additive else query * key)
    if name == "weighted":
        return trace.weighted_values[first][rest[0]]
    if name == "score":
        score = trace.scores[first]
        assert score is not None
        return score
    numbers = {"weight": trace.weights, "query": trace.query, "context": trace.context}
    return numbers[name][first]


MODELS: dict[str, dict[str, Any]] = {
    "bahdanau": {"kind": "bahdanau"},
    "local-p": {"kind": "luong", "window": "local-p", "window_size": 2},
    "local-m": {"kind": "luong", "window": "local-m", "window_size": 1},
    "seq2seq": {"kind": "seq2seq"},
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_number_that_is_drawn_is_that_of_the_record(model: dict[str, Any]) -> None:
    look = look_with(**model)
    frames = frames_of(look)
    seen = set()
    for frame in frames:
        for mark in frame.marks:
            if not isinstance(mark.value, float):
                continue
            expected = value_at(look, frame, mark.what)
            assert mark.value == pytest.approx(expected, rel=1e-9)
            seen.add(mark.what.split("[")[0])
            if mark.shape == "text":
                decimals = len(mark.text.partition(".")[2])
                assert float(mark.text) == pytest.approx(expected, abs=0.51 * 10**-decimals)
    if look.fixed_vector is not None:
        assert seen == {"vector", "probability", "chosen_probability"}
    else:
        assert seen >= {
            "state",
            "query",
            "asked",
            "key",
            "term",
            "score",
            "weight",
            "weighted",
            "context",
            "probability",
        }
    assert not {mark.text for frame in frames for mark in frame.marks} & {"nan", "-0.00", "inf"}


def test_the_stages_come_in_order_and_what_appeared_stays(bahdanau: Look) -> None:
    frames = [frame for frame in frames_of(bahdanau, steps=2) if frame.milliseconds > 100]
    five = ["scores", "weights", "values", "context", "output"]
    assert [(frame.step, frame.stage) for frame in frames] == [
        (0, "states"),
        *((0, stage) for stage in five),
        *((1, stage) for stage in five),
    ]
    for before, after in itertools.pairwise(frames):
        if before.step == after.step:
            kept = {mark for mark in before.marks if mark.what and mark.what != "so_far"}
            if before.stage == "scores":
                passing = {mark for mark in kept if mark.what.split("[")[0] in PASSING}
                assert {mark.what.split("[")[0] for mark in passing} == PASSING
                kept -= passing
            assert kept <= set(after.marks)
    said = [mark.text for frame in frames for mark in frame.marks if mark.what == "so_far"]
    assert said[0] == "…"
    assert said[5] == bahdanau.target.pieces[0].surface


@pytest.mark.parametrize("model", [*MODELS.values()][:3], ids=[*MODELS][:3])
def test_a_score_is_written_out_and_its_terms_sum_to_it(model: dict[str, Any]) -> None:
    look = look_with(**model)
    frames = [frame for frame in frames_of(look) if frame.stage == "scores" and frame.milliseconds > 100]
    assert len(frames) == len(look.steps)
    for frame in frames:
        (written,) = [mark for mark in frame.marks if mark.what.startswith("sum[")]
        terms, score = re.sub(r"\(.*?\)", "", written.text.replace("−", "-")).removeprefix("= ").split(" = ")
        trace = look.steps[frame.step].attention[0]
        assert float(score) == pytest.approx(trace.scores[int(written.what[4:-1])], abs=0.0051)
        numbers = [float(number) for number in re.findall(r"-? ?[\d.]+", terms.replace("- ", "-"))]
        assert sum(numbers) == pytest.approx(float(score), abs=0.006 * (len(numbers) + 1))


def test_a_local_window_shows_its_bounds_its_centre_and_its_gaussian() -> None:
    look = look_with(**MODELS["local-p"])
    for frame in frames_of(look):
        trace = look.steps[frame.step].attention[0]
        (area,) = [mark for mark in frame.marks if mark.what == "window"]
        assert trace.window is not None
        columns = [mark.x for mark in frame.marks if mark.what.startswith("source[")]
        first, last = trace.window
        if len(columns) > last:
            assert area.x < columns[first] <= columns[last] < area.x + area.width
        if frame.stage == "output":
            (curve,) = [mark for mark in frame.marks if mark.shape == "curve"]
            assert curve.value == tuple(trace.gaussian or ())
    plain = [mark.shape for frame in frames_of(look_with(**MODELS["local-m"])) for mark in frame.marks]
    assert "curve" not in plain


def test_the_gaussian_is_a_smooth_curve_through_the_factors_of_the_record() -> None:
    centre, variance = 2.3, 1.44
    factors = [math.exp(-((place - centre) ** 2) / (2 * variance)) for place in range(1, 6)]
    curve = dict(gaussian_curve(factors, centre))
    assert len(curve) > 80
    for place, factor in enumerate(factors):
        assert curve[min(curve, key=lambda x: abs(x - place))] == pytest.approx(factor, rel=1e-3)
    top = max(curve, key=lambda x: curve[x])
    assert top + 1 == pytest.approx(centre, abs=0.05)


def test_states_slide_to_their_weighted_values_and_these_into_the_context(bahdanau: Look) -> None:
    def tops(stage: str) -> list[list[float]]:
        frames = [frame for frame in frames_of(bahdanau, steps=1) if frame.stage == stage][:-1]
        return [[mark.y for mark in frame.marks if mark.edge and not mark.what] for frame in frames]

    values, context = tops("values"), tops("context")
    assert len(values) == TWEENS["values"]
    assert all(max(one) < max(other) for one, other in itertools.pairwise(values))
    assert STATES < min(values[0]) < max(values[-1]) < CONTEXT
    assert all(min(one) < min(other) for one, other in itertools.pairwise(context))
    assert min(context[0]) > VALUES
    assert min(context[-1]) == pytest.approx(CONTEXT, abs=20)


def test_a_gif_keeps_every_shade_of_the_ramp(tmp_path: Path) -> None:
    """A palette counted from the pixels would merge neighbouring shades."""
    shades = [Mark.cell(8.0 * place, 20, 8, 30, place / 50 - 1, 0.0, "") for place in range(101)]
    save_gif([Frame(tuple(shades), 100, "states", 0)], tmp_path / "ramp.gif")
    with Image.open(tmp_path / "ramp.gif") as image:
        pixels = image.convert("RGB")
        drawn = [pixels.getpixel((8 * place + 3, 30)) for place in range(101)]
    assert drawn == [tuple(bytes.fromhex(mark.colour[1:])) for mark in shades]


def test_an_ensemble_without_trace_shows_its_weights() -> None:
    one, two = translator_of({"kind": "bahdanau"}), translator_of({"kind": "luong"}, seed=2)
    look = Translator.ensemble([one, two]).look(SENTENCE, reference=REFERENCE)
    assert {frame.stage for frame in frames_of(look)} == {"states", "weights", "output"}


def test_the_wanted_layer_and_head_are_shown() -> None:
    small = {"hidden_size": 8, "encoder_layers": 1, "decoder_layers": 2, "heads": 2, "feedforward_size": 8}
    table = {"kind": "transformer", **small}
    translator = translator_of(table)
    look = translator.look(SENTENCE, reference=REFERENCE)
    frame = frames_of(look, Choice(layer=1, head=2))[-1]
    (trace,) = [each for each in look.steps[frame.step].attention if (each.layer, each.head) == (0, 1)]
    drawn = [mark.value for mark in frame.marks if mark.what.startswith("weight[")]
    assert drawn == trace.weights
    assert any("layer 1, head 2" in mark.text for mark in frame.marks)
    with pytest.raises(ConfigError, match="no cross layer 5"):
        frames_of(look, Choice(layer=5))
    with pytest.raises(ConfigError, match="kind cross"):
        frames_of(look, Choice(kind="encoder-self"))


def test_a_gif_is_written_small_and_at_the_size_and_speed_that_were_asked_for(bahdanau: Look, tmp_path: Path) -> None:
    path = save_animation(bahdanau, tmp_path / "steps.gif", steps=1, size=450, speed=2)
    assert path.stat().st_size < 300_000
    with Image.open(path) as image:
        assert image.size == (450, 300)
        assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)
        assert getattr(image, "n_frames", 1) >= 6
        durations = []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            durations.append(image.info["duration"])
    frames = frames_of(bahdanau, steps=1)
    assert sum(durations) == pytest.approx(sum(frame.milliseconds for frame in frames) / 2, rel=0.1)
    with pytest.raises(ConfigError, match=r"\.gif"):
        save_animation(bahdanau, tmp_path / "steps.png")


def test_ink_lies_where_the_marks_are() -> None:
    marks = (Mark.bar(100, 100, 50, 50, "#000000"), Mark.text_at(500, 300, "고양이 قطة", size=30))
    lettering = Lettering(fonts_for(mark.text for mark in marks), 1.0)
    image = draw_frame(Frame(marks, 100, "states", 0), lettering).convert("L")
    assert image.getpixel((125, 125)) == 0
    assert image.getpixel((95, 125)) == 255
    box = image.crop((300, 200, 700, 400)).point(lambda shade: 255 - shade).getbbox()
    assert box is not None
    left, top, right, bottom = box
    assert abs((left + right) / 2 + 300 - 500) < 6  # centred
    assert abs((top + bottom) / 2 + 200 - 300) < 12
    assert lettering.word(" ", 12) is None


def test_the_command_line_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from regard.inference.folder import write_folder
    from regard.storage.weights import model_tensors

    made = translator_of({"kind": "bahdanau"})
    write_folder(
        tmp_path / "model",
        recipe=made.recipe,
        source_tokenizer=made.source_tokenizer,
        target_tokenizer=made.target_tokenizer,
        weights=model_tensors(made.model),
        metrics={},
        card="a test",
    )
    arguments = ["look", str(tmp_path / "model"), "the cat", "--steps", "1", "--size", "300"]
    assert main([*arguments, "--output", str(tmp_path / "steps.gif")]) == 0
    assert (tmp_path / "steps.gif").read_bytes().startswith(b"GIF89a")
    assert main(["look", str(tmp_path / "model"), "the cat", "a dog", "--output", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "regard-look/2" in page
    assert "a dog" in page

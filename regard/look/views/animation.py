"""The five steps of attention, played for one sentence with the model's own numbers.

    encoder states → keys and scores → softmax → weighted values → context → the next piece; then the next step

The states slide down while they are multiplied by their weights, the weighted values slide into the context, the
context into the next piece, and the piece into the translation. `scene.py` lays out the marks of a frame, `gif.py`
draws them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from regard.errors import ConfigError
from regard.look.maps import Choice
from regard.look.record import AttentionStep, Look, LookStep
from regard.look.views.gif import WIDTH, Frame, Mark, save_gif
from regard.look.views.pictures import check_picture_path
from regard.look.views.scene import Scene

HOLD, LONG_HOLD, TWEEN, LAST = 1300, 2200, 50, 2600  # milliseconds; the sum of a score takes longer to read
TWEENS = {"states": 3, "scores": 3, "weights": 3, "values": 6, "context": 7, "vector": 4, "output": 10}  # frames


def save_animation(
    look: Look,
    path: str | Path,
    choice: Choice = Choice(),  # noqa: B008 (it never changes)
    *,
    steps: int | None = None,
    size: int = WIDTH,
    speed: float = 1.0,
    font: str | Path | None = None,
) -> Path:
    """Draw the first `steps` steps of a look into a .gif file, `size` pixels wide."""
    path = check_picture_path(path, ("gif",))
    save_gif(frames_of(look, choice, steps), path, size=size, speed=speed, font=font)
    return path


def frames_of(look: Look, choice: Choice = Choice(), steps: int | None = None) -> list[Frame]:  # noqa: B008
    """All frames in order; of several layers and heads the chosen one, by default the last layer's first head."""
    if choice.kind not in (None, "cross"):
        raise ConfigError(f"{choice.kind}: the animation shows how the decoder attends to the source, kind cross.")
    frames: list[Frame] = []
    chosen = look.steps[:steps]
    for number, step in enumerate(chosen):
        frames += _frames(Scene(look, number, step, _trace(look, step, choice)))
    if frames:
        frames[-1] = replace(frames[-1], milliseconds=LAST)
    return frames


def _trace(look: Look, step: LookStep, choice: Choice) -> AttentionStep | None:
    if not step.attention:
        return None
    sizes = look.model.attention["cross"]
    layer, head = choice.layer or sizes.layers, choice.head or 1
    for trace in step.attention:
        if (trace.layer + 1, trace.head + 1) == (layer, head):
            return trace
    raise ConfigError(
        f"{look.model.name} has no cross layer {layer}, head {head}: its layers are numbered from 1 to {sizes.layers}, "
        f"the heads of each from 1 to {sizes.heads}."
    )


def _frames(scene: Scene) -> Iterator[Frame]:
    """The frames of one step: each stage moves in, holds and stays; the encoder states come in the first step alone."""
    shown: list[Mark] = []
    for stage, draw in scene.stages():
        new = stage != "states" or scene.number == 0
        header = [*scene.header(stage), *scene.translation(done=False)]
        for share in _eased(TWEENS[stage]) if new else ():
            yield Frame((*header, *shown, *draw(share), *scene.passing(stage, share)), TWEEN, stage, scene.number)
        shown += draw(1.0)
        if stage == "output":
            header = [*scene.header(stage), *scene.translation(done=True)]
        if new:
            hold = LONG_HOLD if (passing := scene.passing(stage, 1.0)) else HOLD
            yield Frame((*header, *shown, *passing), hold, stage, scene.number)


def _eased(count: int) -> list[float]:
    """Shares between 0 and 1 that begin and end slowly."""
    shares = [number / (count + 1) for number in range(1, count + 1)]
    return [share * share * (3 - 2 * share) for share in shares]

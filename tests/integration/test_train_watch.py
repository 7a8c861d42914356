"""Sentences that are watched in training: one look at each validation, whatever broke the training off."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from training_help import pairs, recipe

from regard.cli import main
from regard.errors import ConfigError, DataError
from regard.look.maps import Choice
from regard.look.moments import WATCH, read_moments, watched_look
from regard.look.views.over_time import moment_maps, over_time_table, spread
from regard.training import loop as loop_module
from regard.training import train

TRAIN, VALID = pairs(150), pairs(15, seed=1)
WATCHED = [("a b c d", "d c b a"), "e f g"]


class Killed(BaseException):
    """Stands for SIGKILL."""


def run(out: Path, kind: str = "bahdanau", watch: Any = WATCHED, **more: Any) -> None:
    chosen = recipe(kind, {"dropout": 0.3}, validate_every=3)
    train(chosen, train=TRAIN, valid=VALID, out=out, progress=False, watch=watch, **more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("watch") / "whole"
    run(out)
    return out


def named(path: Path) -> list[tuple[int, Any]]:
    return [(update, look.model_copy(update={"model": None})) for update, look in read_moments(path)]


def test_each_validation_is_kept_once_for_each_sentence(whole: Path) -> None:
    moments = read_moments(whole)
    assert [(update, look.source.text) for update, look in moments] == [
        (update, text) for update in (3, 6, 9, 12) for text in ("a b c d", "e f g")
    ]
    assert {look.target.text for _, look in moments if look.forced} == {"d c b a"}
    look = watched_look(whole)
    assert look.over_time is not None
    assert [moment.update for moment in look.over_time] == [3, 6, 9, 12]
    assert look.over_time[0].alignment != look.over_time[-1].alignment
    assert watched_look(whole, "e f g").source.text == "e f g"
    with pytest.raises(ConfigError, match='"a b c d"; "e f g"'):
        watched_look(whole, "x")


def test_a_record_of_another_version_is_named(whole: Path, tmp_path: Path) -> None:
    (tmp_path / WATCH).write_text((whole / WATCH).read_text().replace("regard-look/2", "regard-look/1"))
    with pytest.raises(DataError, match="another version"):
        read_moments(tmp_path)


def test_watching_changes_nothing_that_is_learned(whole: Path, tmp_path: Path) -> None:
    run(tmp_path / "blind", watch=())
    assert (tmp_path / "blind/model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert not (tmp_path / "blind" / WATCH).exists()


def test_a_training_that_was_killed_keeps_each_validation_once(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies after the validation at 9 with its last checkpoint at 0, so that 3, 6 and 9 are done again."""
    real = loop_module.seed_of

    def seed_of(seed: int, number: int) -> int:
        if number == 11:
            raise Killed
        return real(seed, number)

    out = tmp_path / "broken"
    with monkeypatch.context() as patch:
        patch.setattr(loop_module, "seed_of", seed_of)
        with pytest.raises(Killed):
            run(out)
    assert [update for update, _ in read_moments(out)] == [3, 3, 6, 6, 9, 9]
    with open(out / WATCH, "a") as file:
        file.write('{"update": 9, "lo')  # the machine died while it wrote
    train(out=out, resume=True, progress=False)
    assert named(out) == named(whole)


def test_a_new_training_in_the_folder_forgets_the_old_one(tmp_path: Path) -> None:
    run(tmp_path / "out")
    run(tmp_path / "out", watch=["h g"], overwrite=True)
    assert {look.source.text for _, look in read_moments(tmp_path / "out")} == {"h g"}


@pytest.mark.parametrize(
    ("kind", "watch", "message"),
    [
        ("seq2seq", WATCHED, "a seq2seq model has no attention to watch"),
        ("bahdanau", [" "], "--watch-sentence: the sentence is empty"),
        ("bahdanau", [("a", "")], "--watch-sentence: the reference is empty"),
    ],
)
def test_what_cannot_be_watched_is_refused_before_training(tmp_path: Path, kind: str, watch: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(tmp_path / "out", kind, watch)
    assert not (tmp_path / "out").exists()


def test_the_command_line_watches_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in TRAIN))
    (tmp_path / "tiny.toml").write_text(
        '[model]\nkind = "bahdanau"\nembedding_size = 12\nhidden_size = 16\n[text]\ntokenizer = "word"\n'
        "min_frequency = 1\n[training]\nupdates = 4\nvalidate_every = 2\nbatch_tokens = 128\n"
    )
    text, out = str(tmp_path / "text.tsv"), str(tmp_path / "out")
    arguments = ["train", str(tmp_path / "tiny.toml"), "--train", text, "--valid", text, "--out", out]
    assert main([*arguments, "--watch-sentence", "a b c ||| c b a", "--watch-sentence", "d e"]) == 0
    capsys.readouterr()
    assert main(["look", out, "--over-time", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["forced"]
    assert [moment["update"] for moment in found["over_time"]] == [2, 4]
    assert main(["look", out, "d e", "--over-time"]) == 0
    assert "update 2" in capsys.readouterr().out
    for name in ("strip.png", "strip.gif"):
        assert main(["look", out, "--over-time", "--output", str(tmp_path / name)]) == 0
    with Image.open(tmp_path / "strip.gif") as image:
        assert getattr(image, "n_frames", 1) == 2
    assert main(["look", out, "--over-time", "--output", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    (record,) = json.loads(re.findall(r'id="looks">(.*?)</script>', page)[0])
    assert record["target"]["text"] == "c b a"
    assert [moment["update"] for moment in record["over_time"]] == [2, 4]
    assert np.shape(record["attention"]["cross"]) == (1, 1, 4, 4)
    assert len(record["steps"]) == 4
    assert main(["train", "--resume", out, "--watch-sentence", "x"]) == 2


def test_the_maps_of_all_moments(whole: Path) -> None:
    look = watched_look(whole)
    maps = moment_maps(look, Choice(specials=False))
    assert look.over_time is not None
    for moment, (update, drawn) in zip(look.over_time, maps, strict=True):
        assert update == moment.update
        np.testing.assert_allclose(drawn.weights, np.array(moment.alignment)[:-1, :-1])
    assert over_time_table(look, Choice()).plain.count("update") == 3
    with pytest.raises(ConfigError, match="only the alignment is kept"):
        moment_maps(look, Choice(layer=1))
    with pytest.raises(DataError, match="nothing was kept"):
        moment_maps(look.model_copy(update={"over_time": []}), Choice())
    assert spread(10, 4) == [0, 3, 6, 9]
    assert spread(2, 6) == [0, 1]
    assert spread(1, 6) == [0]

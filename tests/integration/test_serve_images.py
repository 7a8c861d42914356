"""Images sent to a real server: what it sees in them, and everything that is no image."""

from __future__ import annotations

import base64
import io
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_help import CLASSES, bomb, image_models, picture, seeing, send, tiny_captioner, tiny_classifier
from PIL import Image
from serve_help import Running, running_models, served, tiny

from regard.errors import ConfigError
from regard.look.record import Look
from regard.nn.attention.intervention import Intervention
from regard.serve.image_models import ServedCaptioner, ServedClassifier
from regard.serve.models import ServedModels, load_models
from regard.serve.settings import ServeSettings

SMALL = ServeSettings(
    max_image_bytes=20_000, max_image_pixels=10_000, max_image_side=2000, max_images=2, max_slow_seconds=1
)


@pytest.fixture(scope="module")
def models() -> list[Any]:
    return image_models()


@pytest.fixture(scope="module")
def server(models: list[Any]) -> Iterator[Running]:
    with seeing(models, SMALL) as found:
        yield found


def pixels_of(content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as opened:
        return np.asarray(opened.convert("RGB"))


# --- what is seen -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_a_caption_comes_as_the_documented_record(server: Running, models: list[Any], form: str) -> None:
    content = picture(form=form)
    status, record, _ = send(server, "scenes", content)
    assert status == 200
    look = Look.from_dict(record)
    expected = models[0].captioner.look(pixels_of(content))
    about = expected.model.model_copy(update={"name": "scenes"})
    assert look == expected.model_copy(update={"model": about})
    assert (look.image.rows, look.image.columns, look.image.width, look.image.height) == (4, 4, 20, 10)
    assert len(look.target.words) >= 3
    assert np.sum(look.alignment, 1) == pytest.approx(1, abs=1e-4)


def test_grey_images_are_coloured_and_colours_greyed(server: Running) -> None:
    assert send(server, "scenes", picture(mode="L"))[0] == 200
    record = send(server, "bam", picture(mode="RGB"))[1]
    with Image.open(io.BytesIO(base64.b64decode(record["image"]["png"]))) as read:
        assert (read.mode, read.size) == ("L", (12, 12))


def test_a_cell_is_forbidden_and_a_beginning_forced(server: Running, models: list[Any]) -> None:
    content, captioner = picture(), models[0].captioner
    record = send(server, "scenes", content, "&ban=3&ban=9")[1]
    assert all(row[3] == row[9] == 0 for row in record["alignment"])
    expected = captioner.look(pixels_of(content), intervention=Intervention((3, 9)))
    assert record["log_probability"] == expected.log_probability
    word = captioner.tokenizer.encode("heart")[0]
    begun = send(server, "scenes", content, f"&prefix={word}")[1]
    assert begun["target"]["words"][0] == "heart"
    assert begun["prefix"] == 1
    forced = send(server, "scenes", content, "&reference=a%20red%20star&candidates=2")[1]
    assert (forced["target"]["text"], forced["forced"]) == ("a red star", True)
    assert all(len(step["candidates"]) == 2 for step in forced["steps"])


def test_a_classifier_tells_its_classes_and_what_each_module_did(server: Running, models: list[Any]) -> None:
    content = picture((12, 12), "L")
    record = send(server, "bam", content)[1]
    found = models[1].classifier.look(np.array(Image.open(io.BytesIO(content))))
    assert record["format"] == "regard-seen/1"
    assert record["model"] == {"name": "bam", "kind": "resnet"}
    assert record["label"] == found.label
    assert list(record["probabilities"]) == list(found.probabilities)
    assert record["probabilities"] == pytest.approx(dict(found.probabilities), rel=1e-4)
    gate = record["modules"][0]
    assert (gate["kind"], gate["grid"], len(gate["channels"])) == ("gate", [12, 12], 4)
    weights = found.seen[0].weights[0].mean(0).numpy()
    assert np.array(gate["weights"]) == pytest.approx(weights, rel=1e-4)
    vit = send(server, "vit", content)[1]["modules"]
    assert [(each["kind"], each["class_token"], np.shape(each["weights"])) for each in vit] == [
        ("encoder-self", True, (2, 10, 10))
    ] * 2
    assert np.sum(vit[1]["weights"], -1) == pytest.approx(1, abs=1e-3)
    plain = send(server, "plain", content)[1]
    assert plain["modules"] == []
    assert set(plain["probabilities"]) == set(CLASSES)


def test_samples_are_drawn_by_their_number(server: Running) -> None:
    status, first, headers = server.ask("/api/sample-image?name=scenes&seed=7")
    assert (status, headers["content-type"]) == (200, "image/png")
    assert pixels_of(first).shape == (64, 64, 3)
    assert server.ask("/api/sample-image?name=scenes&seed=7")[1] == first
    assert server.ask("/api/sample-image?name=scenes&seed=8")[1] != first
    assert pixels_of(server.ask("/api/sample-image?name=two-ears")[1]).shape == (40, 40, 3)
    assert server.ask("/api/sample-image?name=cats")[0] == 422


def test_models_tell_what_they_do(server: Running) -> None:
    found = server.ask("/api/models")[1]
    told = [(each["name"], each["task"], each["source"], each["sample"]) for each in found["models"][:2]]
    assert told == [("scenes", "caption", "image", "scenes"), ("bam", "classify", "image", None)]
    assert found["models"][0]["attention"] == {"cross": {"layers": 1, "heads": 1}}
    assert found["models"][2]["attention"] == {"encoder-self": {"layers": 2, "heads": 2}}
    assert found["limits"]["max_image_bytes"] == 20_000


# --- what is refused ----------------------------------------------------------------------------------------------

GOOD = picture()


@pytest.mark.parametrize(
    ("content", "query", "status", "message"),
    [
        (b"", "", 422, "the body is empty"),
        (b"hello", "", 422, "the image: is not a PNG or JPEG image"),
        (b"GIF89a" + bytes(100), "", 422, "is not a PNG or JPEG image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "", 422, "is not a PNG or JPEG image"),
        (GOOD[:200], "", 422, "the image: is damaged"),
        (GOOD[:60] + bytes(60) + GOOD[120:], "", 422, "the image: is"),
        (bomb(50_000), "", 413, "claims to have more than 10,000 pixels"),
        (bomb(101), "", 413, "claims to have more than 10,000 pixels"),
        (bomb(1, 2001), "", 413, "claims to be more than 2,000 pixels wide or high"),
        (bomb(2001, 2), "", 413, "claims to be more than 2,000 pixels wide or high"),
        (bytes(20_001), "", 413, "the limit is 20,000 bytes"),
        (GOOD, "&ban=-1", 422, "ban.0"),
        (GOOD, "&ban=x", 422, "ban.0"),
        (GOOD, "&prefix=0", 422, "prefix: id 0 at position 0"),
        (GOOD, "&prefix=99999", 422, "prefix: id 99999 at position 0"),
        (GOOD, "&beam=99", 413, "the limit is 10"),
        (GOOD, "&candidates=51", 422, "candidates"),
        (GOOD, "&reference=%20", 422, "the reference is empty"),
        (GOOD, "&reference=" + "x" * 401, 413, "exceeds text limit"),
    ],
)
def test_what_is_no_image_is_one_line(server: Running, content: bytes, query: str, status: int, message: str) -> None:
    found, answer, _ = send(server, "scenes", content, query)
    assert (found, list(answer)) == (status, ["error"])
    assert message in answer["error"]


def test_forms_other_names_and_words_for_a_classifier_are_refused(server: Running) -> None:
    status, answer, _ = send(server, "scenes", GOOD, **{"Content-Type": "multipart/form-data; boundary=x"})
    assert status == 415
    assert "--data-binary" in answer["error"]
    assert send(server, "nobody", GOOD)[0] == 404
    assert server.ask("/api/look-image", GOOD)[0] == 422
    assert send(server, "bam", GOOD, "&prefix=5")[1]["error"].startswith("a classifier generates no text")
    # what curl calls anything that it sends
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert send(server, "scenes", GOOD, **form)[0] == 200
    assert server.ask("/api/look", {"model": "scenes", "text": "a"})[0] == 404


def test_a_classifier_that_is_not_square_reads_only_its_own_size() -> None:
    with seeing([ServedClassifier("wide", tiny_classifier(shape=(1, 8, 12)))]) as server:
        assert send(server, "wide", picture((12, 8), "L"))[0] == 200
        status, answer, _ = send(server, "wide", picture((20, 10), "L"))
        assert status == 422
        assert "8 x 12 pixels" in answer["error"]


def test_only_so_many_images_are_held_at_one_time(server: Running) -> None:
    head = f"POST /api/look-image?model=scenes HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(GOOD)}\r\n\r\n"
    waiting = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(2)]
    for each in waiting:
        each.sendall(head.encode() + GOOD[:10])
    while b"regard_queue_places" not in server.ask("/metrics")[1]:  # the server has turned to both by then
        pass
    status, answer, headers = send(server, "scenes", GOOD)
    assert (status, headers["retry-after"]) == (503, "1")
    assert "many images" in answer["error"]
    assert server.ask("/health")[0] == 200
    for each in waiting:
        each.sendall(GOOD[10:])
        assert each.recv(100).startswith(b"HTTP/1.1 200 ")
        each.close()
    assert send(server, "scenes", GOOD)[0] == 200


def test_images_need_the_key_and_keep_the_pace() -> None:
    captioner = ServedCaptioner("scenes", tiny_captioner())
    with seeing([captioner], ServeSettings(max_requests_per_minute=1), keys=["right"]) as server:
        assert send(server, "scenes", GOOD)[0] == 403
        bearer = {"Authorization": "Bearer right"}
        assert send(server, "scenes", GOOD, **bearer)[0] == 200
        status, _, headers = send(server, "scenes", GOOD, **bearer)
        assert status == 429
        assert int(headers["retry-after"]) > 0
        assert server.ask("/api/sample-image?name=scenes")[0] == 403


def test_uploads_without_a_key_take_no_place() -> None:
    captioner = ServedCaptioner("scenes", tiny_captioner())
    head = f"POST /api/look-image?model=scenes HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(GOOD)}\r\n\r\n"
    with seeing([captioner], ServeSettings(max_images=1), keys=["right"]) as server:
        waiting = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(3)]
        for each in waiting:
            each.sendall(head.encode() + GOOD[:10])
        for each in waiting:
            assert each.recv(100).startswith(b"HTTP/1.1 403 ")  # before the image is sent
        assert send(server, "scenes", GOOD, **{"Authorization": "Bearer right"})[0] == 200
        for each in waiting:
            each.close()


def test_an_image_of_one_column_is_refused_by_default() -> None:
    with seeing([ServedCaptioner("scenes", tiny_captioner())]) as server:
        status, answer, _ = send(server, "scenes", bomb(1, 16_000_000))
        assert status == 413
        assert "16,384 pixels wide or high" in answer["error"]


def test_images_wait_their_turn_and_no_longer_than_they_may() -> None:
    translator = tiny()
    models = ServedModels([served(translator)], [ServedCaptioner("scenes", tiny_captioner())])
    with running_models(models, ServeSettings(max_seconds=0.3)) as server:
        translator.door.clear()
        asking = threading.Thread(target=server.translate, args=("wait",))
        asking.start()
        assert translator.entered.wait(10)
        status, answer, _ = send(server, "scenes", GOOD)
        translator.door.set()
        asking.join()
        assert status == 503
        assert "deadline of 0.3 seconds" in answer["error"]


# --- beside translators, and without them -------------------------------------------------------------------------


def test_a_server_without_translators_says_so(server: Running) -> None:
    assert server.ask("/languages")[1] == []
    assert server.ask("/health")[0] == server.ask("/")[0] == server.ask("/openapi.json")[0] == 200
    assert server.translate("a")[:2] == (400, {"error": "en is not supported"})
    assert server.ask("/detect", {"q": "a"})[0] == 501
    assert server.ask("/frontend/settings")[1]["language"]["source"]["code"] == "und"


def test_a_server_without_readers_of_images_has_nothing_of_them() -> None:
    with running_models(ServedModels([served(tiny())])) as server:
        assert send(server, "tiny", GOOD)[0] == 404
        assert send(server, "tiny", bytes(200_000))[0] == 413  # nor does it take in what it would not read
        assert "/api/look-image" not in json.dumps(server.ask("/openapi.json")[1])


def test_folders_are_read_by_what_they_hold(tmp_path: Path) -> None:
    captioner, classifier = tiny_captioner(), tiny_classifier()
    captioner.metrics = {
        **{"data": {}, "parameters": 1, "updates": 1, "epochs": 1, "seconds": 1, "target_vocabulary": 1},
        "valid": {"loss": 0.5},
    }
    captioner.save(tmp_path / "scenes")
    classifier.metrics = {
        "data": {"train": {"data": "toy:two-ears:400", "images": 4}},
        **{"parameters": 1, "updates": 1, "epochs": 1, "images": 1, "seconds": 1},
        "valid": {"accuracy": 0.75, "loss": 1.0, "images": 3},
    }
    classifier.save(tmp_path / "ears")
    found = load_models([str(tmp_path / "scenes"), f"named={tmp_path / 'ears'}"])
    assert [model.name for model in found.images] == ["scenes", "named"]
    assert list(found) == []
    assert found.seeing("named").sample == "two-ears"
    with running_models(found) as server:
        told = server.ask("/api/models")[1]["models"][1]
        assert told["figure"] == {"metric": "% accuracy", "value": 75.0, "data": "validation"}
        assert told["kind"] == "resnet"
    with pytest.raises(ConfigError, match="two models are named 'same'"):
        load_models([f"same={tmp_path / 'ears'}", f"same={tmp_path / 'scenes'}"])

"""The captioner, from images to a folder and back: training, resuming, its own files, captions, looking."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import regard
from regard.cli import main
from regard.config.captioning import CaptionRecipe
from regard.config.recipes import check_as
from regard.data.toy.scenes import scenes
from regard.errors import ConfigError, DataError, ModelFolderError
from regard.inference.captioner import Captioner
from regard.inference.captioner_evaluation import evaluate_captioner
from regard.look.record import Look
from regard.nn.attention.intervention import Intervention
from regard.storage.weights import read_tensors
from regard.training import train

SIZES = {"image_size": 32, "channels": [8, 8, 16], "embedding_size": 8, "hidden_size": 12, "attention_size": 8}
FAST = {"batch_images": 8, "validation_captions": 10, "warmup": 2, "learning_rate": 0.01}


def recipe(model: dict[str, Any] | None = None, **training: Any) -> CaptionRecipe:
    table = {
        "model": {"kind": "captioner", **SIZES, **(model or {})},
        "training": {"updates": 6, **FAST, **training},
        "search": {"beam": 2, "max_length_ratio": 0.5, "replace_unknown": False},
    }
    return check_as(CaptionRecipe, table, "test")


def picture(path: Path, number: int = 0, size: int = 40) -> Path:
    image = next(scenes("test", 1, seed=number)).scene.image()
    Image.fromarray(image).resize((size, size)).save(path)
    return path


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of various sizes with their captions in TSV files."""
    folder = tmp_path_factory.mktemp("photos")
    rows = []
    for number, made in enumerate(scenes("train", 12)):
        Image.fromarray(made.scene.image()).resize((50 + number, 40)).save(folder / f"{number}.png")
        rows.append(f"{number}.png\t{made.caption}\n{number}.png\tsomething {made.caption.split()[-1]}\n")
    (folder / "train.tsv").write_text("".join(rows))
    (folder / "valid.tsv").write_text("".join(rows[:4]) + "3.png\t \n")
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    out = tmp_path_factory.mktemp("models") / "photos"
    train(recipe(validate_every=3), train=photos, out=out, threads=1, progress=False)
    return out


def test_training_on_files_writes_a_folder_that_load_opens(trained: Path, tmp_path: Path):
    captioner = regard.load(trained)
    assert isinstance(captioner, Captioner)
    data = captioner.metrics["data"]
    assert (data["train"]["images"], data["train"]["captions"]) == (12, 24)
    assert (data["valid"]["images"], data["valid"]["skipped_blank"]) == (4, 1)
    assert captioner.metrics["valid"]["bleu"] >= 0
    card = (trained / "README.md").read_text()
    assert "pipeline_tag: image-to-text" in card
    assert 'caption("image.png")' in card

    file = picture(tmp_path / "one.png")
    caption = captioner.caption(file, n_best=2, candidates=3)
    assert caption.grid == (4, 4)
    assert caption.word_attention().shape == (len(caption.words), 4, 4)
    np.testing.assert_allclose(caption.attention.sum((1, 2)), 1, rtol=1e-5)
    assert caption.image.shape == (40, 40, 3)
    assert len(caption.n_best) == 2
    assert "4 x 4 cells, vocabulary " in repr(captioner)
    assert len(caption.candidates[0]) == 3

    with Image.open(file) as opened:
        image = opened.copy()
    same = [image, np.asarray(image), str(file)]
    assert [each.text for each in captioner.caption(same, n_best=2)] == [caption.text] * 3
    assert captioner.caption(file, prefix="something red").text.startswith("something red")
    banned = captioner.caption(file, intervention=Intervention(ban=(5,)))
    assert not banned.attention[:, 1, 1].any()


def test_an_unfinished_training_names_the_command_that_resumes_it(tmp_path: Path, photos: Path):
    (tmp_path / "training" / "checkpoint-00000001").mkdir(parents=True)
    (tmp_path / "training" / "run.json").write_text('{"recipe": {"model": {"kind": "captioner"}}}')
    with pytest.raises(ModelFolderError, match=f"resume it with `regard train --resume {tmp_path}`"):
        train(recipe(), train=photos, out=tmp_path, threads=1, progress=False)
    with pytest.raises(ModelFolderError, match=f"resume it with `regard train --resume {tmp_path}`"):
        regard.load(tmp_path)


def test_a_given_caption_is_scored_as_the_search_scores_it(trained: Path, tmp_path: Path):
    captioner = regard.load(trained)
    file = picture(tmp_path / "one.png")
    found = captioner.caption(file)
    if found.finished:
        forced = captioner.force(file, found.text)
        assert forced.log_probability == pytest.approx(found.log_probability, abs=1e-4)
        np.testing.assert_allclose(forced.attention, found.attention, atol=1e-5)
    assert captioner.force(file, "a red star").words == ("a", "red", "star")


def test_resume_is_bit_exact(tmp_path: Path, photos: Path):
    settings = {"schedule": "constant", "updates": 6, "validate_every": 3}
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    model = {"dropout": 0.3, "word_dropout": 0.3, "attention": "hard", "doubly_stochastic": 0.1}
    train(recipe(model, **settings), train=photos, out=whole, threads=1, progress=False)
    train(recipe(model, **settings | {"updates": 3}), train=photos, out=parts, threads=1, progress=False)
    with pytest.raises(ModelFolderError, match="its training is finished"):
        train(out=parts, resume=True, threads=1, progress=False)
    with pytest.raises(ConfigError, match="model and text of a training cannot be changed"):
        train(out=parts, resume=True, overrides=["model.dropout=0.1"], threads=1, progress=False)
    train(out=parts, resume=True, overrides=["training.updates=6"], threads=1, progress=False)
    one, other = (read_tensors(folder / "model.safetensors") for folder in (whole, parts))
    assert all(np.array_equal(one[name].numpy(), other[name].numpy()) for name in one)


def test_scenes_are_learned_from_and_scored(tmp_path: Path):
    out = tmp_path / "scenes"
    train(recipe(updates=2), train="toy:scenes:ko:24", out=out, threads=1, progress=False)
    result = evaluate_captioner(regard.load(out), "toy:scenes:ko:6", "unseen")
    assert result["captions"] == 6
    assert 0 <= result["valid"] <= 1
    assert result["words"] > 6
    assert 0 <= result["pointing_accuracy"] <= 1
    assert "nrefs:5" in result["bleu_signature"] or result["bleu_signature"].startswith("nrefs:")


def test_files_are_scored_against_all_their_captions(trained: Path, photos: Path):
    result = evaluate_captioner(regard.load(trained), photos / "valid.tsv")
    assert result["captions"] == 4
    assert "nrefs:2" in result["bleu_signature"]
    with pytest.raises(DataError, match="did not learn from the embedded scenes"):
        evaluate_captioner(regard.load(trained))


def test_looking_draws_and_prints(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = picture(tmp_path / "one.png")
    given = ["look", str(trained), str(file), "--reference", "a red star"]
    assert main([*given, "-o", str(tmp_path / "look.json")]) == 0
    look = Look.from_dict(json.loads((tmp_path / "look.json").read_text()))
    assert (look.model.name, look.model.kind, look.forced) == ("photos", "captioner", True)
    assert look.target.words == ["a", "red", "star"]
    assert (look.image.rows, look.image.columns, look.image.width) == (4, 4, 40)
    with Image.open(io.BytesIO(base64.b64decode(look.image.png))) as shown:
        assert shown.size == (40, 40)
    forced = regard.load(trained).force(file, "a red star")
    np.testing.assert_allclose(look.alignment, forced.attention.reshape(4, 16), atol=1e-4)
    context = np.sum(look.steps[1].attention[0].weighted_values, 0)
    np.testing.assert_allclose(context, look.steps[1].attention[0].context, atol=1e-4)
    assert main([*given, "-o", str(tmp_path / "look.gif")]) == 0
    with Image.open(tmp_path / "look.gif") as movie:
        assert movie.n_frames == 4
    capsys.readouterr()
    assert main(given) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("a red star\n")
    assert "█" in printed
    for wrong, message in {
        ("-o", str(tmp_path / "look.txt")): "let the name end in that",
        ("--layer", "1"): "--layer: a captioner has no such choice: leave it out.",
        ("--fit",): "--fit: a captioner has no such choice",
        ("--reference", "a"): "one caption for one image",
        (str(file),): "give one PNG or JPEG file",
    }.items():
        assert main([*given, *wrong]) == 2
        told = capsys.readouterr().err
        assert message in told
        assert told.count("\n") == 1


def test_the_commands_take_a_captioner(trained: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["evaluate", str(trained), "--data", str(photos / "valid.tsv"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["captions"] == 4
    assert main(["evaluate", str(trained), "--data", str(photos / "valid.tsv"), "--beam", "2"]) == 2
    assert f"--beam: {trained} reads images, and this is for text: leave it out." in capsys.readouterr().err
    assert main(["look", str(trained), str(photos / "0.png"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["image"]["rows"] == 4
    assert main(["info", str(trained)]) == 0
    shown = capsys.readouterr().out
    assert "Show, Attend and Tell" in shown or "captioner" in shown
    assert "vocabulary" in shown
    assert main(["train", "captioner", "--train", str(photos), "--out", str(tmp_path), "--from", str(trained)]) == 2
    assert main(["translate", str(trained), "--input", str(photos / "valid.tsv")]) == 2
    assert "a model that reads images: use `regard look`" in capsys.readouterr().err


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0.png a red star\n", r"bad\.tsv:1: expected file name, tab, caption"),
        ("0.png\ta\tb\n", r"bad\.tsv:1: expected file name"),
        ("0.png\ta star\nnone.png\ta star\n", r"there is no file 'none\.png'"),
        ("0.png\t \n", "holds no captions"),
        ("text.png\ta star\n", "is not a PNG or JPEG image"),
        ("grey.png\ta star\n", "is a grey image, but colour is needed"),
    ],
)
def test_bad_data_is_one_line_and_leaves_nothing(lines: str, message: str, tmp_path: Path):
    picture(tmp_path / "0.png")
    (tmp_path / "text.png").write_text("not an image")
    Image.new("L", (20, 20)).save(tmp_path / "grey.png")
    (tmp_path / "bad.tsv").write_text(lines)
    out = tmp_path / "out"
    with pytest.raises(DataError, match=message):
        train(recipe(), train=tmp_path / "bad.tsv", out=out, threads=1, progress=False)
    assert not out.exists()


def test_names_of_data_that_mean_nothing_are_told(tmp_path: Path):
    for data, message in {
        "toy:scenes:fr": "scenes have captions in en and ko",
        "toy:scenes:en:none": "'none' is not a number of scenes",
        str(tmp_path / "nowhere"): "there is no such file or folder",
        str(tmp_path): r"train\.tsv: there is no such file",
    }.items():
        with pytest.raises(DataError, match=message):
            train(recipe(), train=data, out=tmp_path / "out", threads=1, progress=False)
    with pytest.raises(ConfigError, match="the embedded scenes have colours"):
        train(recipe({"image_channels": 1}), train="toy:scenes", out=tmp_path / "out", threads=1, progress=False)


def test_images_that_do_not_fit_are_told(trained: Path, tmp_path: Path):
    captioner = regard.load(trained)
    for image in (np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3)), np.zeros((0, 8, 3), np.uint8)):
        with pytest.raises(DataError, match=r"this model needs uint8 \(height, width, 3\)"):
            captioner.caption(image)
    with pytest.raises(DataError, match=r'image\.convert\("RGB"\)'):
        captioner.caption(Image.new("L", (8, 8)))


def test_a_folder_for_images_is_not_for_text(trained: Path):
    with pytest.raises(ModelFolderError, match="holds a captioner, a model that reads images: use `regard look`"):
        regard.Translator.load(trained)

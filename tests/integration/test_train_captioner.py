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
from regard.config.captioning import CaptionRecipe
from regard.config.recipes import check_as
from regard.data.toy.scenes import scenes
from regard.errors import ConfigError, DataError, ModelFolderError
from regard.evaluation.captions import evaluate_captioner
from regard.inference.captioner import Captioner
from regard.look.record import Look
from regard.look.views.caption import look_captioner
from regard.nn.attention.intervention import Intervention
from regard.storage.folder import read_tensors
from regard.training.tasks.captioning import train_captioner

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
    train_captioner(recipe(validate_every=3), data=photos, out=out, threads=1, progress=False)
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
    with pytest.raises(ModelFolderError, match=f"go on with `regard vision train --resume {tmp_path}`"):
        train_captioner(recipe(), data=photos, out=tmp_path, threads=1, progress=False)
    with pytest.raises(ModelFolderError, match=f"go on with `regard vision train --resume {tmp_path}`"):
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
    train_captioner(recipe(model, **settings), data=photos, out=whole, threads=1, progress=False)
    train_captioner(recipe(model, **settings | {"updates": 3}), data=photos, out=parts, threads=1, progress=False)
    with pytest.raises(ModelFolderError, match="its training is finished"):
        train_captioner(None, out=parts, resume=True, threads=1, progress=False)
    with pytest.raises(ConfigError, match="model and text of a training cannot be changed"):
        train_captioner(None, out=parts, resume=True, overrides=["model.dropout=0.1"], threads=1, progress=False)
    train_captioner(None, out=parts, resume=True, overrides=["training.updates=6"], threads=1, progress=False)
    one, other = (read_tensors(folder / "model.safetensors") for folder in (whole, parts))
    assert all(np.array_equal(one[name].numpy(), other[name].numpy()) for name in one)


def test_scenes_are_learned_from_and_scored(tmp_path: Path):
    out = tmp_path / "scenes"
    train_captioner(recipe(updates=2), data="toy:scenes:ko:24", out=out, threads=1, progress=False)
    result = evaluate_captioner(out, data="toy:scenes:ko:6", split="unseen", threads=1)
    assert result["captions"] == 6
    assert 0 <= result["valid"] <= 1
    assert result["words"] > 6
    assert 0 <= result["pointing_accuracy"] <= 1
    assert "nrefs:5" in result["bleu_signature"] or result["bleu_signature"].startswith("nrefs:")


def test_files_are_scored_against_all_their_captions(trained: Path, photos: Path):
    result = evaluate_captioner(trained, data=photos / "valid.tsv", threads=1)
    assert result["captions"] == 4
    assert "nrefs:2" in result["bleu_signature"]
    with pytest.raises(DataError, match="did not learn from the embedded scenes"):
        evaluate_captioner(trained, threads=1)


def test_looking_draws_and_prints(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = picture(tmp_path / "one.png")
    look_captioner(trained, file, tmp_path / "look.json", text="a red star")
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
    look_captioner(trained, file, tmp_path / "look.gif", text="a red star")
    with Image.open(tmp_path / "look.gif") as movie:
        assert movie.n_frames == 4
    capsys.readouterr()
    look_captioner(trained, file, text="a red star")
    printed = capsys.readouterr().out
    assert printed.startswith("a red star\n")
    assert "█" in printed
    with pytest.raises(ConfigError, match=r"let the name end in that"):
        look_captioner(trained, file, tmp_path / "look.txt")


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0.png a red star\n", r"bad\.tsv:1: is not a file name, one tab and a caption"),
        ("0.png\ta\tb\n", r"bad\.tsv:1: is not a file name"),
        ("0.png\ta star\nnone.png\ta star\n", r"names 'none\.png', which is no file"),
        ("0.png\t \n", "holds no captions"),
        ("text.png\ta star\n", "is no PNG or JPEG image"),
        ("grey.png\ta star\n", "is a grey image, and colour is needed"),
    ],
)
def test_bad_data_is_one_line_and_leaves_nothing(lines: str, message: str, tmp_path: Path):
    picture(tmp_path / "0.png")
    (tmp_path / "text.png").write_text("not an image")
    Image.new("L", (20, 20)).save(tmp_path / "grey.png")
    (tmp_path / "bad.tsv").write_text(lines)
    out = tmp_path / "out"
    with pytest.raises(DataError, match=message):
        train_captioner(recipe(), data=tmp_path / "bad.tsv", out=out, threads=1, progress=False)
    assert not out.exists()


def test_names_of_data_that_mean_nothing_are_told(tmp_path: Path):
    for data, message in {
        "toy:scenes:fr": "scenes have captions in en and ko",
        "toy:scenes:en:none": "'none' is no number of scenes",
        str(tmp_path / "nowhere"): "there is no such file or folder",
        str(tmp_path): r"train\.tsv: there is no such file",
    }.items():
        with pytest.raises(DataError, match=message):
            train_captioner(recipe(), data=data, out=tmp_path / "out", threads=1, progress=False)
    with pytest.raises(ConfigError, match="the embedded scenes have colours"):
        train_captioner(recipe({"image_channels": 1}), out=tmp_path / "out", threads=1, progress=False)


def test_images_that_do_not_fit_are_told(trained: Path, tmp_path: Path):
    captioner = regard.load(trained)
    for image in (np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3)), np.zeros((0, 8, 3), np.uint8)):
        with pytest.raises(DataError, match=r"this model needs bytes \(height, width, 3\)"):
            captioner.caption(image)
    with pytest.raises(DataError, match=r'image\.convert\("RGB"\)'):
        captioner.caption(Image.new("L", (8, 8)))


def test_a_folder_for_images_is_not_for_text(trained: Path):
    with pytest.raises(ModelFolderError, match="holds a captioner, a model that reads images: use `regard vision`"):
        regard.Translator.load(trained)

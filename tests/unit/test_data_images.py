"""Images are read strictly: every bad input is one clear line, before anything large is decoded."""

import gzip
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.config.classification import ClassifierRecipe, ImageTrainingSettings
from regard.config.recipes import load_recipe
from regard.data.images.batches import ImageBatchPlan, augment, channel_statistics
from regard.data.images.image_set import ImageSet, read_image, read_images
from regard.data.toy.two_ears import EAR, GAP, LEFT, RIGHT, SIZE, TOP, patterns, two_ears
from regard.errors import DataError
from regard.models.image_classifier import Network
from regard.training.tasks.prepared_images import prepare


def picture(path: Path, size: tuple[int, int] = (6, 5), mode: str = "RGB", seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], 3)
    Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8)).save(path)
    return path


def refused(call, *parts: str) -> None:
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    for part in parts:
        assert part in message


# --- one picture --------------------------------------------------------------------------------------------------


def test_colours_greys_palettes_transparency_and_16_bits(tmp_path: Path) -> None:
    colour = picture(tmp_path / "colour.png")
    assert read_image(colour).shape == (5, 6, 3)
    assert np.array_equal(read_image(colour), np.asarray(Image.open(colour)))
    assert read_image(picture(tmp_path / "grey.png", mode="L")).shape == (5, 6)
    Image.open(colour).convert("P").save(tmp_path / "palette.png")
    assert read_image(tmp_path / "palette.png").shape == (5, 6, 3)
    Image.new("RGBA", (4, 4), (200, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (read_image(tmp_path / "clear.png") == 255).all()  # nothing is there: white
    Image.fromarray(np.full((4, 4), 65535, np.uint16)).save(tmp_path / "deep.png")
    assert (read_image(tmp_path / "deep.png") == 255).all()
    Image.open(colour).save(tmp_path / "photo.jpg", quality=95)
    assert read_image(tmp_path / "photo.jpg").shape == (5, 6, 3)
    assert read_image(colour, size=8).shape == (8, 8, 3)


def test_a_photo_is_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side
    Image.new("RGB", (8, 4)).save(tmp_path / "turned.jpg", exif=exif)
    assert read_image(tmp_path / "turned.jpg").shape == (8, 4, 3)


def test_a_grey_image_where_colour_is_needed(tmp_path: Path) -> None:
    grey = picture(tmp_path / "grey.png", mode="L")
    refused(lambda: read_image(grey, 3), "grey.png: is a grey image, but colour is needed")
    refused(lambda: read_image(picture(tmp_path / "c.png"), 1), "c.png: is a colour image, but grey is needed")
    assert read_image(grey, 3, convert=True).shape == (5, 6, 3)


def test_files_that_are_no_image_or_damaged(tmp_path: Path) -> None:
    path = picture(tmp_path / "cut.png", (80, 80))
    path.write_bytes(path.read_bytes()[:-2000])
    refused(lambda: read_image(path), "cut.png: is damaged")
    photo = tmp_path / "cut.jpg"
    Image.open(picture(tmp_path / "whole.png", (80, 80))).save(photo)
    photo.write_bytes(photo.read_bytes()[:1500])
    refused(lambda: read_image(photo), "cut.jpg: is damaged")
    (tmp_path / "text.png").write_text("not an image")
    refused(lambda: read_image(tmp_path / "text.png"), "text.png: is not a PNG or JPEG image")
    (tmp_path / "empty.png").write_bytes(b"")
    refused(lambda: read_image(tmp_path / "empty.png"), "empty.png: is not a PNG or JPEG image")
    Image.new("RGB", (4, 4)).save(tmp_path / "named.png", "GIF")  # another format under the name
    refused(lambda: read_image(tmp_path / "named.png"), "is not a PNG or JPEG image")


def bomb(path: Path, side: int) -> Path:
    """A PNG of some bytes that claims side x side pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0" * 1000)), chunk(b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    return path


@pytest.mark.parametrize("side", [50_000, 8_000, 2_000_000])
def test_an_image_bomb_is_refused_before_it_is_decoded(tmp_path: Path, side: int) -> None:
    path = bomb(tmp_path / "bomb.png", side)
    tracemalloc.start()
    refused(lambda: read_image(path), "bomb.png: claims to have more than 50,000,000 pixels")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


# --- sets ---------------------------------------------------------------------------------------------------------


def test_folders_by_class_with_and_without_splits(tmp_path: Path) -> None:
    for split, count in (("train", 3), ("test", 1)):
        for name in ("cat", "dog"):
            for number in range(count):
                picture(tmp_path / split / name / f"{number}.png", seed=number)
    (tmp_path / "train" / "cat" / "notes.txt").write_text("no picture")
    train, test = read_images(tmp_path, "train"), read_images(tmp_path, "test")
    assert (len(train), train.classes, train.shape) == (6, ("cat", "dog"), (3, 5, 6))
    assert train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert len(test) == 2
    assert read_images(tmp_path, "valid") is None
    assert len(read_images(tmp_path / "train", "train")) == 6
    assert read_images(tmp_path / "train", "test") is None


def test_mixed_sizes_mixed_colours_and_one_class(tmp_path: Path) -> None:
    picture(tmp_path / "a" / "1.png")
    picture(tmp_path / "b" / "2.png", (7, 5))
    refused(lambda: read_images(tmp_path, "train"), "2.png: is 5 x 7 pixels, colour", "1.png is 5 x 6", "images.size")
    assert read_images(tmp_path, "train", size=4).shape == (3, 4, 4)
    picture(tmp_path / "b" / "2.png", mode="L")
    refused(lambda: read_images(tmp_path, "train"), "2.png: is 5 x 6 pixels, grey", "images.channels")
    assert read_images(tmp_path, "train", channels=1).shape == (1, 5, 6)
    (tmp_path / "b" / "2.png").unlink()
    refused(lambda: read_images(tmp_path, "train"), "all 1 images are of one class (a)", "of another class")


def test_folders_that_hold_nothing(tmp_path: Path) -> None:
    refused(lambda: read_images(tmp_path, "train"), "holds neither IDX files nor class folders")
    (tmp_path / "a").mkdir()
    refused(lambda: read_images(tmp_path, "train"), "hold no PNG or JPEG images")
    refused(lambda: read_images(tmp_path / "none", "train"), "there is no such folder")
    refused(lambda: read_images("toy:three-ears", "train"), "toy:three-ears: is not an embedded image set")


def idx(path: Path, array: np.ndarray, claimed: tuple[int, ...] | None = None, packed: bool = False) -> None:
    shape = claimed or array.shape
    head = bytes((0, 0, 8, len(shape))) + b"".join(size.to_bytes(4) for size in shape)
    content = head + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if packed else content)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_plain_and_gzip(tmp_path: Path, packed: bool) -> None:
    images, labels = np.arange(2 * 3 * 4).reshape(2, 3, 4), np.array([1, 0])
    suffix = ".gz" if packed else ""
    idx(tmp_path / f"train-images-idx3-ubyte{suffix}", images, packed=packed)
    idx(tmp_path / f"train-labels-idx1-ubyte{suffix}", labels, packed=packed)
    read = read_images(tmp_path, "train", classes=("shirt", "shoe"))
    assert np.array_equal(read.images[:, 0], images)
    assert (read.labels.tolist(), read.classes, read.shape) == ([1, 0], ("shirt", "shoe"), (1, 3, 4))
    assert read_images(tmp_path, "train").classes == ("0", "1")
    assert read_images(tmp_path, "test") is None


def test_bad_idx_files(tmp_path: Path) -> None:
    images, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"

    def read() -> ImageSet | None:
        return read_images(tmp_path, "train")

    idx(images, np.zeros((2, 3, 3)))
    refused(read, "train-images-idx3-ubyte has no labels beside it")
    idx(labels, np.array([0, 1, 1]))
    refused(read, "has 3 labels for the 2 images")
    idx(labels, np.array([1, 1]))
    refused(read, "all 2 images are of one class (1)")
    idx(labels, np.array([0, 1]))
    refused(lambda: read_images(tmp_path, "train", classes=("a",)), "has the class 1, but images.classes names only 1")
    idx(images, np.zeros((2, 3, 3)), claimed=(3, 3, 3))
    refused(read, "its header announces 27 bytes of data, but it has only 18")
    idx(images, np.zeros((2, 3, 3)), claimed=(1, 3, 3))
    refused(read, "but it has more")
    idx(images, np.zeros((2, 3, 3)), claimed=(2**32 - 1, 50_000, 50_000))
    refused(read, "GB of memory")
    images.write_bytes(b"hello")
    refused(read, "is not an IDX file of bytes with 3 dimensions")
    images.write_bytes(gzip.compress(bytes((0, 0, 8, 3)) + b"\0\0\0\1" * 3 + b"\0")[:-9])
    refused(read, "is damaged or cut short")


# --- batches ------------------------------------------------------------------------------------------------------


def recipe(**training: object) -> ClassifierRecipe:
    return ClassifierRecipe.model_validate({"model": {"kind": "resnet"}, "training": {"updates": 1, **training}})


def test_images_are_held_out_where_there_is_no_validation_split() -> None:
    made = two_ears("train", 100)
    prepared = prepare(recipe(), made, None)
    assert (len(prepared.train), len(prepared.valid)) == (95, 5)
    whole = {image.tobytes() for image in made.images}
    parts = [{image.tobytes() for image in part.images} for part in (prepared.train, prepared.valid)]
    assert parts[0] | parts[1] == whole
    assert not parts[0] & parts[1]
    again = prepare(recipe(), made, None)
    assert np.array_equal(again.valid.images, prepared.valid.images)


def test_every_image_comes_once_an_epoch_and_no_batch_is_of_one() -> None:
    made = two_ears("train", 65)
    plan = ImageBatchPlan(made, recipe(batch_images=64).training)
    batches = [plan.batch(item) for item in plan.epoch(0)]
    assert [len(batch.source) for batch in batches] == [33, 32]
    assert sorted(index for batch in batches for index in batch.indices) == list(range(65))
    for batch in batches:
        assert batch.target_tokens == len(batch.source)
        assert np.array_equal(batch.target_out[:, 0].numpy(), made.labels[list(batch.indices)])
    assert not np.array_equal(plan.epoch(0)[0].indices, plan.epoch(1)[0].indices)


def test_moving_and_mirroring_follow_from_seed_epoch_and_place() -> None:
    made = two_ears("train", 64)
    plan = ImageBatchPlan(made, recipe(batch_images=64, flip=True, shift=3).training)
    (first,) = plan.epoch(0)
    assert np.array_equal(plan.batch(first).source, plan.batch(first).source)
    (other,) = plan.epoch(1)
    order = np.argsort(first.indices), np.argsort(other.indices)
    assert not np.array_equal(plan.batch(first).source[order[0]], plan.batch(other).source[order[1]])


def test_a_moved_image_is_the_image_moved() -> None:
    made = two_ears("train", 50)
    settings = ImageTrainingSettings(updates=1, flip=True, shift=2)
    moved = augment(torch.from_numpy(made.images), settings, np.random.default_rng(0)).numpy()
    padded = np.pad(made.images, ((0, 0), (0, 0), (2, 2), (2, 2)))
    kinds = set()
    for before, after in zip(padded, moved, strict=True):
        found = [
            (down, across, turned)
            for down in range(5)
            for across in range(5)
            for turned in (False, True)
            if np.array_equal(
                np.pad(before[0, 2:-2, 2:-2][:, :: -1 if turned else 1], 2)[down : down + SIZE, across : across + SIZE],
                after[0],
            )
        ]
        assert len(found) == 1
        kinds.add(found[0])
    assert len(kinds) > 15


def test_statistics_of_a_channel_without_change_keep_its_scale() -> None:
    images = np.zeros((4, 2, 3, 3), np.uint8)
    images[:, 1] = np.arange(36).reshape(4, 3, 3)
    mean, deviation = channel_statistics(ImageSet(images, np.arange(4), ("a", "b", "c", "d")))
    assert mean.flatten().tolist() == [0, 17.5]
    assert deviation.flatten()[0] == 1
    assert float(deviation.flatten()[1]) == pytest.approx(np.arange(36).std())


# --- two ears -----------------------------------------------------------------------------------------------------


def test_two_ears_are_the_same_for_a_seed_and_differ_between_splits() -> None:
    first, again, other = two_ears("train", 30), two_ears("train", 30), two_ears("test", 30)
    assert np.array_equal(first.images, again.images)
    assert not {image.tobytes() for image in first.images} & {image.tobytes() for image in other.images}
    assert len(read_images("toy:two-ears:40", "train")) == 40


def worn(images: np.ndarray, x: int) -> tuple[np.ndarray, np.ndarray]:
    """How well the best pattern agrees with each ear, wherever near its place, and which it is."""
    near = images[:, 0, TOP - 6 : TOP + 7, x - 6 : x + 7].astype(float)
    patches = np.lib.stride_tricks.sliding_window_view(near, (EAR, EAR), (1, 2)).reshape(len(images), 25, EAR * EAR)

    def standard(rows: np.ndarray) -> np.ndarray:
        return (rows - rows.mean(-1, keepdims=True)) / rows.std(-1, keepdims=True)

    agreement = standard(patches) @ standard(patterns().reshape(8, -1)).T / EAR**2  # (N, 25, 8)
    best = agreement.max(1)
    return best.max(1), best.argmax(1)


def test_the_class_is_whether_both_ears_wear_the_same_and_no_ear_alone_tells() -> None:
    made = two_ears("train", 400)
    left, right = worn(made.images, LEFT), worn(made.images, RIGHT)
    assert min(left[0].min(), right[0].min()) > 0.6
    assert np.array_equal(left[1] == right[1], made.labels == 1)
    for side in (left[1], right[1]):  # of each pattern about half the images are "same"
        shares = [made.labels[side == number].mean() for number in range(8)]
        assert 0.2 < min(shares) < max(shares) < 0.8


def test_a_network_that_sees_13_pixels_never_sees_both_ears() -> None:
    settings = load_recipe("two-ears").model
    network = Network(settings, (1, SIZE, SIZE), 2).eval()
    image = torch.randn(1, 1, SIZE, SIZE, requires_grad=True)
    features = network.body.stages[1](network.body.stages[0](network.body.stem(image)))
    middle = features.shape[3] // 2
    features[0, :, :, middle].sum().backward()
    columns = image.grad[0, 0].abs().sum(0).nonzero().flatten()
    assert int(columns.max() - columns.min()) + 1 <= 13 <= GAP + 1

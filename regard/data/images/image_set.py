"""Labelled images, read strictly: IDX files, folders of images by class, or the embedded set.

Accepted names:

    fashion-mnist/            train-images-idx3-ubyte, train-labels-idx1-ubyte and t10k-…, also .gz (MNIST's names)
    flowers/                  train/CLASS/*.png, likewise valid/ and test/; or CLASS/*.png without splits
    toy:two-ears[:COUNT]      the embedded set

Files are PNG or JPEG. The size in the header is checked before decoding, which stops decompression bombs. All images of
a set must have the same size and the same channels, unless the recipe sets images.size and images.channels.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from regard.data.images.pixels import Pixels, as_tensor
from regard.data.lines import GZIP_ERRORS, open_unpacked
from regard.errors import DataError
from regard.storage.reading import check_regular, open_regular

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
MAX_PIXELS = 50_000_000  # of one image: 7,000 x 7,000
MAX_SIDE = 65_535  # width or height: JPEG's own limit; decoders keep a pointer for each row
MAX_BYTES = 8 << 30  # of a set in memory
IDX_NAMES: dict[Split, str] = {"train": "train", "valid": "valid", "test": "t10k"}  # the third is MNIST's name
SUFFIXES = (".png", ".jpg", ".jpeg")
COLOURS = {1: "grey", 3: "colour"}
CONVERT = "convert it"  # what to do with an image of other channels


@dataclass(frozen=True)
class ImageSet:
    """Images of one size with their classes."""

    images: npt.NDArray[np.uint8]  # (N, C, H, W)
    labels: npt.NDArray[np.int64]  # (N,)
    classes: tuple[str, ...]
    objects: npt.NDArray[np.bool_] | None = None  # (N, H, W): True where the object is, if that is known

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """C, H, W."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    def select(self, chosen: npt.NDArray[np.int64] | slice) -> ImageSet:
        """The subset with the indices `chosen`."""
        objects = None if self.objects is None else self.objects[chosen]
        return ImageSet(self.images[chosen], self.labels[chosen], self.classes, objects)


def describe(shape: Sequence[int]) -> str:
    """A shape (C, H, W) in words."""
    channels, height, width = shape
    return f"{height} x {width} pixels, {COLOURS.get(channels, f'{channels} channels')}"


class TooManyPixels(DataError):  # noqa: N818  (the name says it)
    """An image whose header claims more pixels than allowed."""


# --- one image ----------------------------------------------------------------------------------------------------


def read_image(
    path: str | Path,
    channels: int | None = None,
    size: int | None = None,
    *,
    convert: bool = False,
    remedy: str = CONVERT,
) -> Pixels:
    """The pixels of a PNG or JPEG file; transparency is composited on white, palettes become RGB.

    An image with other than `channels` (1 or 3) channels raises with the remedy, or is converted with `convert`.
    `size` resizes it to size x size.
    """
    with open_regular(Path(path), DataError) as file:
        return decode_image(file, str(path), channels, size, convert=convert, remedy=remedy)


def decode_image(
    file: BinaryIO,
    name: str,
    channels: int | None = None,
    size: int | None = None,
    *,
    convert: bool = False,
    remedy: str = CONVERT,
    most: int = MAX_PIXELS,
    most_side: int = MAX_SIDE,
) -> Pixels:
    """The pixels of an open file; `name` is for errors.

    An image with more than `most` pixels, or a side longer than `most_side`, raises before decoding.
    """
    try:
        with warnings.catch_warnings():
            # A warning of Pillow means a suspicious file: treat it as an error.
            warnings.filterwarnings("error", module=r"PIL\.")
            with Image.open(file, formats=("PNG", "JPEG")) as opened:
                _check_claim(opened.size, name, most, most_side)
                return _decode(opened, name, channels, size, None if convert else remedy)
    except DataError:
        raise
    except UnidentifiedImageError:
        raise DataError(f"{name}: is not a PNG or JPEG image: remove it or convert it.") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise TooManyPixels(f"{name}: claims to have more than {most:,} pixels: make it smaller.") from None
    except Exception as error:  # a damaged file can make the decoders raise any exception
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file itself cannot be read
        reason = " ".join(str(error).split())[:100]
        raise DataError(f"{name}: is damaged ({reason}): remove it or save it again.") from None


def _check_claim(size: tuple[int, int], name: str, most: int, most_side: int) -> None:
    """Raise if the size in the header is too large; a decoded pixel takes at most 4 bytes."""
    if size[0] * size[1] > most:
        raise Image.DecompressionBombError
    if max(size) > most_side:
        raise TooManyPixels(f"{name}: claims to be more than {most_side:,} pixels wide or high: make it smaller.")


def _decode(opened: Image.Image, name: str, channels: int | None, size: int | None, remedy: str | None) -> Pixels:
    """The pixels; without a remedy, other channels are converted."""
    picture = _plain(opened)
    found = 1 if picture.mode == "L" else 3
    if channels is not None and found != channels:
        if remedy is not None:
            raise DataError(f"{name}: is a {COLOURS[found]} image, but {COLOURS[channels]} is needed: {remedy}.")
        picture = picture.convert("L" if channels == 1 else "RGB")
    if size is not None and picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
    return np.array(picture)


def _plain(picture: Image.Image) -> Image.Image:
    """Convert to grey (L) or RGB, apply the EXIF orientation and flatten transparency."""
    picture = ImageOps.exif_transpose(picture)
    if picture.mode.startswith("I"):  # 16 bits per pixel: Pillow would clip instead of scaling
        values = np.asarray(picture).clip(0, 65535).astype(np.uint32)
        return Image.fromarray(((values + 128) // 257).astype(np.uint8))  # rounded
    mode = "L" if picture.mode in ("1", "L", "LA") else "RGB"
    if "A" in picture.getbands() or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert(mode)


# --- a set --------------------------------------------------------------------------------------------------------


def read_images(
    data: str | Path,
    split: Split,
    *,
    channels: int | None = None,
    size: int | None = None,
    classes: Sequence[str] = (),
) -> ImageSet | None:
    """One split of the images that a user names, or None without such a split."""
    if str(data).startswith("toy:"):
        from regard.data.toy.two_ears import embedded

        return embedded(str(data), split)
    folder = Path(data)
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "there is no such folder"
        raise DataError(f"{folder}: {kind}: give a folder of IDX files or of pictures by class, or toy:two-ears.")
    if _idx_file(folder, "train", "images-idx3") or _idx_file(folder, "test", "images-idx3"):
        return _read_idx(folder, split, classes)
    return _read_folder(folder, split, channels, size)


def check_set(images: ImageSet, where: str | Path) -> ImageSet:
    """The set itself; raises if it is empty or has only one class."""
    if not len(images):
        raise DataError(f"{where}: holds no images: give some.")
    seen = np.unique(images.labels)
    if len(seen) < 2:
        raise DataError(
            f"{where}: all {len(images):,} images are of one class ({images.classes[int(seen[0])]}): "
            "add images of another class."
        )
    return images


# IDX, the format of MNIST: two zero bytes, the data type, the number of dimensions, each dimension in 4 bytes, data.


def _idx_file(folder: Path, split: Split, what: str) -> Path | None:
    names = [f"{IDX_NAMES[split]}-{what}-ubyte{suffix}" for suffix in ("", ".gz")]
    return next((folder / name for name in names if (folder / name).exists()), None)


def _read_idx(folder: Path, split: Split, classes: Sequence[str]) -> ImageSet | None:
    path, label_path = _idx_file(folder, split, "images-idx3"), _idx_file(folder, split, "labels-idx1")
    if path is None:
        return None
    if label_path is None:
        raise DataError(f"{folder}: {path.name} has no labels beside it: add {IDX_NAMES[split]}-labels-idx1-ubyte.")
    images, labels = read_idx(path, 3), read_idx(label_path, 1).astype(np.int64)
    if len(images) != len(labels):
        raise DataError(
            f"{label_path}: has {len(labels):,} labels for the {len(images):,} images of {path.name}: "
            "the two do not belong together."
        )
    highest = int(labels.max(initial=0))
    names = tuple(classes) or tuple(str(number) for number in range(highest + 1))
    if highest >= len(names):
        raise DataError(
            f"{label_path}: has the class {highest}, but images.classes names only {len(names)}: name all classes."
        )
    return check_set(ImageSet(images[:, None], labels, names), path)


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """Read an IDX file of bytes with `dimensions` dimensions, plain or gzip."""
    try:
        check_regular(path, DataError)
        with open_unpacked(path) as file:
            header = file.read(4 + 4 * dimensions)
            if len(header) < 4 + 4 * dimensions or header[:4] != bytes((0, 0, 8, dimensions)):
                raise DataError(
                    f"{path}: is not an IDX file of bytes with {dimensions} dimensions: use MNIST's format."
                )
            shape = [int.from_bytes(header[start : start + 4]) for start in range(4, len(header), 4)]
            expected = math.prod(shape)
            _check_bytes(expected, path)
            content = _at_most(file, expected + 1)
    except GZIP_ERRORS as error:
        raise DataError(f"{path}: is damaged or cut short ({error}): get it again.") from None
    if len(content) != expected:
        amount = "more" if len(content) > expected else f"only {len(content):,}"
        raise DataError(f"{path}: its header announces {expected:,} bytes of data, but it has {amount}: get it again.")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _at_most(file: io.BufferedIOBase, count: int) -> bytes:
    """Read up to `count` bytes in parts, so that a false header allocates no memory."""
    parts: list[bytes] = []
    while count > 0 and (part := file.read(min(count, 1 << 20))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _check_bytes(count: int, where: Path) -> None:
    if count > MAX_BYTES:
        raise DataError(f"{where}: would take {count / 2**30:,.0f} GB of memory: give fewer or smaller images.")


# One folder for each class.


def _read_folder(folder: Path, split: Split, channels: int | None, size: int | None) -> ImageSet | None:
    if (folder / "train").is_dir():
        where, names = folder / split, _class_names(folder / "train")
    else:
        where, names = folder, _class_names(folder)
        if split != "train":
            return None
    if not where.is_dir():
        return None
    unknown = sorted(set(_class_names(where)) - set(names))
    if unknown:
        raise DataError(f"{where / unknown[0]}: this class is not in {folder / 'train'}: add it there or remove it.")
    if not names:
        raise DataError(f"{folder}: holds neither IDX files nor class folders: see `regard train --help`.")
    found = [(path, label) for label, name in enumerate(names) for path in _pictures(where / name)]
    if not found:
        raise DataError(f"{where}: its folders hold no PNG or JPEG images: add some.")
    return check_set(_read_pictures(found, names, channels, size), where)


def _class_names(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")))


def _pictures(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def _read_pictures(
    found: Sequence[tuple[Path, int]], names: tuple[str, ...], channels: int | None, size: int | None
) -> ImageSet:
    first_path, _ = found[0]
    first = as_tensor(read_image(first_path, channels, size, convert=channels is not None))
    _check_bytes(first.numel() * len(found), first_path.parent.parent)
    images = np.empty((len(found), *first.shape), np.uint8)
    for row, (path, _) in enumerate(found):
        image = as_tensor(read_image(path, channels, size, convert=channels is not None))
        if image.shape != first.shape:
            remedy = "images.size" if image.shape[1:] != first.shape[1:] else "images.channels"
            raise DataError(
                f"{path}: is {describe(image.shape)}, while {first_path} is {describe(first.shape)}: resize or "
                f"convert them, or set {remedy} in the recipe."
            )
        images[row] = image.numpy()
    return ImageSet(images, np.array([label for _, label in found], np.int64), names)

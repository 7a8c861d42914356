"""Tiny models that read images, and pictures to send them."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from PIL import Image
from serve_help import Running, running_models

from regard.config.captioning import CaptionRecipe
from regard.config.classification import ClassifierRecipe
from regard.data.text.tokenizer import Tokenizer
from regard.inference.captioner import Captioner
from regard.inference.classifier import Classifier
from regard.models.image_classifier import Network
from regard.models.show_attend_tell import ShowAttendTell
from regard.serve.image_models import ServedCaptioner, ServedClassifier, ServedImageModel
from regard.serve.models import ServedModels
from regard.serve.settings import ServeSettings

CAPTIONS = ["a small red circle left of a blue square", "a white star above a green heart"] * 3
CLASSES = ("9", "<b>cat</b>", "10")  # names that a page could take for numbers, or for markup


def tiny_captioner(channels: int = 3) -> Captioner:
    """An untrained captioner over 4 x 4 cells; however little it knows, it says four words or more."""
    recipe = CaptionRecipe.model_validate(
        {
            "model": {
                **{"image_size": 16, "channels": [4, 8], "embedding_size": 8, "hidden_size": 12, "attention_size": 8},
                "image_channels": channels,
            },
            "training": {"updates": 1},
            "search": {"min_length_ratio": 0.25, "max_length_ratio": 0.5, "beam": 1, "replace_unknown": False},
        }
    )
    tokenizer = Tokenizer.train(CAPTIONS, recipe.text)
    torch.manual_seed(3)
    model = ShowAttendTell(recipe.model, tokenizer.size)
    with torch.no_grad():
        for parameter in model.parameters():  # so that where it looks differs from word to word
            parameter.add_(0.5 * torch.randn_like(parameter))
    return Captioner(model, recipe, tokenizer, name="inside")


def tiny_classifier(attention: str = "bam", shape: tuple[int, int, int] = (1, 12, 12)) -> Classifier:
    """An untrained classifier with BAM or another module, or a ViT."""
    model: dict[str, Any] = {"kind": "resnet", "attention": attention, "channels": [4, 8], "blocks": 1, "reduction": 2}
    if attention == "vit":
        model = {"kind": "vit", "patch_size": 4, "hidden_size": 8, "layers": 2, "heads": 2, "feedforward_size": 8}
    recipe = ClassifierRecipe.model_validate({"model": model, "training": {"updates": 1}})
    torch.manual_seed(4)
    return Classifier(Network(recipe.model, shape, len(CLASSES)), recipe, shape, CLASSES, name="inside")


def image_models() -> list[ServedImageModel]:
    return [
        ServedCaptioner("scenes", tiny_captioner()),
        ServedClassifier("bam", tiny_classifier()),
        ServedClassifier("vit", tiny_classifier("vit")),
        ServedClassifier("cells", tiny_classifier("self_attention")),
        ServedClassifier("plain", tiny_classifier("none")),
    ]


def seeing(images: Iterable[ServedImageModel], settings: ServeSettings | None = None, **more: Any) -> Any:
    """A server of models that read images, and of none that translate."""
    return running_models(ServedModels([], images), settings, **more)


def send(server: Running, model: str, content: bytes, query: str = "", **headers: str) -> tuple[int, Any, Any]:
    return server.ask(f"/api/look-image?model={model}{query}", content, {"Content-Type": "image/png", **headers})


def picture(size: tuple[int, int] = (20, 10), mode: str = "RGB", form: str = "PNG", seed: int = 0) -> bytes:
    """A file of noise."""
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


def bomb(width: int, height: int | None = None) -> bytes:
    """A PNG of some bytes that claims to be so wide and high."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height or width, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body

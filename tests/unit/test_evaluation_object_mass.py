"""The share of attention inside the object, on maps of known mass."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.config.classification import ResNetSettings
from regard.data.toy.two_ears import EAR, SIZE, two_ears
from regard.evaluation.object_mass import attention_map, object_mass
from regard.models.image_classifier import Network
from regard.nn.image.attention_map import Cells, Gates

CPU = torch.device("cpu")


def test_two_ears_know_where_their_ears_are() -> None:
    images = two_ears("test", 5)
    assert images.objects is not None
    assert images.objects.sum((1, 2)).tolist() == [2 * EAR**2] * 5
    dark, light = (np.array([picture[0][mask].std() for picture, mask in zip(images.images, masks, strict=True)])
                   for masks in (~images.objects, images.objects))  # fmt: skip
    assert (light > dark).all()  # patterns, against a plain background with noise
    chosen = images.select(slice(1, 3))
    assert chosen.objects is not None
    assert (chosen.objects == images.objects[1:3]).all()


@pytest.mark.parametrize("attention", ["se", "bam", "cbam", "self_attention"])
def test_a_map_that_is_the_same_everywhere_has_the_objects_share_of_the_area(attention: str) -> None:
    torch.manual_seed(1)
    settings = ResNetSettings(attention=attention, channels=(8, 8))
    network, images = Network(settings, (1, SIZE, SIZE), 2).eval(), two_ears("test", 4)
    for parameter in network.body.attention.parameters():
        parameter.data.zero_()  # weights that depend on no position
    found = object_mass(network, images, CPU)
    assert found is not None
    area = 2 * EAR**2 / SIZE**2
    assert found.area == pytest.approx(area)
    assert found.modules == pytest.approx([area], abs=1e-5)


def test_the_map_is_the_mean_of_channels_or_the_attention_received(monkeypatch: pytest.MonkeyPatch) -> None:
    features = torch.zeros(1, 2, 2, 2)
    weights = torch.tensor([[[[1.0, 0], [0, 0]], [[3.0, 0], [2, 0]]]])
    assert attention_map(Gates(features, features, weights)).tolist() == [[[2, 0], [1, 0]]]
    to_last = torch.zeros(1, 1, 5, 5)
    to_last[..., 4] = 1.0
    assert attention_map(Cells(features, features, to_last, (2, 2), class_token=True)).tolist() == [[[0, 0], [0, 1]]]


def test_without_objects_or_attention_there_is_none() -> None:
    images = two_ears("test", 2)
    plain = Network(ResNetSettings(channels=(8, 8)), (1, SIZE, SIZE), 2).eval()
    assert object_mass(plain, images, CPU) is None
    gated = Network(ResNetSettings(channels=(8, 8), attention="bam"), (1, SIZE, SIZE), 2).eval()
    assert object_mass(gated, type(images)(images.images, images.labels, images.classes), CPU) is None


@pytest.mark.parametrize(("channels", "blocks", "field"), [((8, 8), 1, 13), ((8, 8, 8), 1, 25), ((8,), 2, 11)])
def test_the_receptive_field_is_where_a_gradient_reaches(channels: tuple[int, ...], blocks: int, field: int) -> None:
    settings = ResNetSettings(channels=channels, blocks=blocks)
    assert settings.receptive_field == field
    torch.manual_seed(1)
    body = Network(settings, (1, 64, 64), 2).body.double().eval()
    image = torch.randn(1, 1, 64, 64, dtype=torch.float64, requires_grad=True)
    features = body.stem(image)
    for stage in body.stages:
        features = stage(features)
    middle = features.size(2) // 2
    features[0, :, middle, middle].sum().backward()
    assert image.grad is not None
    reached = image.grad[0, 0].any(0).nonzero().flatten()
    assert int(reached.max() - reached.min()) + 1 <= field
    assert int(reached.max() - reached.min()) + 1 >= field - 2  # a ReLU may close a path at the border

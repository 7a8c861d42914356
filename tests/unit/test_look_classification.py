"""The record of a classification: the branches of a gate give the weights that the model used."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.look.classification import Classification
from regard.nn.image import BAM, CBAM, SqueezeExcitation
from regard.nn.image.attention_map import AttentionModule


def record(module: AttentionModule) -> dict:
    """The record of one module over random features; its statistics are not those of the start."""
    torch.manual_seed(3)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(part.bias)
            nn.init.normal_(part.weight)
    with torch.no_grad():
        seen = module.double().eval().look(torch.randn(1, 16, 5, 7).double())
    pixels = np.zeros((5, 7), np.uint8)
    (found,) = Classification("a", {"a": 1.0}, pixels, (seen,)).to_dict()["modules"]
    assert seen.weights.shape == (1, 16, 5, 7)
    found["used"] = seen.weights[0].numpy()
    return found


@pytest.mark.parametrize(
    ("module", "join"),
    [
        (BAM(16, reduction=4), "sigmoid(sum)"),
        (BAM(16, reduction=4, variant="released"), "sigmoid(product)"),
        (CBAM(16, reduction=4), "product"),
    ],
)
def test_the_branches_give_the_weights_that_the_model_used(module: AttentionModule, join: str) -> None:
    found = record(module)
    assert found["branches"]["join"] == join
    channel = np.array(found["branches"]["channel"])[:, None, None]
    spatial = np.array(found["branches"]["spatial"])[None]
    joined = {
        "sigmoid(sum)": lambda: 1 / (1 + np.exp(-(channel + spatial))),
        "sigmoid(product)": lambda: 1 / (1 + np.exp(-(channel * spatial))),
        "product": lambda: channel * spatial,
    }[join]()
    assert joined == pytest.approx(found["used"], abs=1e-5)
    assert joined.mean(0) == pytest.approx(np.array(found["weights"]), abs=1e-5)  # the map that is drawn
    assert joined.mean((1, 2)) == pytest.approx(np.array(found["channels"]), abs=1e-5)
    assert channel.std() > 0 < spatial.std()


def test_a_module_of_one_branch_has_none() -> None:
    assert record(SqueezeExcitation(16))["branches"] is None

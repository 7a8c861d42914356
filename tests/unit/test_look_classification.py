"""The record of a classification: the branches of a gate give the weights that the model used."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.look.classification import Classification
from regard.look.views.image_maps import rows_of, text_maps
from regard.nn.image import BAM, CBAM, SqueezeExcitation
from regard.nn.image.attention_map import AttentionModule, Gates


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


def gated(weights: np.ndarray) -> Classification:
    """A classification whose only gate has these weights (H, W) in both of its channels."""
    each = torch.from_numpy(weights).expand(1, 2, *weights.shape)
    features = torch.ones_like(each)
    seen = Gates(features, each, features * each)
    return Classification("a", {"a": 1.0}, np.zeros(weights.shape, np.uint8), (seen,))


def test_nearly_equal_weights_are_drawn_flat_with_their_value() -> None:
    nearly = 0.406 + 0.004 * np.random.default_rng(1).random((4, 6))
    (row,) = rows_of(gated(nearly))
    panel = row.panels[1]
    assert panel.note == f"uniform, {nearly.mean():.3f}"
    assert np.ptp(panel.values) == 0
    different = np.linspace(0.2, 0.6, 24).reshape(4, 6)
    panel = rows_of(gated(different))[0].panels[1]
    assert panel.note == "least 0.200, largest 0.600"
    assert (panel.values.min(), panel.values.max()) == (0, 1)


@pytest.mark.parametrize("width", [20, 50, 80, 200])
def test_maps_in_the_terminal_fit_the_window_and_have_a_legend(width: int) -> None:
    text = text_maps(gated(np.linspace(0, 1, 400).reshape(20, 20)), width)
    lines = text.splitlines()
    assert max(len(line) for line in lines if set(line) & set("·░▒▓█") and "%" not in line) <= width
    assert ("█ ≥ 75 %" in text) == (width >= 50)
    assert sum(line.split() == ["before", "weights", "after"] for line in lines) == (width == 200)

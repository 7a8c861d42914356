"""Each attention module against a slow version of its paper's equations, and that looking gives the same numbers."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.config.classification import ResNetSettings, ViTSettings
from regard.errors import ConfigError, ModelFolderError
from regard.models.contract import Batch
from regard.models.image_classifier import Network, multiply_adds
from regard.nn.image import BAM, CBAM, SelfAttention2d, SqueezeExcitation
from regard.nn.image.attention_map import AttentionModule, Cells, Gates
from regard.storage.weights import load_tensors, model_tensors

CHANNELS = 32
MODULES = {
    "bam": lambda: BAM(CHANNELS, reduction=8),
    "bam released": lambda: BAM(CHANNELS, reduction=8, variant="released"),
    "cbam": lambda: CBAM(CHANNELS, reduction=8),
    "se": lambda: SqueezeExcitation(CHANNELS, reduction=8),
    "self-attention": lambda: SelfAttention2d(CHANNELS),
}


def features(batch: int = 3, size: int = 7) -> Tensor:
    return torch.randn(batch, CHANNELS, size, size + 2, generator=torch.Generator().manual_seed(1)).double()


def prepared(name: str) -> AttentionModule:
    """The module in float64 with weights and statistics that are not those of the start."""
    torch.manual_seed(2)
    module = MODULES[name]().double().eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            for tensor in (part.weight, part.bias, part.running_mean):
                nn.init.normal_(tensor)
            nn.init.uniform_(part.running_var, 0.5, 2)
    if isinstance(module, SelfAttention2d):
        nn.init.constant_(module.gamma, 0.7)
    return module


# --- slow versions, number by number ------------------------------------------------------------------------------


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def norm(x: np.ndarray, part: nn.Module) -> np.ndarray:
    """Batch normalisation with the running statistics; channels come first."""
    mean, var, scale, shift = (
        getattr(part, name).detach().numpy().reshape(-1, *[1] * (x.ndim - 1))
        for name in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / np.sqrt(var + part.eps) * scale + shift


def linear(x: np.ndarray, part: nn.Module) -> np.ndarray:
    return part.weight.detach().numpy() @ x + part.bias.detach().numpy()


def convolve(x: np.ndarray, part: nn.Conv2d) -> np.ndarray:
    """A convolution by its definition: zero outside, `dilation` between the taps."""
    weight = part.weight.detach().numpy()
    bias = np.zeros(len(weight)) if part.bias is None else part.bias.detach().numpy()
    _, height, width = x.shape
    reach, gap = weight.shape[2] // 2, part.dilation[0]
    result = np.zeros((len(weight), height, width))
    for row in range(height):
        for column in range(width):
            total = bias.copy()
            for down in range(-reach, reach + 1):
                for across in range(-reach, reach + 1):
                    r, c = row + down * gap, column + across * gap
                    if 0 <= r < height and 0 <= c < width:
                        total += weight[:, :, down + reach, across + reach] @ x[:, r, c]
            result[:, row, column] = total
    return result


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def slow_bam(x: np.ndarray, module: BAM) -> np.ndarray:
    """Equations 1 to 4 of Park et al. 2018."""
    w0, _, w1, last = module.channel
    channel = norm(linear(relu(linear(x.mean((1, 2)), w0)), w1), last)
    f0, _, f1, _, f2, _, f3, end = module.spatial
    assert f1.dilation == f2.dilation == (4, 4)
    hidden = relu(convolve(relu(convolve(relu(convolve(x, f0)), f1)), f2))
    spatial = norm(convolve(hidden, f3), end)[0]
    result = np.empty_like(x)
    for c, row, column in np.ndindex(*x.shape):
        weight = sigmoid(channel[c] + spatial[row, column])
        result[c, row, column] = x[c, row, column] + x[c, row, column] * weight
    return result


def slow_released_bam(x: np.ndarray, module: BAM) -> np.ndarray:
    """The authors' code: normalised hidden layers, nothing at the end, σ of the product."""
    w0, inner, _, w1 = module.channel
    channel = linear(relu(norm(linear(x.mean((1, 2)), w0), inner)), w1)
    f0, n0, _, f1, n1, _, f2, n2, _, f3 = module.spatial
    hidden = x
    for convolution, normal in ((f0, n0), (f1, n1), (f2, n2)):
        hidden = relu(norm(convolve(hidden, convolution), normal))
    spatial = convolve(hidden, f3)[0]
    result = np.empty_like(x)
    for c, row, column in np.ndindex(*x.shape):
        result[c, row, column] = (1 + sigmoid(channel[c] * spatial[row, column])) * x[c, row, column]
    return result


def slow_cbam(x: np.ndarray, module: CBAM) -> np.ndarray:
    """Equations 1 to 3 of Woo et al. 2018."""
    w0, _, w1 = module.channel
    both = sum(linear(relu(linear(pooled, w0)), w1) for pooled in (x.mean((1, 2)), x.max((1, 2))))
    chosen = np.stack([sigmoid(gate) * plane for gate, plane in zip(both, x, strict=True)])
    spatial = convolve(np.stack([chosen.mean(0), chosen.max(0)]), module.spatial)[0]
    return chosen / (1 + np.exp(-spatial))


def slow_se(x: np.ndarray, module: SqueezeExcitation) -> np.ndarray:
    """Equations 2 to 4 of Hu et al. 2018."""
    w1, _, w2 = module.channel
    gates = linear(relu(linear(x.mean((1, 2)), w1)), w2)
    return np.stack([sigmoid(gate) * plane for gate, plane in zip(gates, x, strict=True)])


def slow_self_attention(x: np.ndarray, module: SelfAttention2d) -> np.ndarray:
    """Equations 1 to 3 of Zhang et al. 2019."""
    f, g, h, v = (
        part.weight.detach().numpy()[:, :, 0, 0] for part in (module.key, module.query, module.value, module.output)
    )
    cells = x.reshape(len(x), -1)  # (C, N)
    result = np.empty_like(cells)
    for j in range(cells.shape[1]):
        scores = np.array([(f @ cells[:, i]) @ (g @ cells[:, j]) for i in range(cells.shape[1])])
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        attended = v @ sum(weight * (h @ cells[:, i]) for i, weight in enumerate(weights))
        result[:, j] = module.gamma.item() * attended + cells[:, j]
    return result.reshape(x.shape)


SLOW = {
    "bam": slow_bam,
    "bam released": slow_released_bam,
    "cbam": slow_cbam,
    "se": slow_se,
    "self-attention": slow_self_attention,
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_computes_its_papers_equations(name: str) -> None:
    module, given = prepared(name), features(2)
    with torch.no_grad():
        got = module(given)
    for image, result in zip(given, got, strict=True):
        np.testing.assert_allclose(result.numpy(), SLOW[name](image.numpy(), module), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MODULES)
def test_looking_gives_the_same_numbers_and_the_weights_that_made_them(name: str) -> None:
    module, given = prepared(name), features()
    with torch.no_grad():
        seen = module.look(given)
        torch.testing.assert_close(seen.after, module(given))
    assert torch.equal(seen.before, given)
    if isinstance(seen, Cells):
        rows, columns = seen.grid
        assert seen.weights.shape == (3, 1, rows * columns, rows * columns) == (3, 1, 63, 63)
        torch.testing.assert_close(seen.weights.sum(-1), torch.ones(3, 1, 63).double())
    else:
        assert seen.weights.shape == given.shape
        assert 0 < float(seen.weights.min()) <= float(seen.weights.max()) < 1
        gain = 1 + seen.weights if name.startswith("bam") else seen.weights
        torch.testing.assert_close(seen.after, given * gain)


def test_the_variants_of_bam_differ_and_others_are_refused() -> None:
    given = features()
    torch.manual_seed(0)
    paper = BAM(CHANNELS).double()
    assert isinstance(paper.look(given), Gates)
    assert not torch.allclose(prepared("bam")(given), prepared("bam released")(given))
    with pytest.raises(ConfigError, match="variant = 'new': BAM is 'paper' or 'released'"):
        BAM(CHANNELS, variant="new")  # type: ignore[arg-type]


def test_bam_with_few_channels_still_tells_places_apart() -> None:
    """With C = r = 16 one hidden channel would remain, dead in many fresh networks: M_s a constant."""
    constant = dict.fromkeys((1, 6), 0)
    for least, seed in product(constant, range(60)):
        torch.manual_seed(seed)
        module = BAM(16, min_hidden=least).eval()
        constant[least] += bool(module.look(torch.randn(1, 16, 8, 8).relu()).spatial.std() < 1e-7)
    assert constant[6] == 0
    assert constant[1] > 5
    assert BAM(16).channel[0].out_features == 6
    assert BAM(256).channel[0].out_features == 16


def test_classifiers_from_before_the_floor_say_how_to_bring_them_over() -> None:
    settings = ResNetSettings(channels=(4, 8), blocks=1, attention="bam")
    before = Network(settings.model_copy(update={"min_hidden": 1}), (1, 6, 6), 3)
    with pytest.raises(ModelFolderError, match=r'write "min_hidden": 1 under "model" in its config\.json\.$'):
        load_tensors(Network(settings, (1, 6, 6), 3), model_tensors(before), "here")


def test_bam_drops_into_any_network_in_one_line_and_learns() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 64, 3), BAM(channels=64), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    network(torch.randn(4, 3, 9, 9)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
    assert network(torch.randn(2, 3, 12, 5)).shape == (2, 64)


def test_self_attention_begins_as_the_identity() -> None:
    given = features()
    module = SelfAttention2d(CHANNELS).double()
    assert torch.equal(module(given), given)
    module(given).sum().backward()
    assert float(module.gamma.grad) != 0


# --- networks -----------------------------------------------------------------------------------------------------


def network(name: str, shape: tuple[int, int, int] = (1, 16, 16)) -> Network:
    torch.manual_seed(3)
    if name == "vit":
        settings = ViTSettings(hidden_size=16, layers=2, heads=2, feedforward_size=24)
        return Network(settings, shape, 5)
    return Network(ResNetSettings(attention=name, channels=(8, 16, 32), blocks=1), shape, 5)


def batch(shape: tuple[int, int, int] = (1, 16, 16), count: int = 3) -> Batch:
    generator = torch.Generator().manual_seed(4)
    images = torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=generator)
    labels = torch.arange(count).unsqueeze(1)
    return Batch(images, None, torch.zeros_like(labels), labels, torch.ones_like(labels, dtype=torch.bool))


@pytest.mark.parametrize(
    ("name", "layers", "heads", "positions"), [("vit", 2, 2, 17), ("self_attention", 1, 1, 64), ("bam", 0, 0, 0)]
)
def test_a_network_exposes_its_attention_as_the_contract_has_it(
    name: str, layers: int, heads: int, positions: int
) -> None:
    model = network(name).eval()
    with torch.no_grad():
        plain, looked = model(batch()), model(batch(), attention=True)
    torch.testing.assert_close(plain.hidden, looked.hidden)
    assert plain.hidden.shape == (3, 1, model.body.size)
    assert plain.attention is None
    if not layers:
        assert looked.attention == {}
        return
    weights = looked.attention["encoder-self"]
    assert weights.shape == (3, layers, heads, positions, positions)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


@pytest.mark.parametrize("name", ["none", "se", "cbam", "bam", "self_attention"])
def test_modules_stand_at_the_bottlenecks(name: str) -> None:
    model, seen = network(name).eval(), []
    model.features(batch().source, seen)
    sizes = [tuple(each.before.shape[1:]) for each in seen]
    expected = {"none": [], "self_attention": [(16, 8, 8)]}
    assert sizes == expected.get(name, [(8, 16, 16), (16, 8, 8)])


def test_two_places_of_self_attention_and_patches_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="needs one place"):
        ResNetSettings(attention="self_attention", places=(1, 2))
    with pytest.raises(ValueError, match="there is no stage 4"):
        ResNetSettings(attention="bam", places=(4,))
    with pytest.raises(ConfigError, match="images of 18 x 16 pixels do not divide into such patches"):
        network("vit", (1, 18, 16))


def test_multiply_adds_are_those_of_a_count_by_hand() -> None:
    model = Network(ResNetSettings(channels=(4,), blocks=1), (1, 6, 6), 3)
    stem, block, head = 36 * 9 * 1 * 4, 2 * 36 * 9 * 4 * 4, 4 * 3
    assert multiply_adds(model, (1, 6, 6)) == stem + block + head
    assert model.training
    with_bam = Network(ResNetSettings(channels=(4,), blocks=1, attention="bam", min_hidden=1), (1, 6, 6), 3)
    gate = 4 + 4 + 36 * (4 + 9 + 9 + 1)  # one hidden unit: two layers; 1x1, 3x3, 3x3, 1x1
    assert multiply_adds(with_bam, (1, 6, 6)) == stem + block + head + gate


def slow_vit(model: Network, image: Tensor) -> np.ndarray:
    """Equations 1 to 4 of Dosovitskiy et al. 2021, head by head."""
    body = model.body
    pixels = ((image.double() - model.mean) / model.deviation)[0].numpy()

    def numbers(tensor: Tensor) -> np.ndarray:
        return tensor.detach().numpy()

    def layer_norm(x: np.ndarray, part: nn.LayerNorm) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + part.eps)
        return scaled * numbers(part.weight) + numbers(part.bias)

    def gelu(x: np.ndarray) -> np.ndarray:
        return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

    kernel = numbers(body.patches.weight)[:, 0]
    patches = [pixels[r : r + 4, c : c + 4] for r in range(0, 16, 4) for c in range(0, 16, 4)]
    embedded = [np.tensordot(kernel, patch, 2) + numbers(body.patches.bias) for patch in patches]
    z = np.stack([numbers(body.class_token)[0, 0], *embedded]) + numbers(body.positions)[0]
    for layer in body.layers:
        attention = layer.attention
        projected = layer_norm(z, layer.attention_norm) @ numbers(attention.weight).T + numbers(attention.bias)
        query, key, value = np.split(projected, 3, 1)
        heads = []
        for part in np.split(np.arange(16), 2):
            scores = query[:, part] @ key[:, part].T / math.sqrt(8)
            weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
            heads.append(weights @ value[:, part])
        z = np.concatenate(heads, 1) @ numbers(attention.output.weight).T + numbers(attention.output.bias) + z
        hidden = gelu(layer_norm(z, layer.mlp_norm) @ numbers(layer.inner.weight).T + numbers(layer.inner.bias))
        z = hidden @ numbers(layer.outer.weight).T + numbers(layer.outer.bias) + z
    return layer_norm(z, body.norm)[0]


def test_vit_computes_its_papers_equations() -> None:
    model = network("vit").double().eval()
    nn.init.normal_(model.body.class_token)
    given = batch().source
    with torch.no_grad():
        got = model.features(given)
    for image, result in zip(given, got, strict=True):
        np.testing.assert_allclose(result.numpy(), slow_vit(model, image), rtol=1e-9, atol=1e-10)

"""No model is hard-wired to the CPU: forward, backward and decoding with tensors that claim another device.

There is no GPU here. `Elsewhere` wraps a CPU tensor and reports the device "meta"; an operation that mixes it with a
tensor that was left on the CPU raises, as on a GPU. Models then take the paths that they take on a GPU, with real
numbers, which must be those of the CPU.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

from regard.config.captioning import CaptionerSettings
from regard.config.classification import ResNetSettings, ViTSettings
from regard.config.vocabulary import EOS
from regard.data.text.batches import collate
from regard.models import build_model
from regard.models.contract import Batch, Model, Predictor
from regard.models.image_classifier import Network
from regard.models.show_attend_tell import ShowAttendTell
from regard.training.loss import backward

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
from training_help import SIZES, recipe

AWAY = torch.device("meta")


class Elsewhere(Tensor):
    """A CPU tensor that claims to be on another device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Elsewhere":
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=AWAY,
            requires_grad=inner.requires_grad,
        )
        made.inner = inner.detach()
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return run(function, arguments, named or {})


class Devices(TorchDispatchMode):
    """Creates tensors on the claimed device where it is asked for."""

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return run(function, arguments, named or {})


class Literals(TorchFunctionMode):
    """The same for tensors made of Python numbers, which are not dispatched."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        if function is torch.tensor and torch.device(named.get("device") or "cpu") == AWAY:
            return Elsewhere(torch.tensor(*arguments, **{**named, "device": "cpu"}))
        if function is Tensor.new_tensor and isinstance(arguments[0], Elsewhere):
            return Elsewhere(arguments[0].inner.new_tensor(*arguments[1:], **named))
        if function is Tensor.tolist and isinstance(arguments[0], Elsewhere):
            return arguments[0].inner.tolist()
        return function(*arguments, **named)


def run(function: Any, arguments: Any, named: dict[str, Any]) -> Any:
    """Compute on the CPU; refuse operands of both devices, except numbers and copies between devices."""
    tensors = [each for each in tree_iter((arguments, named)) if isinstance(each, Tensor)]
    away = any(isinstance(each, Elsewhere) for each in tensors)
    copies = function.name() in ("aten::copy_", "aten::_to_copy")
    left = [each for each in tensors if not isinstance(each, Elsewhere) and each.dim()]
    if away and left and not copies:
        raise RuntimeError(f"{function.name()}: a tensor of shape {tuple(left[0].shape)} was left on the CPU")
    if (device := named.get("device")) is not None:
        away = torch.device(device) == AWAY
        named = {**named, "device": torch.device("cpu")}
    elif copies and tensors:
        away = isinstance(tensors[0], Elsewhere)
    plain = lambda each: each.inner if isinstance(each, Elsewhere) else each  # noqa: E731
    result = function(*tree_map(plain, arguments), **tree_map(plain, named))
    if function.name().rpartition("::")[2].split(".")[0].endswith("_") and tensors:
        return arguments[0]  # in place
    return tree_map(lambda each: Elsewhere(each) if isinstance(each, Tensor) and away else each, result)


TEXT = collate([[5, 6, 7, EOS], [5, EOS], [9, 4, EOS]], [[5, 6, EOS], [7, EOS], [8, 8, 8, EOS]])


def losses(model: Predictor, batch: Batch) -> tuple[float, float]:
    """The loss and the norm of the gradient."""
    torch.manual_seed(1)
    model.train()
    loss = backward(model, model(batch), batch, smoothing=0.1, total_tokens=9)
    squares = [float(each.grad.square().sum()) for each in model.parameters() if each.grad is not None]
    return loss.smoothed, sum(squares) ** 0.5


@torch.no_grad()
def greedy(model: Model, batch: Batch) -> list[Any]:
    """Three greedy steps."""
    memory = model.eval().encode(batch.source, batch.source_mask)
    state, token, words = model.start(memory), batch.target_in[:, 0], []
    for _ in range(3):
        step = model.step(token, state, memory)
        state, token = step.state, model.project(step.hidden).argmax(1)
        words.append(token.tolist())
    return words


OPTIONS: dict[str, dict[str, Any]] = {"transformer": {"tie_embeddings": "none"}}  # wrapping would untie them


@pytest.mark.parametrize("kind", SIZES)
def test_translators_run_elsewhere(kind: str) -> None:
    settings = recipe(kind, {"dropout": 0.0, **OPTIONS.get(kind, {})}).model

    def built() -> Model:
        torch.manual_seed(0)
        return build_model(settings, 20, 20)

    model = built()
    here, words = losses(model, TEXT), greedy(model, TEXT)
    with Devices(), Literals():
        model, batch = built()._apply(Elsewhere), TEXT._each(Elsewhere)
        assert model(batch).hidden.device == AWAY
        assert losses(model, batch) == pytest.approx(here, rel=1e-4)
        assert greedy(model, batch) == words


@pytest.mark.parametrize("kind", ["captioner", "resnet", "vit"])
def test_models_of_images_run_elsewhere(kind: str) -> None:
    images = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    batch = replace(TEXT, source=images, source_mask=None)
    if kind != "captioner":
        classes = torch.tensor([[1], [0], [2]])
        batch = Batch(images, None, torch.zeros_like(classes), classes, torch.ones_like(classes, dtype=torch.bool))

    def built() -> Predictor:
        torch.manual_seed(0)
        return build_image_model(kind)

    here = losses(built(), batch)
    with Devices(), Literals():
        assert losses(built()._apply(Elsewhere), batch._each(Elsewhere)) == pytest.approx(here, rel=1e-4)


def build_image_model(kind: str) -> Predictor:
    if kind == "captioner":
        sizes = {"image_size": 32, "channels": [8, 8, 16], "embedding_size": 8, "hidden_size": 12, "attention_size": 8}
        return ShowAttendTell(CaptionerSettings(kind="captioner", dropout=0.0, **sizes), 20)
    if kind == "vit":
        small = ViTSettings(kind="vit", hidden_size=16, heads=2, layers=1, patch_size=8, dropout=0.0)
        return Network(small, (3, 32, 32), 5)
    return Network(ResNetSettings(kind="resnet", attention="bam"), (3, 32, 32), 5)


def test_a_tensor_left_on_the_cpu_is_noticed() -> None:
    with Devices(), pytest.raises(RuntimeError, match=r"shape \(3,\) was left on the CPU"):
        Elsewhere(torch.ones(3)) + torch.ones(3)

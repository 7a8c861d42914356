"""A small residual network (He et al. 2016), with attention at its bottlenecks (Park et al. 2018).

    stem      3x3 convolution to the first stage's channels
    stage s   `blocks` basic blocks y = δ(F(x) + x), F two 3x3 convolutions with batch normalisation; the first block
              of every stage but the first halves height and width
    module    after each stage but the last: BAM, CBAM, squeeze-and-excitation or self-attention, or none
    head      global average pooling

Departures from the paper: the stem has no stride and no pooling, for images of about 32 pixels, as in He et al.'s
CIFAR-10 networks; a shortcut between different shapes is a 1x1 convolution.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from regard.config.classification import ResNetSettings
from regard.nn.image.attention_map import AttentionModule, Seen
from regard.nn.image.bam import BAM
from regard.nn.image.cbam import CBAM
from regard.nn.image.self_attention import SelfAttention2d
from regard.nn.image.squeeze_excitation import SqueezeExcitation

# model.attention -> constructor of the module for a number of channels
MODULES: dict[str, Callable[[int, ResNetSettings], AttentionModule]] = {
    "se": lambda channels, settings: SqueezeExcitation(channels, settings.reduction or 16),
    "cbam": lambda channels, settings: CBAM(channels, settings.reduction or 16),
    "bam": lambda channels, settings: BAM(
        channels, settings.reduction or 16, settings.dilation, settings.variant, settings.min_hidden
    ),
    "self_attention": lambda channels, settings: SelfAttention2d(channels, settings.reduction or 8),
}


class ResNet(nn.Module):
    """Images (B, C, H, W), already normalised, to features (B, D)."""

    def __init__(self, settings: ResNetSettings, image_channels: int) -> None:
        super().__init__()
        first = settings.channels[0]
        self.stem = nn.Sequential(
            nn.Conv2d(image_channels, first, 3, padding=1, bias=False), nn.BatchNorm2d(first), nn.ReLU(inplace=True)
        )
        self.stages = nn.ModuleList()
        self.attention = nn.ModuleList()  # after each stage; Identity if there is no module
        inputs = first
        for number, outputs in enumerate(settings.channels, 1):
            stride = 1 if number == 1 else 2
            blocks = [BasicBlock(inputs, outputs, stride)]
            blocks += [BasicBlock(outputs, outputs, 1) for _ in range(settings.blocks - 1)]
            self.stages.append(nn.Sequential(*blocks))
            is_place = number in settings.module_places
            self.attention.append(MODULES[settings.attention](outputs, settings) if is_place else nn.Identity())
            inputs = outputs
        self.size = inputs

    def forward(self, images: Tensor, seen: list[Seen] | None = None) -> Tensor:
        """The features; appends the record of each module to `seen`."""
        features = self.stem(images)
        for stage, module in zip(self.stages, self.attention, strict=True):
            features = stage(features)
            if seen is not None and isinstance(module, AttentionModule):
                seen.append(module.look(features))
                features = seen[-1].after
            else:
                features = module(features)
        pooled: Tensor = features.mean((2, 3))
        return pooled


class BasicBlock(nn.Module):
    """y = δ(F(x) + x)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, features: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C', H/stride, W/stride)."""
        hidden = functional.relu(self.first_norm(self.first(features)), inplace=True)
        residual = self.second_norm(self.second(hidden))
        return functional.relu(residual.add_(self.shortcut(features)), inplace=True)

"""Image classifiers: from images to one hidden vector and the logits of the classes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.config.classification import ResNetSettings, ViTSettings
from regard.models.contract import Batch, Output, Predictor
from regard.models.resnet import ResNet
from regard.models.vit import ViT
from regard.nn.attention.trace import Attention
from regard.nn.image.attention_map import Cells, Seen


class Network(Predictor):
    """A feature extractor and a linear layer over the classes.

    Images are bytes (B, C, H, W). The model stores mean and standard deviation of each channel, so a model folder is
    self-contained.
    """

    def __init__(self, settings: ResNetSettings | ViTSettings, shape: Sequence[int], classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.vocabulary_size = classes
        self.body: ResNet | ViT
        if isinstance(settings, ResNetSettings):
            self.body = ResNet(settings, channels)
            self.dropout = nn.Dropout(settings.dropout)
        else:
            self.body = ViT(settings, channels, height, width)
            self.dropout = nn.Dropout(0.0)
        self.head = nn.Linear(self.body.size, classes)
        self.mean: Tensor
        self.deviation: Tensor
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("deviation", torch.ones(channels, 1, 1))

    def forward(self, batch: Batch, *, attention: bool = False) -> Output:
        """One hidden vector per image (B, 1, D), and attention over the cells of the map."""
        seen: list[Seen] | None = [] if attention else None
        hidden = self.features(batch.source, seen).unsqueeze(1)
        return Output(hidden, None if seen is None else joined_attention(seen))

    def features(self, images: Tensor, seen: list[Seen] | None = None) -> Tensor:
        """Features (B, D) of bytes (B, C, H, W); appends the record of each attention module to `seen`."""
        # Channels last: the fastest layout of convolution and normalisation on a CPU.
        given = images.to(self.mean.dtype, memory_format=torch.channels_last)
        features: Tensor = self.dropout(self.body((given - self.mean) / self.deviation, seen))
        return features

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        """Logits of the classes, or of some of them."""
        logits: Tensor = self.head(hidden)
        return logits if columns is None else logits[..., columns]


def channels_last(network: Network) -> Network:
    """Convert the convolutions to channels last, the fastest layout on a CPU; results do not change."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs leave it out
    return network


def joined_attention(seen: Sequence[Seen]) -> Attention:
    """The weights of all self-attention as in the contract, (B, layers, heads, T, S); {} without self-attention.

    Gates such as BAM's are not distributions: `Network.features` records them.
    """
    weights = [each.weights for each in seen if isinstance(each, Cells)]
    return {"encoder-self": torch.stack(weights, 1)} if weights else {}


def multiply_adds(network: Network, shape: Sequence[int]) -> int:
    """Multiply-adds for one image in convolutions and matrix products, counted as in the papers."""
    from torch.utils.flop_counter import FlopCounterMode

    training = network.training
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        # The recording path uses plain matrix products, which the counter sees.
        network.eval().project(network.features(torch.zeros(1, *shape, dtype=torch.uint8), []))
    network.train(training)
    return int(counter.get_total_flops()) // 2

"""A classifier as training sees it: images in, one hidden vector and the logits of the classes out."""

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
    """A body that makes features of images, and a linear layer over the classes.

    Images come as bytes (B, C, H, W). Mean and deviation of each channel belong to the model, so that a model folder
    needs nothing beside it.
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
        """One hidden vector for each image (B, 1, D); attention as in the contract, over the cells of the map."""
        seen: list[Seen] | None = [] if attention else None
        hidden = self.features(batch.source, seen).unsqueeze(1)
        return Output(hidden, None if seen is None else joined_attention(seen))

    def features(self, images: Tensor, seen: list[Seen] | None = None) -> Tensor:
        """Features (B, D) of bytes (B, C, H, W); what each attention module did goes into `seen`."""
        # Channels last: the layout in which convolutions and normalisation on a CPU are quickest.
        given = images.to(self.mean.dtype, memory_format=torch.channels_last)
        features: Tensor = self.dropout(self.body((given - self.mean) / self.deviation, seen))
        return features

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        """Logits of the classes, or of some of them."""
        logits: Tensor = self.head(hidden)
        return logits if columns is None else logits[..., columns]


def channels_last(network: Network) -> Network:
    """The same network, its convolutions in the layout that is quickest on a CPU; no number changes."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs leave it out
    return network


def joined_attention(seen: Sequence[Seen]) -> Attention:
    """The weights of all self-attention as the contract has them, (B, layers, heads, T, S); {} where there is none.

    Gates such as BAM's are no rows that sum to 1: `Network.features` shows them.
    """
    weights = [each.weights for each in seen if isinstance(each, Cells)]
    return {"encoder-self": torch.stack(weights, 1)} if weights else {}


def multiply_adds(network: Network, shape: Sequence[int]) -> int:
    """Multiplications with an addition for one image, in convolutions and matrix products, as the papers count."""
    from torch.utils.flop_counter import FlopCounterMode

    training = network.training
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        # Looking takes the plain products, which can be counted.
        network.eval().project(network.features(torch.zeros(1, *shape, dtype=torch.uint8), []))
    network.train(training)
    return int(counter.get_total_flops()) // 2

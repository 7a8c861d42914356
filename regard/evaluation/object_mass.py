"""The share of an attention map's mass that lies inside the object, by module.

Park et al. 2018 (figure 1) show that BAM's maps move from the background to the object with depth. Here this is a
number, for image sets that know where their objects are. A map that is the same everywhere has the object's share of
the area.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.data.images.image_set import ImageSet
from regard.models.image_classifier import Network
from regard.nn.image.attention_map import Cells, Seen

IMAGES, TOGETHER = 1000, 250  # images looked at, and how many at a time


@dataclass(frozen=True)
class ObjectMass:
    """Means over the images."""

    modules: tuple[float, ...]  # share of each module's map inside the object, from the first module to the last
    area: float  # share of the image that is object

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {f"module_{number}": share for number, share in enumerate(self.modules, 1)} | {"area": self.area}


@torch.inference_mode()
def object_mass(network: Network, images: ImageSet, device: torch.device) -> ObjectMass | None:
    """The shares over the first images; None without attention modules or without known objects."""
    if images.objects is None:
        return None
    shares: list[Tensor] = []  # (modules, images)
    areas: list[Tensor] = []
    for start in range(0, min(IMAGES, len(images)), TOGETHER):
        part = images.select(slice(start, min(start + TOGETHER, IMAGES)))
        assert part.objects is not None
        objects = torch.from_numpy(part.objects).to(device, torch.float32)  # (B, H, W)
        seen: list[Seen] = []
        network.features(torch.from_numpy(part.images).to(device), seen)
        if not seen:
            return None
        shares.append(torch.stack([_inside(attention_map(each), objects) for each in seen]))
        areas.append(objects.mean((1, 2)))
    return ObjectMass(tuple(torch.cat(shares, 1).mean(1).tolist()), float(torch.cat(areas).mean()))


def attention_map(seen: Seen) -> Tensor:
    """The map (B, h, w) of a module: its weights averaged over channels, or the attention that each cell receives."""
    if not isinstance(seen, Cells):
        return seen.weights.mean(1)
    received = seen.weights.mean((1, 2))  # (B, S)
    cells = received[:, 1:] if seen.class_token else received
    return cells.reshape(-1, *seen.grid)


def _inside(maps: Tensor, objects: Tensor) -> Tensor:
    """The share (B,) of maps (B, h, w) inside objects (B, H, W); a cell counts by the part of it that is object."""
    grid = (maps.size(1), maps.size(2))
    covered = functional.adaptive_avg_pool2d(objects.unsqueeze(1), grid).squeeze(1)
    return (maps * covered).sum((1, 2)) / maps.sum((1, 2)).clamp(min=1e-12)

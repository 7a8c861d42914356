"""Attention modules for convolutional networks: each maps features (B, C, H, W) to features of the same shape.

from regard.nn.image import BAM

block = nn.Sequential(conv, BAM(channels=64))
"""

from regard.nn.image.bam import BAM
from regard.nn.image.cbam import CBAM
from regard.nn.image.self_attention import SelfAttention2d
from regard.nn.image.squeeze_excitation import SqueezeExcitation

__all__ = ["BAM", "CBAM", "SelfAttention2d", "SqueezeExcitation"]

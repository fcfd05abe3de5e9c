"""The parts every classifier here is made of; all of it compiles."""

from __future__ import annotations

import torch
from torch import nn


class ConvBlock(nn.Module):
    """Convolution, normalisation, activation, and a shortcut where the shapes allow one."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1)
        self.norm = nn.GroupNorm(4, outputs)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = torch.nn.functional.gelu(self.norm(self.conv(images)))
        if self.shortcut:
            features = features + images
        return features


class Encoder(nn.Module):
    """A stack of blocks and the mean over all positions."""

    def __init__(self, channels: int = 3, width: int = 16, depth: int = 3) -> None:
        super().__init__()
        self.stem = ConvBlock(channels, width, stride=2)
        self.blocks = nn.ModuleList(ConvBlock(width, width) for _ in range(depth))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if images.dim() != 4:
            raise ValueError(f"expected (batch, channels, height, width), got {tuple(images.shape)}")
        features = self.stem(images)
        for block in self.blocks:
            features = block(features)
        return features.mean(dim=(2, 3))

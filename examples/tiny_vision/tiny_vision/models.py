"""Four classifiers: one that compiles whole, three with a line each that keeps them from it."""

from __future__ import annotations

import torch
from torch import nn

from .blocks import Encoder
from .scaling import to_unit_peak


class PlainClassifier(nn.Module):
    """Branches on shapes, flags and None only: one graph."""

    def __init__(self, classes: int = 10, width: int = 16, dropout: float | None = None) -> None:
        super().__init__()
        self.encoder = Encoder(width=width)
        self.dropout = None if dropout is None else nn.Dropout(dropout)
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if images.shape[1] == 1:
            images = images.expand(-1, 3, -1, -1)
        features = self.encoder(images)
        if self.dropout is not None and self.training:
            features = self.dropout(features)
        return self.head(features)


class ExposureClassifier(nn.Module):
    """Treats dark batches differently: the branch depends on the pixels."""

    def __init__(self, classes: int = 10, width: int = 16) -> None:
        super().__init__()
        self.encoder = Encoder(width=width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if images.mean() < 0.1:
            images = images * 4
        return self.head(self.encoder(images))


class AnnealedClassifier(nn.Module):
    """Counts its calls in a Python number: Dynamo compiles a graph for every value."""

    def __init__(self, classes: int = 10, width: int = 16) -> None:
        super().__init__()
        self.encoder = Encoder(width=width)
        self.head = nn.Linear(width, classes)
        self.calls = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.head(self.encoder(images)) / (1 + self.calls)


class PeakClassifier(nn.Module):
    """Is clean itself; the helper it calls reads a tensor back into Python."""

    def __init__(self, classes: int = 10, width: int = 16) -> None:
        super().__init__()
        self.encoder = Encoder(width=width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(to_unit_peak(images)))

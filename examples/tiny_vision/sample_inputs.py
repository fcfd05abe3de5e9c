"""How to call the models; dynalint confirms its findings and verifies its fixes with these."""

from __future__ import annotations

import torch

from tiny_vision.models import AnnealedClassifier, ExposureClassifier, PeakClassifier, PlainClassifier


def images() -> torch.Tensor:
    return torch.rand(2, 3, 16, 16)


def plain() -> tuple[PlainClassifier, tuple[torch.Tensor]]:
    return PlainClassifier(), (images(),)


def exposure() -> tuple[ExposureClassifier, tuple[torch.Tensor]]:
    return ExposureClassifier(), (images(),)


def annealed() -> tuple[AnnealedClassifier, tuple[torch.Tensor]]:
    return AnnealedClassifier(), (images(),)


def peak() -> tuple[PeakClassifier, tuple[torch.Tensor]]:
    return PeakClassifier(), (images(),)

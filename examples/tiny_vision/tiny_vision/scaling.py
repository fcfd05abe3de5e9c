"""Input scaling, called from the models: Dynamo traces it with them."""

from __future__ import annotations

import torch


def to_unit_peak(images: torch.Tensor) -> torch.Tensor:
    """Scale a batch so that its largest magnitude is one."""
    peak = images.abs().max().item()
    return images / peak

"""Imported by the server before it forks: torch, and Dynamo with its caches filled by one small compile."""

from __future__ import annotations

import contextlib

import torch
import torch._dynamo.backends.debugging
from torch import nn

# One thread: a pool of threads does not survive a fork, and two targets at once should not fight for cores.
torch.set_num_threads(1)
with contextlib.suppress(Exception):
    model = torch.compile(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), backend="eager")
    # The second size makes Dynamo compile for sizes in general, which loads much more.
    for rows in (3, 4):
        model(torch.zeros(rows, 2))
torch.compiler.reset()

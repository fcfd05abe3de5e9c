"""What the server does before it forks: import torch and the operations, and fill caches, by one small compile too."""

from __future__ import annotations

import contextlib
import importlib

import torch
import torch._dynamo.backends.debugging
from torch import nn

from . import hearing, loading, verify  # noqa: F401 - so that no process has to import them


def warm_up(device: str) -> None:
    """Do once what every process forked for `device` would have to do.

    Dynamo asks each device for the state of its random numbers. A GPU that has been asked is of no use after a fork, so
    nothing is compiled where it is to be used; where it is not, the client has hidden it.
    """
    # One thread: a pool of threads does not survive a fork, and two targets at once should not fight for cores.
    torch.set_num_threads(1)
    loading.imported_files(())
    if device != "cpu":
        return
    with contextlib.suppress(Exception):
        model = torch.compile(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), backend="aot_eager")
        # The second size makes Dynamo compile for sizes in general, which loads much more.
        for rows in (3, 4):
            with torch.no_grad():
                model(torch.zeros(rows, 2))
    with contextlib.suppress(Exception):
        # Graphs with gradients load it. To compute one here could start threads for devices, which no fork survives.
        importlib.import_module("torch._inductor.pattern_matcher")
    torch.compiler.reset()

"""The server's work before it forks: import torch and the operations, and fill caches with a small compilation."""

from __future__ import annotations

import contextlib

import torch
import torch._dynamo.backends.debugging
from torch import nn
from torch._dynamo import guards, symbolic_convert, utils

from ..dynamo import runs
from ..operations import confirming, verifying  # noqa: F401 - so that forked processes need not import them
from ..source import loading

# Functions given by name, because some releases do not have all of them, and the values to return instead.
_MEASURES = (
    (guards, "profile_guard_manager", 0.0),
    (symbolic_convert, "get_funcname", None),
    (utils, "_get_dynamo_config_for_logging", None),
    (utils, "_compiler_config_for_logging", None),
    (utils, "_scrubbed_inductor_config_for_logging", None),
    (utils, "_functorch_config_for_logging", None),
)


def warm_up(device: str) -> None:
    """Do work once that every process forked for `device` would otherwise repeat.

    Dynamo queries the random number state of each device, and a GPU that was queried cannot be used after a fork.
    Nothing is therefore compiled here if a GPU will be used. If code runs on the CPU, the client hides GPUs.
    """
    # A thread pool does not survive a fork, and two targets running at once should not compete for cores.
    torch.set_num_threads(1)
    leave_out_measures()
    if device == "cpu":
        seed_what_is_there()
        _compile_something()
    loading.remember_modules()


def _compile_something() -> None:
    with contextlib.suppress(Exception):
        model = torch.compile(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), backend="aot_eager")
        # The second size makes Dynamo compile with dynamic shapes, which loads many more modules.
        for rows in (3, 4):
            with torch.no_grad():
                model(torch.zeros(rows, 2))
    torch.compiler.reset()


def leave_out_measures() -> None:
    """Make Dynamo skip work that is only needed for its logs. This halves the time of a small compilation.

    For every compilation, Dynamo measures how long guards take, after flushing the processor's caches. It also parses
    each file to find function names by line, and writes out hundreds of settings. Call this only in the worker's
    processes, because the change is permanent.
    """
    for module, name, instead in _MEASURES:
        if hasattr(module, name):
            setattr(module, name, lambda *_, instead=instead: instead)


def seed_what_is_there() -> None:
    """Make runs seed only the CPU if there is no GPU.

    Otherwise, torch would queue each seed, with a stack trace, for GPUs that might appear later.
    """
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and not accelerator.is_available():
        runs.seed_torch = torch.default_generator.manual_seed

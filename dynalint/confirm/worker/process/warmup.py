"""What the server does before it forks: import torch and the operations, and fill caches, by one small compile too."""

from __future__ import annotations

import contextlib
import importlib

import torch
import torch._dynamo.backends.debugging
from torch import nn
from torch._dynamo import guards, symbolic_convert, utils

from ..dynamo import runs
from ..operations import confirming, verifying  # noqa: F401 - so that no process has to import them
from ..source import loading

# By their names, as some are missing in some releases, and what to answer in their place.
_MEASURES = (
    (guards, "profile_guard_manager", 0.0),
    (symbolic_convert, "get_funcname", None),
    (utils, "_get_dynamo_config_for_logging", None),
    (utils, "_compiler_config_for_logging", None),
    (utils, "_scrubbed_inductor_config_for_logging", None),
    (utils, "_functorch_config_for_logging", None),
)


def warm_up(device: str) -> None:
    """Do once what every process forked for `device` would have to do.

    Dynamo asks each device for the state of its random numbers. A GPU that has been asked is of no use after a fork, so
    nothing is compiled where it is to be used; where it is not, the client has hidden it.
    """
    # One thread: a pool of threads does not survive a fork, and two targets at once should not fight for cores.
    torch.set_num_threads(1)
    leave_out_measures()
    if device == "cpu":
        seed_what_is_there()
        _compile_something()
    loading.remember_modules()


def _compile_something() -> None:
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


def leave_out_measures() -> None:
    """Have Dynamo leave out what it finds out for its logs alone: a small compile takes half as long.

    It measures how long guards take, for which it first writes over the processor's caches, takes each file apart for
    the names of functions by line, and writes down all settings, hundreds, for every compile. For the worker's
    processes only, since it stays.
    """
    for module, name, instead in _MEASURES:
        if hasattr(module, name):
            setattr(module, name, lambda *_, instead=instead: instead)


def seed_what_is_there() -> None:
    """Have runs seed the processor alone where there is no GPU.

    Torch would seed GPUs too, on the day that there is one: it keeps every seed for them, with the stack it came from.
    """
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and not accelerator.is_available():
        runs.seed_torch = torch.default_generator.manual_seed

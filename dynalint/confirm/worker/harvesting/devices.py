"""Make code that asks for a GPU run on the CPU. Many tests do so without checking that there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode


class OnTheCpu(TorchFunctionMode):  # type: ignore[misc]
    """While this mode is active, torch treats `cuda` as the CPU."""

    def __enter__(self) -> OnTheCpu:  # noqa: PYI034 - typing.Self is not in Python 3.10
        # `torch.random.fork_rng` asks the module of the device for its states.
        for name in ("get_rng_state", "set_rng_state"):
            if not hasattr(torch.cpu, name):
                setattr(torch.cpu, name, partial(_without_device, getattr(torch, name)))
        return cast("OnTheCpu", super().__enter__())

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a torch function with the device replaced."""
        if func == torch.Tensor.cuda:
            return args[0]
        return func(*map(_moved, args), **{name: _moved(value) for name, value in (kwargs or {}).items()})

    def forget(self) -> None:
        """Exit this mode permanently, even if it is below other modes."""
        above = []
        while torch._C._len_torch_function_stack():  # noqa: SLF001
            mode = _pop_mode()
            if mode is self:
                break
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)


def _without_device(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function for the CPU with the arguments of one for a GPU, the last of which is the number of the GPU."""
    return function(*args[:-1])


def _moved(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value

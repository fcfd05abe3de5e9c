"""Make code that asks for a GPU run on the CPU. Many tests do so without checking that there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode


class OnTheCpu(TorchFunctionMode):  # type: ignore[misc]
    """While this mode is active, torch treats `cuda` as the CPU."""

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


def _moved(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value

"""torch's public names: a canonical dotted name for every function, class and constant, and its aliases."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from scripts.torch_api.annotations import register_classes

# If an object has more than one name, the first of these namespaces that contains it gives the canonical name.
NAMESPACES = """
    torch torch.nn torch.nn.functional torch.linalg torch.fft torch.special torch.sparse torch.signal.windows
    torch.nn.init torch.nn.utils torch.nn.utils.rnn torch.nn.utils.parametrizations torch.nn.utils.parametrize
    torch.nn.utils.prune torch.nn.utils.stateless torch.nn.parameter torch.nn.parallel torch.nn.attention
    torch.nn.attention.flex_attention torch.nn.attention.bias torch.nn.modules.utils
    torch.autograd torch.autograd.functional torch.autograd.forward_ad torch.autograd.function torch.autograd.graph
    torch.autograd.profiler torch.random torch.amp torch.amp.autocast_mode torch.cuda torch.cuda.amp torch.cuda.nvtx
    torch.cuda.random torch.cuda.memory torch.cpu torch.cpu.amp torch.mps torch.xpu torch.mtia torch.accelerator
    torch.backends torch.backends.cuda torch.backends.cudnn torch.backends.mps torch.backends.mkl torch.backends.mkldnn
    torch.backends.openmp torch.backends.opt_einsum torch.backends.cpu torch.distributed torch.distributed.nn
    torch.distributed.nn.functional torch.distributed.tensor torch.distributed.fsdp torch.compiler torch.jit torch.onnx
    torch.utils torch.utils.checkpoint torch.utils.data torch.utils.data.distributed torch.utils.dlpack
    torch.utils.hooks torch.func torch.distributions torch.distributions.utils torch.distributions.kl
    torch.distributions.constraints torch.distributions.transforms torch.masked torch.nested torch.overrides
    torch.testing torch.profiler torch.hub torch.functional torch.optim torch.optim.lr_scheduler torch.optim.swa_utils
    torch.export torch.fx torch.version torch._dynamo torch._utils torch._C._nn torch._C
""".split()

# Namespaces with only some public names.
_ONLY = {
    "torch._dynamo": {"is_compiling", "disable", "graph_break", "mark_dynamic", "mark_static", "maybe_mark_dynamic",
                      "mark_unbacked", "reset", "optimize", "explain", "export", "allow_in_graph", "disallow_in_graph",
                      "is_dynamo_supported", "assume_constant_result", "run"},
    "torch._utils": {"is_compiling", "_get_device_index", "_flatten_dense_tensors", "_unflatten_dense_tensors"},
    "torch._C": {"Generator", "Size", "Stream", "Event", "_get_tracing_state", "_get_cudnn_enabled"},
}  # fmt: skip
_PRIVATE_TOO = {"torch.nn.modules.utils", "torch._C._nn", "torch._utils", "torch._C"}
_PYTHON_TYPES = (bool, int, float, complex, str, bytes)


@dataclass
class Names:
    """Objects by canonical name, and their aliases."""

    functions: dict[str, Any] = field(default_factory=dict)
    classes: dict[str, type] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    by_id: dict[int, str] = field(default_factory=dict)

    def class_name(self, cls: type) -> str | None:
        """Return the canonical name of a torch class, or None if it is not recorded."""
        return self.by_id.get(id(cls))


def collect() -> Names:
    """Walk the namespaces of the installed torch."""
    names = Names()
    for space in NAMESPACES:
        try:
            module = importlib.import_module(space)
        except ImportError:
            continue
        for name, value in sorted(_members(space, module)):
            _file(names, f"{space}.{name}", value)
    for cls in list(names.classes.values()):
        for base in cls.__mro__[1:]:
            if base.__module__.startswith("torch") and id(base) not in names.by_id:
                _file(names, f"{base.__module__}.{base.__qualname__}", base)
    register_classes({name: cls for name, cls in names.classes.items() if name.startswith("torch.")})
    for canonical, value in [*names.functions.items(), *names.classes.items()]:
        defined = f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', None)}"
        if defined.startswith("torch.") and defined != canonical and _resolves_to(defined, value):
            names.aliases.setdefault(defined, canonical)
    _alias_packages(names)
    return names


def _members(space: str, module: ModuleType) -> Iterator[tuple[str, Any]]:
    listed = set(getattr(module, "__all__", dir(module)))
    for name in dir(module):
        if name.startswith("__") or name == "TYPE_CHECKING" or (name.startswith("_") and space not in _PRIVATE_TOO):
            continue
        if space in _ONLY and name not in _ONLY[space]:
            continue
        value = getattr(module, name, None)
        if isinstance(value, ModuleType) or value is None:
            continue
        home = getattr(value, "__module__", None)
        if name not in listed and home not in (space, None) and space != "torch":
            continue
        if (inspect.isclass(value) or callable(value)) and isinstance(home, str) and not home.startswith("torch"):
            continue
        yield name, value


def _file(names: Names, dotted: str, value: Any) -> None:
    if id(value) in names.by_id:
        names.aliases.setdefault(dotted, names.by_id[id(value)])
        return
    if inspect.isclass(value):
        names.classes[dotted] = value
    elif callable(value) and not isinstance(value, (torch.dtype, torch.nn.Module)):
        if "typing" in type(value).__module__:
            return
        names.functions[dotted] = value
    else:
        kind = constant_kind(value)
        if kind is not None:
            names.constants[dotted] = kind
        return
    names.by_id[id(value)] = dotted


def constant_kind(value: Any) -> str | None:
    """Return the kind of a module-level value, or None if it has none."""
    for cls, word in ((torch.dtype, "dtype"), (torch.layout, "layout"), (torch.memory_format, "memory_format"),
                      (torch.device, "device")):  # fmt: skip
        if isinstance(value, cls):
            return f"python:{word}"
    if type(value) in _PYTHON_TYPES:
        return f"python:{type(value).__name__}"
    return "tensor" if isinstance(value, torch.Tensor) else None


def _resolves_to(dotted: str, value: Any) -> bool:
    module_name, _, name = dotted.rpartition(".")
    return getattr(sys.modules.get(module_name), name, None) is value


def _alias_packages(names: Names) -> None:
    """Also record what the package of a namespace's submodules defines under the path from which users import it."""
    for canonical, value in list(names.classes.items()):
        for module_name in ("torch.nn.modules", "torch.distributions", "torch.nn.parallel"):
            module = sys.modules.get(module_name)
            if getattr(module, value.__name__, None) is value and canonical != f"{module_name}.{value.__name__}":
                names.aliases.setdefault(f"{module_name}.{value.__name__}", canonical)

"""Run a call and record everything that a caller could notice.

Observations hold live objects, not copies, so compare two of them before either callable runs again.
"""

from __future__ import annotations

import contextlib
import dis
import io
import logging
import marshal
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..dynamo import runs
from ..dynamo.runs import Call

ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
OWN_TO_MODULES = frozenset(vars(nn.Module()))
PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
DEEPEST = 12
_RAISING = ("RAISE_VARARGS", "RERAISE")


@dataclass
class Observation:
    """The effects of a call. Each key is the name of an aspect in reports.

    `error` is the type and message of the exception that ended the call, or None if it returned. `refused` means that
    an operator raised the exception because of its inputs. `gradients` are the gradients of inputs and parameters.
    `state` is everything that the callable keeps between calls. `effects` contains the remaining side effects.
    """

    error: tuple[str, str] | None = None
    refused: bool = False
    output: Any = None
    inputs: Any = None
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    effects: dict[str, Any] = field(default_factory=dict)


def observe(
    run: Callable[..., Any],
    owner: Any,
    call: Call,
    seed: int,
    *,
    training: bool,
    times: int = 1,
    differentiated: bool = True,
    leaves: bool = False,
) -> Observation:
    """Run `run` with `call` and return an observation. `owner` is the callable that keeps the state.

    If `training` is true, floating-point inputs require gradients if they are `differentiated`, and a backward pass
    follows for a weighted sum of the outputs. These inputs are copies that code may write to, unless they are `leaves`.
    Otherwise, everything runs under `no_grad`. The call runs `times` times before the single backward pass.
    """
    seen = Observation()
    prepared = [_with_gradients(call, training=training and differentiated, given=leaves) for _ in range(times)]
    inputs = [leaf for own, _ in prepared for leaf in own]
    args, kwargs = prepared[-1][1]
    for parameter in parameters_of(owner).values():
        parameter.grad = None
    _seed(seed)
    with _watching(seen.effects), torch.set_grad_enabled(training):
        try:
            outputs = [run(*given, **named) for _, (given, named) in prepared]
            seen.output = outputs[0] if times == 1 else outputs
            loss = _loss(seen.output) if training else None
            if loss is not None:
                loss.backward()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an exception is part of what the code does
            seen.error = (type(error).__name__, ADDRESS.sub("0x", str(error)))
            seen.refused = type(error) in (RuntimeError, IndexError) and not _is_raised(error)
    seen.effects["the random state of torch"] = torch.get_rng_state()
    # The states are kept as bytes, because they are only tested for equality and contain hundreds of numbers.
    seen.effects["the random state of random"] = marshal.dumps(random.getstate())
    if "numpy" in sys.modules:
        seen.effects["the random state of NumPy"] = sys.modules["numpy"].random.get_state(legacy=False)
    seen.inputs = {**dict(enumerate(args)), **kwargs}
    seen.gradients = {f"input {position}": leaf.grad for position, leaf in enumerate(inputs)}
    seen.gradients.update({name: parameter.grad for name, parameter in parameters_of(owner).items()})
    seen.state = state_of(owner)
    seen.keys = tuple(owner.state_dict()) if isinstance(owner, nn.Module) else ()
    seen.aliases = tuple(_aliases(seen.output, seen.inputs, seen.state))
    return seen


def _is_raised(error: BaseException) -> bool:
    """Return whether a Python statement raised an exception, not a torch operator."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] in _RAISING


def attempt(
    run: Callable[..., Any], call: Call, seed: int, *, training: bool, differentiated: bool = True
) -> Exception | SystemExit | None:
    """Run `run` with `call` like `observe` does, but only return the exception, if there is one."""
    _, (args, kwargs) = _with_gradients(call, training=training and differentiated, given=False)
    _seed(seed)
    with _watching({}), torch.set_grad_enabled(training):
        try:
            run(*args, **kwargs)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an exception is part of what the code does
            return error
    return None


def modules_of(owner: Any) -> Iterator[tuple[str, nn.Module]]:
    """Yield a callable's modules by name. The callable itself has an empty name."""
    for root in (owner, getattr(owner, "__self__", None)):
        if isinstance(root, nn.Module):
            yield from root.named_modules()


def parameters_of(owner: Any) -> dict[str, nn.Parameter]:
    """Return a callable's parameters by name."""
    return {
        f"{prefix}.{name}".lstrip("."): parameter
        for prefix, module in modules_of(owner)
        for name, parameter in module._parameters.items()  # noqa: SLF001 - only this module, including shared ones
        if parameter is not None
    }


SCRIPT = "<TorchScript>"
"""The key that `state_of` uses to mark a module as TorchScript, whose attributes are not visible."""


def state_of(owner: Any) -> dict[str, Any]:
    """Return the state that a callable keeps: parameters, buffers, attributes, class attributes, closures."""
    state: dict[str, Any] = {}
    for prefix, module in modules_of(owner):
        # TorchScript keeps internal attributes on a module, but not the Python module's attributes.
        is_script = isinstance(module, torch.jit.ScriptModule)
        own = {} if is_script else {name: value for name, value in vars(module).items() if name not in OWN_TO_MODULES}
        own.update(module._parameters)  # noqa: SLF001
        own.update(module._buffers)  # noqa: SLF001
        own.update({"training": module.training})
        if is_script:
            own[SCRIPT] = True
        for cls in type(module).__mro__:
            if not cls.__module__.startswith(("torch.", "builtins")):
                own.update(
                    {f"{cls.__name__}.{name}": value for name, value in vars(cls).items() if _keepable(name, value)}
                )
        state.update({f"{prefix}.{name}".lstrip("."): value for name, value in own.items()})
    holder = getattr(owner, "__self__", owner)
    if not isinstance(holder, nn.Module) and hasattr(holder, "__dict__") and not isinstance(holder, type):
        state.update(vars(holder))
    function = getattr(owner, "__func__", owner)
    for name, cell in zip(
        getattr(getattr(function, "__code__", None), "co_freevars", ()),
        getattr(function, "__closure__", None) or (),
        strict=False,
    ):
        with contextlib.suppress(ValueError):
            state[f"closure {name}"] = cell.cell_contents
    return state


def globals_of(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return a module's globals that are plain values or containers."""
    return {name: value for name, value in namespace.items() if _keepable(name, value)}


def _keepable(name: str, value: Any) -> bool:
    kinds = (bool, int, float, complex, str, type(None), list, dict, set, tuple, torch.Tensor)
    return not name.startswith("__") and isinstance(value, kinds)


def _with_gradients(call: Call, *, training: bool, given: bool) -> tuple[list[torch.Tensor], Call]:
    """Make float inputs require gradients. The arguments are copies of these leaves, unless these are `given`."""
    leaves: list[torch.Tensor] = []

    def prepared(tensor: torch.Tensor) -> torch.Tensor:
        if not training or not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor.detach().clone()
        leaves.append(tensor.detach().clone().requires_grad_())
        return leaves[-1] if given else leaves[-1].clone()

    args, kwargs = pytree.tree_map_only(torch.Tensor, prepared, call)
    return leaves, (tuple(args), kwargs)


def _seed(seed: int) -> None:
    runs.seed_torch(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


@contextlib.contextmanager
def hearing_all_logs() -> Iterator[None]:
    """Let log records of all levels through. Use this around many calls to avoid changing the level for each call."""
    root = logging.getLogger()
    level = root.level
    _set_level(root, logging.DEBUG)
    try:
        yield
    finally:
        _set_level(root, level)


def _set_level(logger: logging.Logger, level: int) -> None:
    if logger.level != level:
        logger.setLevel(level)


@contextlib.contextmanager
def _watching(effects: dict[str, Any]) -> Iterator[None]:
    """Record everything that is printed, logged and warned about, including repeated messages."""
    out, err = io.StringIO(), io.StringIO()
    records: list[tuple[str, str, str]] = []
    root, handler = logging.getLogger(), logging.Handler()
    # torch logs every step of a compilation.
    handler.addFilter(lambda record: not record.name.startswith("torch."))
    handler.emit = lambda record: records.append((record.name, record.levelname, _message(record)))  # type: ignore[method-assign]
    always = torch.is_warn_always_enabled()
    root.addHandler(handler)
    torch.set_warn_always(True)
    try:
        with (
            hearing_all_logs(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            yield
    finally:
        torch.set_warn_always(always)
        root.removeHandler(handler)
        effects["printed text"] = out.getvalue()
        effects["text on standard error"] = err.getvalue()
        effects["log records"] = records
        effects["warnings"] = [(item.category.__name__, ADDRESS.sub("0x", str(item.message))) for item in warned]


def _message(record: logging.LogRecord) -> str:
    try:
        return ADDRESS.sub("0x", record.getMessage())
    except Exception as error:  # noqa: BLE001 - like `logging` itself, which prints the error and continues
        return f"{record.msg} ({type(error).__name__})"


def tensors_in(value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in a result with the path to each, including those in objects that pytree does not handle."""
    seen: set[int] = set()

    def walk(where: str, item: Any, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
        if isinstance(item, torch.Tensor):
            yield where, item
            return
        if isinstance(item, PLAIN) or id(item) in seen or depth > DEEPEST:
            return
        seen.add(id(item))
        if isinstance(item, Mapping):
            children = [(f"{where}[{key!r}]", child) for key, child in item.items()]
        elif isinstance(item, list | tuple | set | frozenset):
            children = [(f"{where}[{position}]", child) for position, child in enumerate(item)]
        elif isinstance(item, nn.Module | type) or callable(item):
            return
        else:
            children = [(f"{where}.{name}", child) for name, child in getattr(item, "__dict__", {}).items()]
        for path, child in children:
            yield from walk(path, child, depth + 1)

    return walk("", value, 0)


def as_numbers(one: Any, other: Any) -> tuple[Any, Any]:
    """Return two values in a form to compare if a 0-dim tensor may take the place of a number, or of one inside."""
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        left, right = as_numbers([*one.values()], [*other.values()])
        return dict(zip(one, left, strict=True)), dict(zip(one, right, strict=True))
    if type(one) is type(other) and type(one) in (list, tuple) and len(one) == len(other):
        pairs = [as_numbers(*pair) for pair in zip(one, other, strict=True)]
        return type(one)(left for left, _ in pairs), type(one)(right for _, right in pairs)
    if not isinstance(other, torch.Tensor) or other.dim() or not isinstance(one, int | float):
        return one, other
    if other.is_floating_point():
        return torch.tensor(one, dtype=other.dtype, device=other.device), other
    return one, other.item()


def _loss(output: Any) -> torch.Tensor | None:
    """Return a sum with a different weight for each element, because errors can cancel out in a plain sum."""
    terms = []
    for _, tensor in tensors_in(output):
        if tensor.requires_grad:
            real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            weights = torch.cos(torch.arange(real.numel(), dtype=torch.float64) * 1.3 + 0.7)
            terms.append((real * weights.reshape(real.shape).to(real.device, real.dtype)).sum())
    return sum(terms[1:], terms[0]) if terms else None


def _aliases(output: Any, inputs: Any, state: Mapping[str, Any]) -> Iterator[str]:
    """Describe which output tensors share memory with inputs, state, or each other."""
    owners: dict[int, str] = {}
    kept = ((name, item) for name, item in state.items() if isinstance(item, torch.Tensor | dict | list | tuple))
    held = ((f" {name}{where}", tensor) for name, item in kept for where, tensor in tensors_in(item))
    for where, tensor in [*tensors_in(inputs), *held]:
        pointer = _memory(tensor)
        if pointer is not None:
            owners.setdefault(pointer, f"the input{where}" if not where.startswith(" ") else f"the attribute{where}")
    for where, tensor in tensors_in(output):
        pointer = _memory(tensor)
        if pointer in owners:
            yield f"output{where} shares memory with {owners[pointer]}"
        elif pointer is not None:
            owners[pointer] = f"output{where}"


def _memory(tensor: torch.Tensor) -> int | None:
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError):
        return None

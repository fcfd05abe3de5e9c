"""Calls to run, from the samples in torch's own tests and generated from the declared parameters."""

from __future__ import annotations

import itertools
import operator
import sys
import types
import unittest
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dynalint.analysis.torch_api import Overload, Parameter
from scripts.torch_api.calls import Call

_DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
_TYPE_OPTIONS = ("dtype", "device", "layout")
_MOST_OF_A_DTYPE = 40
_MOST_MADE_UP = 48
# Options that affect the result, but that torch does not always annotate as bool.
_TELLING = ("return_", "with_", "reduction")
_DEPRECATED = ("size_average", "reduce")


def _written_out() -> dict[Callable[..., Any], list[Call]]:
    """Return calls to use instead of torch's samples, for functions whose arguments need a special form."""
    square = [tensor for tensor in tensors() if tensor.shape == (3, 3)]
    labels = torch.tensor([0, 2, 1])
    query = torch.ones(2, 3, 4)
    return {
        torch.nn.functional.scaled_dot_product_attention: [
            Call((query, query, query)),
            Call((query, query, query), {"attn_mask": torch.ones(2, 3, 3)}),
            Call((query, query, query), {"is_causal": True}),
            Call((query, query, query), {"dropout_p": 0.5}),
        ],
        torch.einsum: [Call(("ij,jk->ik", one, one)) for one in square if one.dtype is not torch.bool],
        # The samples pass the default of -1, with which the number of classes is read from the data.
        torch.nn.functional.one_hot: [Call((labels,)), Call((labels, 3)), Call((labels,), {"num_classes": 3})],
    }


def _import_test_databases() -> tuple[Any, Any]:
    """Import torch's operator and module databases without a test package that they import but do not need."""
    if "expecttest" not in sys.modules:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    return op_db, module_db


class Samples:
    """The sample calls in torch's test suite, by function (its `id`), by Tensor method, and by module class."""

    def __init__(self) -> None:
        operators, self._modules = _import_test_databases()
        self.functions: dict[int, list[Call]] = defaultdict(list)
        self.methods: dict[str, list[Call]] = defaultdict(list)
        for info in operators:
            if not info.name.startswith("_refs."):
                self._file(info, list(_calls(info)))
        self._written_out = _written_out()
        for function, calls in self._written_out.items():
            self.functions[id(function)] = calls

    def are_written_out(self, function: Callable[..., Any]) -> bool:
        """Return whether only the calls listed here should be tried for a function."""
        return function in self._written_out

    def _file(self, info: Any, calls: list[Call]) -> None:
        receivers = [call for call in calls if isinstance(call.args[0], torch.Tensor)]
        for variant in (info, *info.aliases):
            if variant.op is not None:
                self.functions[id(variant.op)] += calls
            for method in (variant.method_variant, variant.inplace_variant):
                name = getattr(method, "__name__", "")
                if getattr(torch.Tensor, name, None) is method:
                    self.methods[name] += receivers
        for dunder in (info.operator_variant, info.inplace_operator_variant):
            name = f"__{getattr(dunder, '__name__', '').strip('_')}__"
            if dunder is not None and hasattr(operator, name) and hasattr(torch.Tensor, name):
                self.methods[name] += receivers

    def modules(self) -> Iterator[tuple[type, Any]]:
        """Yield each module class with sample arguments for its constructor and its `forward`."""
        for info in self._modules:
            for sample in info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
            ):
                yield info.module_cls, sample


def _calls(info: Any) -> Iterator[Call]:
    for dtype in _DTYPES:
        if dtype not in info.dtypes:
            continue
        torch.manual_seed(0)
        samples = info.sample_inputs("cpu", dtype, requires_grad=False)
        for sample in itertools.islice(samples, _MOST_OF_A_DTYPE):
            call = Call((sample.input, *sample.args), dict(sample.kwargs))
            yield call
            if "dtype" in call.kwargs:
                yield Call(call.args, {name: value for name, value in call.kwargs.items() if name not in _TYPE_OPTIONS})


def made_up(overload: Overload, tensor: torch.Tensor, *, is_method: bool) -> Iterator[Call]:
    """Yield calls that an overload's parameters allow, with `tensor` as the main argument or a method's receiver.

    Only required arguments are passed. Some of these calls may raise.
    """
    parameters = overload.parameters or ()
    needed = [parameter for parameter in parameters if not parameter.optional]
    if not needed and not overload.variadic:
        yield Call((tensor,) if is_method else ())
        needed = list(parameters[:1])
    columns = [_values(parameter, tensor) for parameter in needed]
    if overload.variadic is not None:
        columns.append([(), (0,), (1,), (0, 1), (-1,), (9,), (1, 9), (3, 3), (tensor, tensor)])
    for chosen in itertools.islice(itertools.product(*columns), _MOST_MADE_UP):
        pairs = list(zip(needed, chosen, strict=False))
        positional = [value for parameter, value in pairs if not parameter.keyword_only]
        keywords = {parameter.name: value for parameter, value in pairs if parameter.keyword_only}
        rest = chosen[-1] if overload.variadic is not None else ()
        yield Call((*([tensor] if is_method else ()), *positional, *rest), keywords)


def options(overload: Overload, call: Call, *, skip: bool) -> Iterator[Call]:
    """Yield `call` with both values for each of the overload's bool options, alone and in pairs.

    `skip` is true if the first argument is a method's receiver.
    """
    given = len(call.args) - skip
    slots = [parameter.name for parameter in overload.parameters or () if not parameter.keyword_only]
    free = [
        parameter.name
        for parameter in overload.parameters or ()
        if parameter.optional
        and (set(parameter.letters) & set("Btf") or parameter.name.startswith(_TELLING))
        and parameter.name not in (*slots[:given], *_DEPRECATED)
    ]
    required = [parameter for parameter in overload.parameters or () if not parameter.optional]
    if skip + len(required) < len(call.args) and not any(parameter.keyword_only for parameter in required):
        yield Call(call.args[: skip + len(required)])
    if not free:
        return
    without = {name: value for name, value in call.kwargs.items() if name not in free}
    yield Call(call.args, without)
    for name in free:
        for value in (True, False) if name != "reduction" else ("mean", "sum", "none"):
            yield Call(call.args, {**call.kwargs, name: value})
            yield Call(call.args, {**without, name: value})
    for pair in itertools.combinations(free[:4], 2):
        yield Call(call.args, {**call.kwargs, **dict.fromkeys(pair, True)})


def tensors() -> list[torch.Tensor]:
    """Return small tensors of every dtype class and with different ranks."""
    square = torch.arange(1.0, 10.0).reshape(3, 3) / 8
    return [
        square,
        (square * 8).long(),
        square > 0.5,
        torch.complex(square, square.T),
        torch.arange(1.0, 121.0).reshape(2, 3, 4, 5) / 128,
        torch.tensor([0.25, 0.5, 0.75]),
        torch.tensor(0.5),
        torch.tensor([2]),
    ]


def _values(parameter: Parameter, receiver: torch.Tensor) -> list[Any]:
    """Return values to try for a parameter, most likely values first."""
    if parameter.literals:
        return list(parameter.literals)
    values: list[Any] = []
    makers: dict[str, Callable[[], list[Any]]] = {
        "T": lambda: _tensor_values(receiver),
        "I": lambda: [1, 0, 2],
        "N": lambda: [2, 0.5],
        "B": lambda: [True],
        "t": lambda: [True],
        "f": lambda: [False],
        "L": lambda: [[0], [0, 1], [1, 0], [3, 3], [2, 2]],
        "S": lambda: ["mean", "sum", "none"] if parameter.name == "reduction" else [],
        "*": lambda: [*_tensor_values(receiver)[:1], 1, 0.5, [0, 1]],
        "D": lambda: [torch.float64],
        "V": lambda: [torch.device("cpu")],
        "O": list,
        "?": lambda: [None],
    }
    for letter in sorted(parameter.letters, key="TILNB*tfSDVO?".index):
        values += makers[letter]()
    return values


def _tensor_values(receiver: torch.Tensor) -> list[torch.Tensor]:
    index = torch.zeros_like(receiver, dtype=torch.int64)
    return [receiver.clone(), receiver > 0.5 if not receiver.is_complex() else receiver.real > 0.5, index,
            torch.tensor([0]), torch.tensor(2.0)]  # fmt: skip

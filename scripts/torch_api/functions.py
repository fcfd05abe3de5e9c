"""Derive the entries of torch's functions, and of the methods and attributes of `torch.Tensor`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from dynalint.analysis.torch_api import Flag, Overload
from dynalint.analysis.torch_kinds import NONE, TENSOR, ApiKind
from scripts.torch_api import declared, domain
from scripts.torch_api.calls import Call
from scripts.torch_api.combine import combine, refine
from scripts.torch_api.names import Names
from scripts.torch_api.observe import Seen, is_pointwise, observe
from scripts.torch_api.results import Objects, class_of, merge, settle
from scripts.torch_api.samples import Samples, made_up, options, tensors

# Modules whose functions only compute, so that calling them with generated arguments is harmless.
_COMPUTING = {"torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.signal.windows",
              "torch.nn.init", "torch.nn.utils.rnn", "torch.masked"}  # fmt: skip
_OPERATORS = {"torch.special": "special_", "torch.linalg": "linalg_", "torch.fft": "fft_"}
_QUERY = re.compile("^(is|has|get|current|device_count|mem_get_info|memory)_?|_(enabled|allowed|available|supported)$")
# Methods that cannot run here, each with an equivalent method.
_LIKE = dict.fromkeys(("cuda", "xpu", "ipu", "mtia", "pin_memory"), "cpu")
_PROBED = 3
_MADE_UP = 5
# `Tensor.index` is for first-class dimensions and loops forever for anything else. `lobpcg` is slow for unsuitable
# matrices. Addresses differ between runs unless memory is reused.
_NEVER_RUN = {"index", "lobpcg", "__hash__", "data_ptr", "const_data_ptr"}
_TAGS: dict[torch.Tag, Flag] = {
    torch.Tag.nondeterministic_seeded: "random",
    torch.Tag.data_dependent_output: "data_dependent",
    torch.Tag.dynamic_output_shape: "dynamic_shape",
}
# Attributes that every object has, which say nothing about tensors.
_OF_EVERY_OBJECT = set(dir(object)) - {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__",
                                       "__format__", "__repr__", "__str__"}  # fmt: skip


class Functions:
    """Derives the overloads of torch's functions and methods."""

    def __init__(self, names: Names, samples: Samples) -> None:
        self._names = names
        self._samples = samples
        self._objects = Objects(names.class_name)
        core = declared.Stub("_C/__init__.pyi")
        self._stubs = {
            "torch": [declared.Stub("_C/_VariableFunctions.pyi"), core],
            "torch._C": [core],
            "torch._C._nn": [declared.Stub("_C/_nn.pyi")],
            "torch.nn.functional": [declared.Stub("nn/functional.pyi")],
        }
        self._tensor_methods = core.methods("TensorBase")
        self._tensor_attributes = core.attributes("TensorBase")
        self._working: dict[int, Call] = {}

    def functions(self) -> dict[str, list[Overload]]:
        """Return the overloads of every function, by canonical name."""
        return {name: self._function(name, value) for name, value in sorted(self._names.functions.items())}

    def tensor_methods(self) -> dict[str, list[Overload]]:
        """Return the overloads of every `torch.Tensor` method, by unqualified name."""
        found = {}
        for name in sorted(dir(torch.Tensor)):
            value = getattr(torch.Tensor, name)
            private = name.startswith("_") and not name.startswith("__")
            if not callable(value) or private or name in _OF_EVERY_OBJECT or name.startswith("__torch"):
                continue
            overloads = self._tensor_methods.get(name) or declared.of_python(value, is_method=True)
            if not declared.knows(overloads):
                overloads = self._as_function(name, overloads)
            # In the stub, `Self` means a tensor. The calls show whether it is the receiver.
            overloads = tuple(replace(one, kind=TENSOR) if one.kind.name == "self" else one for one in overloads)
            calls = self._samples.methods.get(name, [])
            seen = [] if name in _NEVER_RUN else self._observed(value, overloads, calls, is_method=True)
            found[name] = self._with_domain(_in_place(name, combine(overloads, seen), is_method=True), value)
        for name, entry in found.items():
            base = found.get(_LIKE.get(name, name.removesuffix("_")), entry)
            if name in _LIKE:
                found[name] = base
            elif base is not entry:  # an in-place method computes the same as its base method
                flags = base[0].flags & {"partial_domain", "elementwise"}
                found[name] = [replace(one, flags=one.flags | flags) for one in entry]
        return found

    def _as_function(self, name: str, overloads: declared.Overloads) -> declared.Overloads:
        """Use what the function with the same name declares if a method has no annotations."""
        kinds = {one.kind for one in self._declared("torch", name, getattr(torch, name, None))}
        return tuple(replace(one, kind=next(iter(kinds))) for one in overloads) if len(kinds) == 1 else overloads

    def tensor_attributes(self) -> dict[str, ApiKind]:
        """Return the kind of every attribute of `torch.Tensor` that is not a method."""
        found = {}
        receivers = [Call((tensor,)) for tensor in tensors()]
        for name in sorted(dir(torch.Tensor)):
            if callable(getattr(torch.Tensor, name)) or name.startswith("_"):
                continue
            shown = [self._attribute(name, call) for call in receivers]
            kinds = [replace(one.kind, rank0=False) for one in shown if one is not None]
            stub = self._tensor_attributes.get(name, ApiKind("unknown"))
            found[name] = settle(refine(stub, merge(kinds))) if kinds else stub
        return found

    def examples(self) -> Iterator[tuple[str, Callable[..., Any], Call]]:
        """Yield a working call for each function and method that was run, and each query without arguments."""
        for name, value in self._names.functions.items():
            query = Call() if _QUERY.search(name.rpartition(".")[2]) else None
            call = self._working.get(id(value), query)
            if call is not None:
                yield name, value, call
        for name in dir(torch.Tensor):
            method = getattr(torch.Tensor, name)
            if id(method) in self._working:
                yield f"torch.Tensor.{name}", method, self._working[id(method)]

    def observed(self, function: Callable[..., Any], calls: Iterable[Call], *, is_method: bool) -> list[Seen]:
        """Run the calls, and leave out those that raise."""
        return [one for _, one in self._tried(function, calls, is_method)]

    def _attribute(self, name: str, call: Call) -> Seen | None:
        return observe(lambda tensor: getattr(tensor, name), call, self._objects, is_method=True)

    def _function(self, name: str, value: Any) -> list[Overload]:
        space, _, bare = name.rpartition(".")
        overloads = self._declared(space, bare, value)
        calls = self._samples.functions.get(id(value), [])
        if bare not in _NEVER_RUN and (calls or space in _COMPUTING):
            seen = self._observed(value, overloads, calls, is_method=False)
        else:
            seen = []
        if not seen and _QUERY.search(bare) and not declared.knows(overloads):
            seen = [one for one in self.observed(value, [Call()], is_method=False) if one.kind != NONE]
        if seen:
            return self._with_domain(_in_place(bare, combine(overloads, seen)), value)
        flags = _tagged(f"{_OPERATORS.get(space, '')}{bare}")
        return _in_place(bare, [replace(one, flags=flags) for one in combine(overloads, [])])

    def _declared(self, space: str, bare: str, value: Any) -> declared.Overloads:
        annotated = declared.of_python(value, is_method=False)
        if declared.knows(annotated):
            return annotated
        for stub in self._stubs.get(space, ()):
            if bare in stub.functions:
                kinds = {overload.kind for overload in stub.functions[bare]}
                if annotated and annotated[0].parameters and len(kinds) == 1:
                    return tuple(replace(one, kind=kinds.copy().pop()) for one in annotated)
                return stub.functions[bare]
        if space in _COMPUTING:
            return declared.of_schemas(f"aten::{_OPERATORS.get(space, '')}{bare}") or annotated
        return annotated

    def _observed(
        self,
        function: Callable[..., Any],
        overloads: Sequence[Overload],
        calls: Sequence[Call],
        *,
        is_method: bool,
    ) -> list[Seen]:
        """Run torch's samples, each option, and generated calls for overloads and dtype classes without samples."""
        pairs = list(self._tried(function, calls, is_method))
        for overload in overloads:
            pairs += self._made_up(function, overload, [one for _, one in pairs], is_method)
        self._working.update({id(function): call for call, _ in pairs[:1]})
        seen = [one for _, one in pairs]
        for overload in overloads:
            reaching = [(call, one) for call, one in pairs if overload.accepts(one.positional, one.keywords)]
            reaching.sort(key=lambda pair: (pair[1].rank or 0) < 2)  # for vectors, all reductions give scalars
            for call, _ in reaching[:_PROBED]:
                seen += self.observed(function, options(overload, call, skip=is_method), is_method=is_method)
        return seen

    def _made_up(
        self, function: Callable[..., Any], overload: Overload, seen: Sequence[Seen], is_method: bool
    ) -> Iterator[tuple[Call, Seen]]:
        """Run generated calls to an overload, with tensors of the dtype classes for which there is no call yet."""
        accepted = [one for one in seen if overload.accepts(one.positional, one.keywords)]
        telling = [one for one in accepted if "dtype" not in (*one.positional, *one.keywords.values())]
        classes = frozenset[str]().union(*(one.classes for one in telling))
        takes_tensors = any("T" in one.letters for one in overload.parameters or ())
        if self._samples.are_written_out(function) or (accepted and not any(one.classes for one in accepted)):
            return
        if is_method or ((takes_tensors or overload.kind == TENSOR) and _is_robust(function)):
            for tensor in tensors():
                if class_of(tensor.dtype) not in classes:
                    tried = self._tried(function, made_up(overload, tensor, is_method=is_method), is_method)
                    yield from itertools.islice(tried, _MADE_UP)

    def _tried(
        self, function: Callable[..., Any], calls: Iterable[Call], is_method: bool
    ) -> Iterator[tuple[Call, Seen]]:
        for call in calls:
            one = observe(function, call, self._objects, is_method=is_method)
            if one is not None:
                yield call, one

    @staticmethod
    def _with_domain(overloads: list[Overload], function: Callable[..., Any]) -> list[Overload]:
        tensors_only = all(one.kind.name in ("tensor", "self", "tuple") for one in overloads)
        if tensors_only and domain.is_partial(function):
            return [replace(one, flags=one.flags | {"partial_domain"}) for one in overloads]
        return overloads


def _tagged(operator: str) -> frozenset[Flag]:
    """Return the flags that the tags and schema of an operator give, if it cannot be run here."""
    packet = getattr(torch.ops.aten, operator, None)
    found: set[Flag] = set()
    for overload in (getattr(packet, name) for name in packet.overloads()) if packet is not None else ():
        found.update(flag for tag, flag in _TAGS.items() if tag in overload.tags)
    return frozenset(found)


def _in_place(name: str, overloads: list[Overload], *, is_method: bool = False) -> list[Overload]:
    """Add the flag that a trailing underscore in the name implies, if no call showed it."""
    if not name.endswith("_") or name.endswith("__"):
        return overloads
    found = []
    for one in overloads:
        first = next(iter(one.parameters or ()), None)
        returns_receiver = one.kind == TENSOR and (is_method or (first is not None and first.letters == "T"))
        found.append(
            replace(one, kind=ApiKind("self") if returns_receiver else one.kind, flags=one.flags | {"mutating"})
        )
    return found


def _is_robust(function: Callable[..., Any]) -> bool:
    """Return whether a function can safely be called with generated arguments.

    Functions without documentation are internal and can corrupt memory if the arguments make no sense. Pointwise
    functions and functions that are also tensor methods are exceptions.
    """
    name = getattr(function, "__name__", "")
    return bool(function.__doc__) or hasattr(torch.Tensor, name) or is_pointwise(name)

"""Derive the records of torch's classes: bases, results of calling an instance, methods and attributes."""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.distributions import Distribution, biject_to
from torch.nn import functional as F  # noqa: N812
from torch.nn.modules.lazy import LazyModuleMixin

from dynalint.analysis.torch_api import Overload
from dynalint.analysis.torch_kinds import NONE, UNKNOWN, ApiKind, parse_kind
from scripts.torch_api import declared
from scripts.torch_api.annotations import node_of, result_kind
from scripts.torch_api.calls import Call, hint_of
from scripts.torch_api.combine import combine, refine
from scripts.torch_api.functions import Functions
from scripts.torch_api.names import Names
from scripts.torch_api.observe import Seen
from scripts.torch_api.results import Objects, merge, settle
from scripts.torch_api.samples import Samples, options, tensors

_DUNDERS = {"__call__", "__len__", "__getitem__", "__iter__", "__contains__", "__enter__", "__next__"}
_INSTANCES = {torch.Size: "size", torch.device: "python:device", torch.dtype: "python:dtype", torch.SymInt: "dim",
              torch.layout: "python:layout", torch.memory_format: "python:memory_format"}  # fmt: skip
# Constructor arguments to try for modules that have no sample in torch's tests.
_CONSTRUCTORS: tuple[tuple[Any, ...], ...] = ((), (2,), (3,), (3, 3), (3, 3, 3), (5, 3))
_ARGUMENTS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "AdaptiveLogSoftmaxWithLoss": ((3, 5, [2]),),
    "Fold": (((4, 5), (2, 2)),),
    "FractionalMaxPool2d": ((2, (2, 2)),),
    "FractionalMaxPool3d": ((2, (2, 2, 2)),),
    "Softmax2d": ((),),
    "Unflatten": ((1, (2, 2)),),
    "Sequential": ((torch.nn.Linear(3, 3),),),
    "TransformerDecoder": ((torch.nn.TransformerDecoderLayer(4, 2), 1),),
}


@dataclass
class Record:
    """A class in the data file's format."""

    bases: list[str]
    instance: ApiKind | None = None
    methods: dict[str, list[Overload]] = field(default_factory=dict)
    attributes: dict[str, ApiKind] = field(default_factory=dict)


class Classes:
    """Derives the records of all classes."""

    def __init__(self, names: Names, samples: Samples, functions: Functions) -> None:
        self._names = names
        self._samples = samples
        self._functions = functions
        self._objects = Objects(names.class_name)
        self._stub = declared.Stub("_C/__init__.pyi")

    def records(self) -> dict[str, Record]:
        """Return the records of all classes, by canonical name."""
        found = {name: self._declared(cls) for name, cls in sorted(self._names.classes.items())}
        size = found["torch.Size"]
        size.methods = {name: [_of_shape(one) for one in overloads] for name, overloads in size.methods.items()}
        del found["torch.nn.Module"].methods["forward"]  # a placeholder that raises
        tensor = found["torch.Tensor"]
        tensor.methods = self._functions.tensor_methods()
        tensor.attributes = self._functions.tensor_attributes()
        self._run_module_methods(found["torch.nn.Module"])
        self._run_modules(found)
        self._run_distributions(found)
        return found

    def _declared(self, cls: type) -> Record:
        bases = [name for name in map(self._names.class_name, cls.__mro__[1:]) if name is not None]
        record = Record(bases, _instance(cls))
        of_c = cls.__module__ in ("torch", "torch._C")
        stub_methods = self._stub.methods(cls.__name__) if of_c else {}
        for name, value in sorted(vars(cls).items()):
            if name.startswith("_") and name not in _DUNDERS:
                continue
            if isinstance(value, property):
                record.attributes[name] = _declared_kind(value.fget)
            elif callable(value) or isinstance(value, (staticmethod, classmethod)):
                bound = not isinstance(value, (staticmethod, classmethod))
                overloads = stub_methods.get(name) or declared.of_python(getattr(cls, name), is_method=bound)
                record.methods[name] = combine(overloads, [])
        for name, annotation in vars(cls).get("__annotations__", {}).items():
            if not name.startswith("_") and name not in record.methods:
                record.attributes.setdefault(name, result_kind(node_of(annotation)))
        if of_c:
            for name, kind in self._stub.attributes(cls.__name__).items():
                record.attributes.setdefault(name, kind)
        return record

    def _run_module_methods(self, record: Record) -> None:
        """Call the methods of nn.Module that have no annotations and need no arguments."""
        module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        for name, overloads in record.methods.items():
            method = getattr(torch.nn.Module, name)
            vague = all(UNKNOWN in one.kind.walk() for one in overloads)
            if vague and any(one.accepts([], {}) for one in overloads):
                seen = self._functions.observed(method, [Call((module,))], is_method=True)
                record.methods[name] = combine(overloads, [replace(one, kind=_of_any_module(one.kind)) for one in seen])

    def _run_modules(self, records: dict[str, Record]) -> None:
        """Construct and call every module class to observe results and attributes."""
        seen: dict[type, list[tuple[Call, Seen]]] = defaultdict(list)
        attributes: dict[type, dict[str, list[ApiKind]]] = defaultdict(lambda: defaultdict(list))
        for cls, built, module, call in self._module_calls():
            for name, value in _attributes_of(module):
                attributes[cls][name].append(self._objects_kind(value))
            for one in self._functions.observed(module, _of_every_dtype(call), is_method=False):
                seen[cls].append((built, one))
        for cls, pairs in seen.items():
            record = records[self._names.by_id[id(cls)]]
            forward = declared.of_python(cls.forward, is_method=True)  # type: ignore[attr-defined]
            record.methods["forward"] = combine(forward, [one for _, one in pairs])
            constructor = declared.of_python(cls.__init__, is_method=True)  # type: ignore[misc]
            by_constructor = [
                replace(one, positional=tuple(map(hint_of, built.args)),
                        keywords={name: hint_of(value) for name, value in built.kwargs.items()})
                for built, one in pairs
            ]  # fmt: skip
            outcomes = combine([replace(one, kind=UNKNOWN) for one in constructor], by_constructor)
            if len(record.methods["forward"]) == 1 and len(outcomes) > 1:
                record.methods["forward"] = _by_default(outcomes, record.methods["forward"])
        for cls, kinds in attributes.items():
            self._add_attributes(records[self._names.by_id[id(cls)]], kinds)

    def _module_calls(self) -> Iterator[tuple[type, Call, Any, Call | None]]:
        sampled: set[type] = set()
        for cls, sample in self._samples.modules():
            if id(cls) not in self._names.by_id or cls.__name__ in _ARGUMENTS:
                continue
            built = Call(sample.constructor_input.args, sample.constructor_input.kwargs)
            forward = sample.forward_input
            call = Call(forward.args, forward.kwargs) if forward is not None else None
            yield from _constructed(cls, built, call, vary=cls not in sampled)
            sampled.add(cls)
        for _, cls in sorted(self._names.classes.items()):
            if (
                issubclass(cls, torch.nn.Module)
                and cls not in sampled
                and cls.__module__.startswith("torch.nn.modules")
            ):
                yield from self._tried(cls)

    def _tried(self, cls: type) -> Iterator[tuple[type, Call, Any, Call | None]]:
        """Yield the first ways to construct and call a module that work."""
        for arguments in _ARGUMENTS.get(cls.__name__, _CONSTRUCTORS):
            for call in _inputs():
                found = list(_constructed(cls, Call(arguments), call, vary=True))
                if found and self._functions.observed(found[0][2], [call], is_method=False):
                    yield from found
                    return

    def _run_distributions(self, records: dict[str, Record]) -> None:
        """Build and call every distribution without checking arguments, because Dynamo does not check them either."""
        Distribution.set_default_validate_args(False)
        for name, cls in sorted(self._names.classes.items()):
            instance = _distribution(cls) if issubclass(cls, Distribution) else None
            if instance is None:
                continue
            record = records[name]
            kinds: dict[str, list[ApiKind]] = defaultdict(list)
            for attribute, value in _attributes_of(instance):
                kinds[attribute].append(self._objects_kind(value))
            self._add_attributes(record, kinds)
            sample = instance.sample()
            for method, arguments in (("sample", ()), ("rsample", ()), ("sample", ([2],)), ("rsample", ([2],)),
                                      ("log_prob", (sample,)), ("cdf", (sample,)), ("icdf", (sample,)),
                                      ("entropy", ()), ("perplexity", ()), ("enumerate_support", ())):  # fmt: skip
                overloads = declared.of_python(getattr(cls, method), is_method=True)
                call = Call((instance, *arguments))
                seen = self._functions.observed(getattr(cls, method), [call], is_method=True)
                if seen:
                    record.methods[method] = combine(overloads, seen)

    def _objects_kind(self, value: Any) -> ApiKind:
        seen = self._functions.observed(lambda: value, [Call()], is_method=False)
        return _plain(seen[0].kind) if seen else UNKNOWN

    @staticmethod
    def _add_attributes(record: Record, kinds: dict[str, list[ApiKind]]) -> None:
        for name, found in sorted(kinds.items()):
            shown = settle(merge(found))
            if shown != NONE:  # only needed by some of the samples
                record.attributes[name] = refine(record.attributes.get(name, UNKNOWN), shown)


def _by_default(built: list[Overload], forward: list[Overload]) -> list[Overload]:
    """Return the results of calling an instance that was constructed with only its required arguments."""
    needed = [one for one in built[0].parameters or () if not one.optional and not one.keyword_only]
    default = [one for one in built if one.accepts(["unknown"] * len(needed), {})]
    if len(default) != 1:
        return forward
    return [replace(one, kind=default[0].kind, flags=default[0].flags) for one in forward]


def _instance(cls: type) -> ApiKind | None:
    if issubclass(cls, torch.Tensor) or "Tensor" in type(cls).__name__.replace("_TensorMeta", "Tensor"):
        return parse_kind("tensor")
    return parse_kind(_INSTANCES[cls]) if cls in _INSTANCES else None


def _declared_kind(function: Any) -> ApiKind:
    overloads = declared.of_python(function, is_method=True)
    return overloads[0].kind if overloads else UNKNOWN


def _attributes_of(instance: Any) -> Iterator[tuple[str, Any]]:
    """Yield an instance's public attributes, parameters and properties, each with its value."""
    own = dict(vars(instance))
    for registry in ("_parameters", "_buffers", "_modules"):
        own.update(own.get(registry, {}))
    for cls in type(instance).__mro__:
        own.update({name: None for name, value in vars(cls).items() if isinstance(value, property)})
    for name in sorted(own):
        if not name.startswith("_"):
            with contextlib.suppress(Exception):
                yield name, getattr(instance, name)


def _of_shape(overload: Overload) -> Overload:
    return replace(overload, kind=ApiKind("dim")) if overload.kind == ApiKind("python", type="int") else overload


def _of_any_module(kind: ApiKind) -> ApiKind:
    """Remove what is specific to a sample's modules and tensors."""
    if kind.name in ("module", "tensor"):
        return ApiKind(kind.name)
    if kind.name == "union":
        return merge(list(dict.fromkeys(map(_of_any_module, kind.items))))
    return replace(kind, items=tuple(map(_of_any_module, kind.items))) if kind.items else kind


def _plain(kind: ApiKind) -> ApiKind:
    """Remove the dtype, rank and number of items, which are specific to a sample."""
    if kind.name == "tensor":
        return ApiKind("tensor")
    if kind.name == "tuple" and not kind.fields and kind.items:
        return ApiKind("tuple", items=(merge(list(map(_plain, kind.items))),), variadic=True)
    return replace(kind, items=tuple(map(_plain, kind.items))) if kind.items else kind


def _constructed(
    cls: type, built: Call, call: Call | None, *, vary: bool
) -> Iterator[tuple[type, Call, Any, Call | None]]:
    """Yield an instance or, if `vary` is true, an instance for each combination of the constructor's bool options."""
    overloads = declared.of_python(cls.__init__, is_method=True)  # type: ignore[misc]
    variants = [option for overload in overloads for option in options(overload, built, skip=False)] if vary else []
    for arguments in [built, *variants]:
        with contextlib.suppress(Exception):
            torch.default_generator.manual_seed(0)
            module = cls(*arguments.args, **arguments.kwargs)
            if call is not None and isinstance(module, LazyModuleMixin):
                module(*call.args, **call.kwargs)
            yield cls, arguments, module, call


def _of_every_dtype(call: Call | None) -> Iterator[Call]:
    """Yield a call, and the same call with float tensors converted to ints, bools and complex numbers."""
    if call is None:
        return
    yield call
    for dtype in (torch.int64, torch.bool, torch.complex64):

        def turned(value: Any, dtype: torch.dtype = dtype) -> Any:
            return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        yield Call(tuple(map(turned, call.args)), {name: turned(value) for name, value in call.kwargs.items()})


def _inputs() -> list[Call]:
    """Return arguments for modules: images, sequences, vectors, indices, and pooled values with their indices."""
    image = torch.arange(1.0, 4 * 4 * 6 * 6 + 1).reshape(4, 4, 6, 6) / 600
    volume = torch.arange(1.0, 4 * 4 * 6**3 + 1).reshape(4, 4, 6, 6, 6) / 4000
    rows, labels = torch.ones(4, 3), torch.tensor([0, 1, 4, 2])
    single = [
        image,
        image[0],
        image[:, :3],
        image[0, 0],
        volume,
        *tensors(),
        torch.ones(4, 4, 12),
        torch.ones(2, 16, 12),
    ]
    pooled = [pool(one, 2, return_indices=True)
              for pool, one in ((F.max_pool1d, image[0]), (F.max_pool2d, image), (F.max_pool3d, volume))]  # fmt: skip
    pairs = [(one, one) for one in single]
    return [Call(one) for one in [*((one,) for one in single), (rows, labels), *pooled, *pairs]]


def _distribution(cls: type[Distribution]) -> Distribution | None:
    """Construct a distribution from values that satisfy its argument constraints."""
    try:
        constraints = dict(cls.arg_constraints)
    except (AttributeError, TypeError, NotImplementedError):
        return None
    for names in itertools.chain([tuple(constraints)], ((name,) for name in constraints)):
        for shape in ((2, 3), (2, 3, 3), (3,), ()):
            with contextlib.suppress(Exception):
                arguments = {name: biject_to(constraints[name])(torch.full(shape, 0.5)) for name in names}
                return cls(**arguments)
    return None

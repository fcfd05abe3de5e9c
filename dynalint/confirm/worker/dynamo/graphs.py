"""Record the graphs that Dynamo compiles for a callable, and the order in which a call runs them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import _dynamo as dynamo
from torch import nn
from torch._guards import CompileContext
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

from .graph_records import GraphFlow, GraphOperation, GraphRecord, GraphStep, Guards, Size
from .records import Run
from .runs import Call, Listener, Maker, compiled_run

_PLACE = re.compile(r'File "([^"]+)", line (\d+), in ')
# The kinds of guards that depend on inputs or state, and not only on the program.
_VARYING = (
    "EQUALS_MATCH",
    "CONSTANT_MATCH",
    "TENSOR_MATCH",
    "SHAPE_ENV",
    "SEQUENCE_LENGTH",
    "BOOL_MATCH",
    "NONE_MATCH",
)
_MOST_CONDITIONS = 200


def trace_flow(make: Maker, calls: Sequence[Call], files: Mapping[str, str], warm: range) -> tuple[Run, GraphFlow]:
    """Compile and run `calls`. The steps are recorded in the calls numbered `warm`, which must be identical.

    `files` maps the user's own files, as named in code objects, to the paths to report.
    """
    listener = GraphListener(frozenset(files), own=files)
    run = compiled_run(make, calls, listener)
    return run, listener.flow(warm)


@dataclass
class _Made:
    """A tensor that a step created, and the last step that used it."""

    step: int
    last: int
    bytes: int


@dataclass
class _Called:
    """A call to the callable: the graphs that it ran, and the tensors that they created."""

    ran: list[int] = field(default_factory=list)
    made: list[_Made] = field(default_factory=list)


@dataclass
class GraphListener(Listener):
    """Also records the graphs: their operators and guards, when they run, and which tensors they pass on."""

    own: Mapping[str, str] = field(default_factory=dict)
    found: list[GraphRecord] = field(default_factory=list)
    break_ids: list[str] = field(default_factory=list)
    called: list[_Called] = field(default_factory=list)
    _origin: Any = field(default_factory=WeakTensorKeyDictionary)
    _kept: set[int] = field(default_factory=set)

    def compile(self, function: Callable[..., Any], backend: Callable[..., Any], *, fullgraph: bool) -> Any:
        """Compile with `torch._dynamo.optimize`, which also reports guards."""
        owner = function if isinstance(function, nn.Module) else getattr(function, "__self__", None)
        if isinstance(owner, nn.Module):
            self._kept = {id(tensor) for tensor in (*owner.parameters(), *owner.buffers())}
        # dynalint: ignore[DYN011] -- the public function has no hook for guards
        optimize = dynamo.optimize(backend, nopython=fullgraph, guard_export_fn=self._note_guards)
        return partial(self._call, optimize(function))

    def note_graph(self, module: torch.fx.GraphModule) -> None:
        """Record a graph's operators and the lines that were traced for it."""
        super().note_graph(module)
        lines = {self.own[file]: tuple(sorted(_lines(spans))) for file, spans in self.attempt.items()}
        operations = tuple(_operations(module, self.own))
        nothing = Size()
        self.found.append(
            GraphRecord(_compile_id(), self.call, operations, lines, nothing, nothing, nothing, Guards({}, ()))
        )

    def note_break(
        self, error: BaseException | None, reason: str, stack: Any, effect: str = "split", positions: Any = None
    ) -> None:
        """Record which frame was being compiled."""
        super().note_break(error, reason, stack, effect, positions)
        self.break_ids.append(_compile_id())

    def runner(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs the latest graph."""
        return partial(self._run, len(self.found) - 1, run)

    def flow(self, warm: range) -> GraphFlow:
        """Return everything that was recorded, with the steps from the last call in `warm`."""
        called = [self.called[number] for number in warm if number < len(self.called)]
        steps = tuple(_steps(called[-1])) if called else ()
        return GraphFlow(tuple(self.found), tuple(self.break_ids), steps)

    def _note_guards(self, guards: Iterable[Any]) -> None:
        name = _compile_id()
        for number, graph in enumerate(self.found):
            if graph.compile_id == name:
                self.found[number] = replace(graph, guards=_guards(guards))

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._origin.clear()
        self.called.append(_Called())
        return function(*args, **kwargs)

    def _run(self, number: int, run: Callable[..., Any], *args: Any) -> Any:
        called = self.called[-1]
        step = len(called.ran)
        for tensor in _tensors(args):
            made = self._origin.get(tensor)
            if made is not None:
                made.last = step
        result = run(*args)
        for tensor in _tensors(result):
            made = _Made(step, step, _bytes(tensor))
            self._origin[tensor] = made
            called.made.append(made)
        if self.found[number].outputs == Size():
            self._measure(number, args, result)
        called.ran.append(number)
        return result

    def _measure(self, number: int, args: Any, result: Any) -> None:
        own = [tensor for tensor in _tensors(args) if self._is_kept(tensor)]
        given = [tensor for tensor in _tensors(args) if not self._is_kept(tensor)]
        self.found[number] = replace(
            self.found[number], parameters=_size(own), inputs=_size(given), outputs=_size(_tensors(result))
        )

    def _is_kept(self, tensor: torch.Tensor) -> bool:
        return isinstance(tensor, nn.Parameter) or id(tensor) in self._kept


def _compile_id() -> str:
    return str(CompileContext.current_compile_id()).strip("[]")


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _size(tensors: Sequence[torch.Tensor]) -> Size:
    return Size(len(tensors), sum(map(_bytes, tensors)))


def _lines(spans: Iterable[tuple[int, int, int, int]]) -> set[int]:
    return {line for span in spans for line in range(span[0], span[2] + 1)}


def _operations(module: torch.fx.GraphModule, own: Mapping[str, str]) -> Iterator[GraphOperation]:
    """Yield the operators in order. An operator that is repeated on the same line is counted with the first one."""
    counts: Counter[tuple[str, str | None, int]] = Counter()
    for node in module.graph.nodes:
        if node.op.startswith("call_"):
            file, line = _place(str(node.meta.get("stack_trace") or ""), own)
            counts[_name(module, node), file, line] += 1
    for (name, file, line), count in counts.items():
        yield GraphOperation(name, count, file, line)


def _name(module: torch.fx.GraphModule, node: torch.fx.Node) -> str:
    if node.op == "call_module":
        return type(module.get_submodule(str(node.target))).__name__
    if isinstance(node.target, str):
        return node.target
    return str(getattr(node.target, "__name__", node.target))


def _place(trace: str, own: Mapping[str, str]) -> tuple[str | None, int]:
    """Return the innermost line in the user's own code, based on a stack trace as Dynamo formats it."""
    for file, line in reversed(_PLACE.findall(trace)):
        if file in own:
            return own[file], int(line)
    return None, 0


def _guards(guards: Iterable[Any]) -> Guards:
    kinds: Counter[str] = Counter()
    conditions: dict[str, None] = {}
    for guard in guards:
        kind = guard.create_fn_name()
        kinds[kind] += 1
        if kind in _VARYING and "_parameters[" not in guard.name and "_buffers[" not in guard.name:
            conditions.update(dict.fromkeys(_conditions(kind, guard)))
    return Guards(dict(sorted(kinds.items())), tuple(conditions)[:_MOST_CONDITIONS])


def _conditions(kind: str, guard: Any) -> Iterator[str]:
    if kind == "TENSOR_MATCH":
        # Its code consists of checks that almost no tensor fails.
        yield f"{guard.name}: dtype, device, shape, strides and requires_grad"
    else:
        yield from (code for code in map(str, guard.code_list or ()) if not code.startswith("___check"))


def _steps(called: _Called) -> Iterator[GraphStep]:
    for number, graph in enumerate(called.ran):
        crossing = [made.bytes for made in called.made if made.step <= number < made.last]
        yield GraphStep(graph, Size(len(crossing), sum(crossing)))

"""The state of an abstract run of a function, including its environment, its position and what it has observed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from dynalint.analysis.events import Event, Position
from dynalint.analysis.index import ClassInfo, FunctionInfo, Import, ModuleInfo
from dynalint.analysis.kinds import NOTHING, TENSOR, UNKNOWN, Instance, Kind, Partial, Unknown, join, tensor_and_number
from dynalint.analysis.steps import Budget, step

if TYPE_CHECKING:
    from dynalint.analysis.definitions import Definitions
    from dynalint.analysis.hierarchy import Reached
    from dynalint.analysis.project import Project
    from dynalint.analysis.steps import Budgets

Environment = dict[str, Kind]

# Joining this many names takes as long as evaluating one expression.
_MANY = 16
# The maximum number of times a context with up to ten parameters is run. The lattice of kinds is far lower than this,
# but the kind of each parameter grows by itself, so more parameters may need more runs. If a context has not settled by
# then, it is reported.
_MOST_RUNS = 100


@cache
def _position(loop: bool, try_: bool, with_: bool) -> Position:
    return Position(loop=loop, try_=try_, with_=with_)


def is_fact(name: str) -> bool:
    """Return whether a name in an environment stands for a fact (see `dynalint.analysis.facts`), not for a variable."""
    return name.endswith(")")


def join_environments(left: Environment, right: Environment) -> Environment:
    """Return the environment where two paths meet.

    A local variable that is bound on only one path keeps that path's kind, because reading it on the other path would
    raise. An attribute of `self` that is set on only one path is dropped, because on the other path, it still has its
    value from before the call. A fact that holds on only one path is dropped too.
    """
    if left is right:
        return left
    step(len(left) // _MANY)
    joined: Environment = {}
    for name, kind in left.items():
        other = right.get(name)
        if other is not None:
            joined[name] = kind if kind is other else join(kind, other)
        elif "." not in name and not is_fact(name):
            joined[name] = kind
    for name, kind in right.items():
        if name not in left and "." not in name and not is_fact(name):
            joined[name] = kind
    return joined


@dataclass(eq=False, slots=True)
class Context:
    """A function with one combination of argument kinds, and a summary of its runs.

    `params` are the arguments' kinds and `returns` is the result's kind. `exits` are the attributes of `self` at the
    end of the call, except those in `handed`, which hold a parameter. `callees` are the contexts that this one calls,
    each with a flag that is true if a call is in a loop. They are the edges of the call graph. `users` are the contexts
    to rerun when `returns` changes, each with a flag that is true if it must also be rerun when `exits` changes.
    `reads` holds the class attributes as the last run saw them. `outdated` is true if anything else that this context
    depends on has changed. `yields` is true for a generator. `crowded` names the parameters for which callers pass more
    kinds than one context can distinguish. Evidence from one caller about these parameters does not apply to other
    callers. `absorbed` holds the arguments that have been joined into `params`, each with its parameter. If the
    analysis is that of a single call, `firm_events` are the keys of the events that no run with these arguments can
    avoid, and `firm_calls` are the calls that it cannot avoid, each with its line.
    """

    function: FunctionInfo
    params: Environment
    key: tuple[Any, ...] | None = None
    returns: Kind = NOTHING
    exits: Environment = field(default_factory=dict)
    handed: dict[str, str] = field(default_factory=dict)
    events: dict[tuple[Any, ...], Event] = field(default_factory=dict)
    callees: dict[Context, bool] = field(default_factory=dict)
    users: dict[Context, bool] = field(default_factory=dict)
    reads: dict[tuple[ClassInfo, str], Kind] = field(default_factory=dict)
    crowded: dict[str, None] = field(default_factory=dict)
    absorbed: set[tuple[str, Kind]] = field(default_factory=set)
    yields: bool = False
    firm_events: dict[tuple[Any, ...], None] = field(default_factory=dict)
    firm_calls: dict[Context, int] = field(default_factory=dict)
    runs: int = 0
    running: bool = False
    queued: bool = False
    outdated: bool = False

    @property
    def is_at_limit(self) -> bool:
        """Whether the context is not run any more, even if what it depends on changes."""
        return self.runs >= _MOST_RUNS * max(10, len(self.params)) // 10

    def forget_run(self) -> None:
        """Drop what the last run has recorded, before the next one."""
        self.events, self.callees, self.firm_events, self.firm_calls = {}, {}, {}, {}

    def agrees(self, params: Environment) -> bool:
        """Return whether no parameter is a tensor here and a number in `params`, or vice versa.

        A context without a caller represents calls from outside. It does not agree with a call whose `self` is known
        more precisely.
        """
        own = self.params
        if not self.users and any(is_fact(name) and name not in own for name in params):
            return False
        pairs = ((kind, own.get(name, NOTHING)) for name, kind in params.items())
        return not any(kind is not known and tensor_and_number(kind, known) for kind, known in pairs)


@dataclass(eq=False, slots=True)
class Frame:
    """A run of a context, or of an expression at a module's top level, in which case `context` is None.

    `env` maps local names to kinds, and "self.name" for attributes that this call has set. It is replaced at branches.
    `loop`, `try_` and `with_` count the enclosing statements of each type, and `walrus` counts the names that `:=` has
    bound so far. `calling` is the last call whose callee has been evaluated. `facts` holds the keys of all facts
    recorded in this run, even if they no longer hold, and `facts_of_self` the keys of facts about attributes.
    `condition` is the expression in the current statement that determines whether the current expression is evaluated.
    `certain` is true if every run with these arguments reaches the current statement. Each evaluated expression takes a
    step from `budget`.
    """

    interpreter: Engine
    module: ModuleInfo
    function: FunctionInfo | None = None
    context: Context | None = None
    env: Environment = field(default_factory=dict)
    receiver: Kind = UNKNOWN
    self_name: str | None = None
    statement: ast.stmt | None = None
    loop: int = 0
    try_: int = 0
    with_: int = 0
    returns: Kind = NOTHING
    yields: Kind = NOTHING
    exits: list[Environment] = field(default_factory=list)
    breaks: list[list[Environment]] = field(default_factory=list)
    continues: list[list[Environment]] = field(default_factory=list)
    globals: dict[str, str] = field(default_factory=dict)
    record: dict[ast.AST, Kind] | None = None
    facts: set[str] = field(default_factory=set)
    facts_of_self: set[str] = field(default_factory=set)
    walrus: int = 0
    calling: ast.Call | None = None
    condition: ast.expr | None = None
    certain: bool = True
    budget: Budget = field(init=False)

    def __post_init__(self) -> None:
        self.budget = self.interpreter.budgets.of(self.module.file)
        if self.context is not None:
            for name in filter(is_fact, self.context.params):
                self.note_fact(name)

    def note_fact(self, name: str) -> None:
        """Record that this fact has been in the environment."""
        self.facts.add(name)
        if "." in name:
            self.facts_of_self.add(name)

    def emit(self, event_type: type[Event], node: ast.AST, *, extra: object = None, **fields: Any) -> None:
        """Record an event. If a node is evaluated more than once in this run, the last event is kept."""
        if self.context is None or self.function is None or self.statement is None:
            return
        position = _position(self.loop > 0, self.try_ > 0, self.with_ > 0)
        event = event_type(
            node=node,  # type: ignore[arg-type]
            statement=self.statement,
            function=self.function,
            position=position,
            condition=self.condition,
            **fields,
        )
        key = event_type, node, extra
        self.context.events[key] = event
        if self.certain and self.interpreter.exact:
            self.context.firm_events[key] = None

    def note_callee(self, callee: Context) -> None:
        """Record a call of this context to another."""
        if self.context is None:
            return
        self.context.callees[callee] = self.loop > 0 or self.context.callees.get(callee, False)
        if not self.interpreter.exact or not self.certain or self.condition is not None or self.statement is None:
            return
        if self.interpreter.runs(callee.function):
            self.context.firm_calls.setdefault(callee, self.statement.lineno)

    @property
    def departures(self) -> int:
        """The number of times that control has left the current block: by `return`, `break` or `continue`."""
        return len(self.exits) + sum(map(len, self.breaks)) + sum(map(len, self.continues))

    def note_tensor(self, node: ast.expr, kind: Kind) -> None:
        """Record that `node` is used in a way that only tensors support.

        From then on, an unknown parameter counts as a tensor.
        """
        if isinstance(kind, Unknown) and kind.parameter is not None and self.function is not None:
            self.interpreter.evidence.note(self.function, kind.parameter)
            if isinstance(node, ast.Name) and self.env.get(node.id) == kind:
                self.env[node.id] = self.interpreter.evidence.kind(self.function, kind.parameter)

    def shown(self, kind: Kind) -> Kind:
        """Return the kind of an element of a parameter, which is a tensor if such an element is used as one."""
        if not isinstance(kind, Unknown) or not kind.is_element or self.function is None:
            return kind
        known = self.interpreter.evidence.of(self.function)
        return TENSOR if kind.parameter in known else kind

    def self_attribute(self, node: ast.expr) -> str | None:
        """Return the attribute's name if `node` is `self.name`, where `self` is this method's own."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self.self_name:
            return node.attr
        return None


class ScopesOfProject(Protocol):
    """The interface of `dynalint.analysis.scopes.Scopes`."""

    def capture(self, function: FunctionInfo, env: Environment, context: Context | None) -> None: ...
    def lookup(self, frame: Frame, name: str) -> Kind: ...
    def global_kind(self, module: ModuleInfo, name: str) -> Kind: ...
    def imported(self, target: Import) -> Kind: ...
    def definition(self, module: ModuleInfo, name: str) -> tuple[list[ast.expr], ModuleInfo] | None: ...
    def written_globals(self, module: ModuleInfo) -> frozenset[str]: ...
    def filled(self, kind: Kind, place: ModuleInfo | ClassInfo, name: str) -> Kind: ...
    def in_scope(self, node: ast.expr, module: ModuleInfo, parent: FunctionInfo | None) -> Kind: ...


class HeirsOfClasses(Protocol):
    """The interface of `dynalint.analysis.heirs.Heirs`."""

    def methods(self, frame: Frame, instance: Instance, name: str) -> Reached: ...
    def read(self, cls: ClassInfo, name: str, frame: Frame) -> Kind: ...
    def note_reader(self, cls: ClassInfo, name: str, context: Context | None) -> None: ...
    def note_stored(self, cls: ClassInfo, name: str, kind: Kind) -> None: ...
    def note_new(self, above: Iterable[ClassInfo]) -> None: ...


class AttributesOfClasses(Protocol):
    """The interface of `dynalint.analysis.attributes.Attributes`."""

    def initialise(self, cls: ClassInfo) -> None: ...
    def read(self, cls: ClassInfo, name: str, frame: Frame) -> Kind: ...
    def run_writers(self, cls: ClassInfo, name: str) -> None: ...
    def store(self, cls: ClassInfo, name: str, kind: Kind, frame: Frame) -> None: ...


class EvidenceOfTensors(Protocol):
    """The interface of `dynalint.analysis.tensor_evidence.TensorEvidence`."""

    def note(self, function: FunctionInfo, parameter: str) -> None: ...
    def kind(self, function: FunctionInfo, parameter: str) -> Kind: ...
    def of(self, function: FunctionInfo) -> Collection[str]: ...
    def note_sparse(self, function: FunctionInfo, parameter: str) -> None: ...
    def sparse(self, function: FunctionInfo) -> frozenset[str]: ...


class CallsOfPackages(Protocol):
    """The interface of `dynalint.analysis.installed.Installed`."""

    def result(
        self, function: FunctionInfo, callee: str, maker: Partial | None, call: Partial, *, starred: bool
    ) -> Kind: ...


class Engine(Protocol):
    """The interface of the interpreter, for the modules that it uses. They cannot import it without a circle."""

    exact: bool
    project: Project
    budgets: Budgets
    definitions: Definitions
    contexts: dict[FunctionInfo, list[Context]]
    compiled: dict[Kind, None]
    unpacked: set[ast.expr]
    forwards: dict[FunctionInfo, str]
    scripts: set[FunctionInfo | None]
    hooked: set[tuple[ClassInfo, str]]
    hooks: dict[tuple[ClassInfo, str], dict[tuple[str, Kind], None]]
    annotations: dict[ast.expr | ast.arg, Kind]
    outside_names: dict[tuple[ClassInfo, str], str]
    effects: dict[tuple[object, ...], None] | None
    changes: int
    installed: CallsOfPackages | None

    @property
    def watched(self) -> Callable[[str], str | None]: ...
    @property
    def scopes(self) -> ScopesOfProject: ...
    @property
    def heirs(self) -> HeirsOfClasses: ...
    @property
    def attributes(self) -> AttributesOfClasses: ...
    @property
    def evidence(self) -> EvidenceOfTensors: ...
    def runs(self, function: FunctionInfo) -> bool: ...
    def note_effect(self, *effect: object) -> None: ...
    def note_mask(self, module: ModuleInfo, keyword: str) -> None: ...
    def default_context(self, function: FunctionInfo) -> Context: ...
    def method_receiver(self, function: FunctionInfo) -> Kind | None: ...
    def context_for(self, function: FunctionInfo, params: Environment) -> Context: ...
    def enqueue(self, context: Context) -> None: ...

"""The abstract interpretation of a whole project: contexts, summaries, and the fixpoint over them.

Functions are interpreted from the compiled roots inwards, callee before caller's end. Small helpers are interpreted
once for each combination of argument kinds, larger functions once for the join of all that their callers pass. What a
function returns and what a class holds are summaries; when one grows, whoever read it is interpreted again, so that
the kinds climb a lattice of bounded height until nothing changes (P. Cousot and R. Cousot, "Abstract interpretation",
POPL 1977).

That this ends rests on what is kept from one run to the next: parameters (`passing.widen`), what a function returns and
leaves behind (from its third run on), attributes (`passing.either_store`), and variables of outer functions
(`Scopes`). Each is joined with what it was, so it only climbs, whatever a run comes to; names, types, classes and
functions are those of the program, and `kinds.shallow` and `kinds.MOST_PARTS` bound what is made of them.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dynalint.analysis import calls, expressions, steps, subscripts  # noqa: F401 - they register what they evaluate
from dynalint.analysis import kinds as k
from dynalint.analysis.documented import documented
from dynalint.analysis.frame import Context, Environment, Frame
from dynalint.analysis.heirs import Heirs
from dynalint.analysis.index import ClassInfo, FunctionInfo, ModuleInfo
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, Unknown, join
from dynalint.analysis.passing import either_caller, either_store, widen
from dynalint.analysis.project import Project
from dynalint.analysis.public import is_public
from dynalint.analysis.scopes import Scopes
from dynalint.analysis.signatures import bind_defaults, has_decorator, is_small, parameter_default
from dynalint.analysis.sparse import as_sparse
from dynalint.analysis.statements import run_block
from dynalint.analysis.steps import Budgets, Exhausted, spent_now

# How many combinations of argument kinds a small function is interpreted for; the rest share one context.
_MOST_CONTEXTS = 6
# How often a context is interpreted: the lattice of kinds ends long before, and it is said of what does not settle.
_MOST_RUNS = 100
# After so many runs, what a function returns is joined with what it was: the first have not seen all that it is given.
_RUNS_AFRESH = 2
# After so many runs, a context that is called with more waits for the callers that are still to come.
_RUNS_AT_ONCE = 2
# How many calls are followed into each other before the rest is put off.
_DEEPEST_CALL = 40


@dataclass(frozen=True, slots=True)
class Failure:
    """dynalint itself failed on a function: the file, the function and the fault, for one clear line."""

    path: Path
    function: str
    fault: str


class Interpreter:
    """Computes kinds and events for a project. `watched` tells which calls are worth an event."""

    def __init__(self, project: Project, watched: Callable[[str], str | None]) -> None:
        self.project = project
        self.watched = cache(watched)
        self.failures: list[Failure] = []
        self.budgets = Budgets(steps.MOST_STEPS)
        self.compiled: dict[Kind, None] = {}
        self.forwards: dict[FunctionInfo, None] = {}
        self.scripts: set[FunctionInfo | None] = set()
        self.hooked: set[tuple[ClassInfo, str]] = set()
        self.hooks: dict[tuple[ClassInfo, str], dict[tuple[str, Kind], None]] = {}
        self.contexts: dict[FunctionInfo, list[Context]] = {}
        self._evidence: dict[FunctionInfo, set[str]] = {}
        self._sparse: dict[FunctionInfo, frozenset[str]] = {}
        self._masks: dict[ModuleInfo, set[str]] = {}
        self._queue: deque[Context] = deque()
        self._later: dict[FunctionInfo, None] = {}
        self._initialised: set[ClassInfo] = set()
        self._readers: dict[tuple[ClassInfo, str], dict[Context, None]] = {}
        self.annotations: dict[ast.expr, Kind] = {}
        self.outside_names: dict[tuple[ClassInfo, str], str] = {}
        self._reader_lists: dict[tuple[ClassInfo, str], list[dict[Context, None]]] = {}
        self.scopes = Scopes(self)
        self.heirs = Heirs(self)
        self._functions: dict[ast.AST, FunctionInfo] = {}
        self._receivers: dict[FunctionInfo, Kind] = {}
        self._classes: dict[ast.AST, ClassInfo] = {}
        self._indexed: set[ModuleInfo] = set()
        self._entered: set[FunctionInfo] = set()
        self._depth = 0
        project.interpreter = self

    # Running.

    def run(self, functions: Iterable[FunctionInfo]) -> None:
        """Interpret `functions` and everything they call until nothing changes."""
        entered = list(functions)
        self._entered.update(entered)
        for function in entered:
            if function.parent is not None and function.parent not in self.contexts:
                self.default_context(function.parent)  # for the variables that the function closes over
            self.call_from_outside(function, self.method_receiver(function))
        while self._later or self._queue:
            while self._later:
                function = next(iter(self._later))
                del self._later[function]
                if function not in self.contexts:
                    self.default_context(function)
            self.settle()

    def pass_masks(self) -> None:
        """Give the modules that are called without being known the masks that they are given by keyword."""
        for function, contexts in list(self.contexts.items()):
            names = self._masks.get(function.module, set()) if function.name == "forward" else set()
            for context in contexts:
                for name in sorted(names & context.params.keys()):
                    tensor = k.only_tensor(context.params[name])
                    if tensor == k.TENSOR:
                        optional = k.NONE in context.params[name].members
                        context.params[name] = join(k.BOOL_TENSOR, k.NONE) if optional else k.BOOL_TENSOR
                        context.outdated = True
                        self.enqueue(context)
        self.run(())

    def note_mask(self, module: ModuleInfo, keyword: str) -> None:
        """Take note that code of a module gives a mask, under this keyword, to something unknown."""
        self._masks.setdefault(module, set()).add(keyword)

    def run_scripts(self, functions: Collection[FunctionInfo]) -> None:
        """Interpret functions that run in eager code and call what is compiled."""
        self.scripts.update(functions)
        self.run(functions)

    def call_from_outside(self, function: FunctionInfo, receiver: Kind | None) -> None:
        """Interpret a function as called on `receiver` by code that is not there to see."""
        self.context_for(function, bind_defaults(self, function, receiver))

    def settle(self) -> None:
        """Interpret again what is waiting for it, where what it has seen is not so any more."""
        while self._queue:
            context = self._queue.popleft()
            context.queued = False
            if context.outdated or any(
                self._attribute(cls, name) != seen for (cls, name), seen in context.reads.items()
            ):
                self.interpret(context)

    def note_unsettled(self) -> None:
        """Take note of the functions that were not followed to the end: what they were called with last is not seen."""
        for function, contexts in self.contexts.items():
            if any(context.outdated and context.runs >= _MOST_RUNS for context in contexts):
                text = f"it was called in new ways still after {_MOST_RUNS} runs"
                self.failures.append(Failure(function.file.path, function.qualname, text))

    def default_context(self, function: FunctionInfo) -> Context:
        """Interpret a function as called by code that is not there to see: parameters by annotation and default."""
        known = self.contexts.get(function)
        if known:
            return known[0]
        receiver = self.method_receiver(function)
        params = bind_defaults(self, function, receiver)
        return self._context(function, params, None)

    def method_receiver(self, function: FunctionInfo) -> Kind | None:
        """What `self` (or `cls`) is in a method; None for a plain function or static method."""
        if function.owner is None:
            return None
        known = self._receivers.get(function)
        if known is None and not has_decorator(function, "staticmethod"):
            is_of_class = has_decorator(function, "classmethod")
            made = function.name == "__init__"
            known = k.Class(function.owner) if is_of_class else k.Instance(function.owner, made)
            self._receivers[function] = known
        return known

    def _context(self, function: FunctionInfo, params: Environment, key: tuple[object, ...] | None) -> Context:
        context = Context(function, params, key)
        self.contexts.setdefault(function, []).append(context)
        self.interpret(context)
        return context

    def context_for(self, function: FunctionInfo, params: Environment) -> Context:
        """Return the context of a call with these parameter kinds, interpreted if it is new or has grown."""
        own = self.contexts.setdefault(function, [])
        if is_small(function) and len(own) < _MOST_CONTEXTS:
            if function not in self._entered:  # what is gets a context of its own
                params = self._and_from_outside(function, params)
            key = tuple(sorted(params.items(), key=lambda item: item[0]))
            for context in own:
                if context.key == key:
                    return context
            return self._context(function, params, key)
        joined = [context for context in own if context.key is None]
        shared = next((context for context in joined if context.agrees(params)), None)
        if shared is None:
            return self._context(function, self._and_from_outside(function, params), None)
        if widen(shared, params):
            self._rerun(shared)
        return shared

    def _rerun(self, context: Context) -> None:
        """Interpret a context that is called with more: at once, or when all who wait to be interpreted have called."""
        if context.runs < _RUNS_AT_ONCE:
            self.interpret(context)
        else:
            context.outdated = True
            self.enqueue(context)

    def _is_open(self, function: FunctionInfo) -> bool:
        """Whether code that is not there to see calls a function, too: a root, or what builds a public class."""
        return function in self._entered or (function.name == "__init__" and is_public(function))

    def _and_from_outside(self, function: FunctionInfo, params: Environment) -> Environment:
        """Return parameters joined with those of a call from outside, if one is to come: one run does for both."""
        if not self._is_open(function):
            return params
        receiver = next(iter(params.values())) if self.method_receiver(function) is not None else None
        outside = bind_defaults(self, function, receiver)
        both = Context(function, dict(params))
        if both.agrees(outside):
            widen(both, outside)
        return both.params

    def interpret(self, context: Context) -> None:
        """Run a context once and pass on what changed; too deep or too often, it is put off or left as it is."""
        if context.running or context.runs >= _MOST_RUNS:
            context.outdated = True  # it has called itself with something more, or is not followed to the end
            return
        if self.budgets.of(context.function.file).exhausted:
            if not context.runs:
                context.returns = UNKNOWN
                self.budgets.leave_out(context.function)
            return  # what an earlier run has come to is the best that is known
        if self._depth >= _DEEPEST_CALL:
            context.outdated = True
            self.enqueue(context)
            return
        context.running = True
        context.outdated = False
        context.reads = {}
        context.runs += 1
        self._depth += 1
        try:
            with self.budgets.of(context.function.file).spending():
                self._interpret(context)
        except Exhausted:
            context.returns = UNKNOWN
            context.events = {}
            self.budgets.leave_out(context.function)
        except Exception as fault:  # noqa: BLE001 - a function that dynalint cannot cope with must not cost the rest
            context.returns = UNKNOWN
            deep = isinstance(fault, RecursionError)
            said = "it is nested too deeply" if deep else f"{type(fault).__name__}: {fault}"
            failure = Failure(context.function.file.path, context.function.qualname, said)
            if failure not in self.failures:
                self.failures.append(failure)
        finally:
            self._depth -= 1
            context.running = False
            if context.outdated:
                self.enqueue(context)

    def _interpret(self, context: Context) -> None:
        function = context.function
        evidence = self._told_by_body(function)
        frame = self._frame(context)
        context.events = {}
        context.callees = {}
        self._run_body(frame)
        if self._told_by_body(function) > evidence:
            frame = self._frame(context)
            context.events = {}
            context.callees = {}
            self._run_body(frame)
        returns = frame.returns
        if frame.yields is not NOTHING:
            context.yields = True
            returns = k.Sequence("generator", frame.yields)
        returns, exits, handed = k.shallow(returns), *_exits(frame)
        if context.runs > _RUNS_AFRESH and context.returns is not NOTHING:
            returns = join(context.returns, returns)
            exits = {name: join(context.exits[name], kind) for name, kind in exits.items() if name in context.exits}
            handed = dict(handed.items() & context.handed.items())
        others, own = returns != context.returns, exits != context.exits or handed != context.handed
        context.returns, context.exits, context.handed = returns, exits, handed
        for user, reads_exits in list(context.users.items()) if others or own else ():
            if others or reads_exits:
                user.outdated = True
                self.enqueue(user)

    def _run_body(self, frame: Frame) -> None:
        assert frame.function is not None
        falls_through = run_block(frame, frame.function.statements)
        if falls_through:
            frame.exits.append(frame.env)
            if not isinstance(frame.function.node, ast.Lambda):
                frame.returns = join(frame.returns, k.NONE)
        self.scopes.capture(frame.function, frame.env, frame.context)

    def _frame(self, context: Context) -> Frame:
        function = context.function
        frame = Frame(self, function.module, function, context)
        for name, kind in context.params.items():
            known = isinstance(kind, Unknown) and name in self._evidence.get(function, ())
            frame.env[name] = self.evidence_kind(function, name) if known else kind
        for name in self.sparse_parameters(function) & frame.env.keys():
            frame.env[name] = as_sparse(frame.env[name])
        receiver = self.method_receiver(function)
        if receiver is not None:
            arguments = [*function.node.args.posonlyargs, *function.node.args.args]
            frame.self_name = arguments[0].arg if arguments else None
            frame.receiver = receiver
            if frame.self_name is not None and frame.env[frame.self_name] == UNKNOWN:
                frame.env[frame.self_name] = receiver  # called on what nothing is known of
        return frame

    def enqueue(self, context: Context) -> None:
        """Have a context interpreted again."""
        if not context.queued and not context.running and context.runs < _MOST_RUNS:
            context.queued = True
            self._queue.append(context)

    # What the body tells of a parameter.

    def note_evidence(self, function: FunctionInfo, parameter: str) -> None:
        """Take note that `function` uses `parameter` as only a tensor can be used."""
        self._evidence.setdefault(function, set()).add(parameter)

    def evidence_kind(self, function: FunctionInfo, parameter: str) -> Kind:
        """The kind of a parameter that is used as a tensor: a tensor, or None where that is its default."""
        default = parameter_default(function, parameter)
        optional = isinstance(default, ast.Constant) and default.value is None
        return join(k.TENSOR, k.NONE) if optional else k.TENSOR

    def evidence_of(self, function: FunctionInfo) -> Collection[str]:
        """The parameters that `function` was seen to use as a tensor."""
        return self._evidence.get(function, ())

    def note_sparse(self, function: FunctionInfo, parameter: str) -> None:
        """Take note that `function` uses `parameter` as only a sparse tensor can be used."""
        self._sparse[function] = self.sparse_parameters(function) | {parameter}

    def sparse_parameters(self, function: FunctionInfo) -> frozenset[str]:
        """The parameters of `function` that are sparse tensors by what it documents or does."""
        known = self._sparse.get(function)
        if known is None:
            known = frozenset(name for name, tensor in documented(function).items() if tensor.sparse)
            self._sparse[function] = known
        return known

    def _told_by_body(self, function: FunctionInfo) -> int:
        """How much the body has told of the parameters by now."""
        return len(self._evidence.get(function, ())) + len(self.sparse_parameters(function))

    # Names.

    def function_of(self, node: ast.AST, module: ModuleInfo, parent: FunctionInfo | None) -> FunctionInfo:
        """Return the record of a function definition or lambda met in a body."""
        self._index_nodes(module)
        known = self._functions.get(node)
        if known is None:
            assert isinstance(node, (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef))
            name = getattr(node, "name", "<lambda>")
            prefix = f"{parent.qualname}.<locals>." if parent else ""
            known = self._functions[node] = FunctionInfo(name, f"{prefix}{name}", node, module, None, parent)
        return known

    def class_of(self, node: ast.ClassDef, module: ModuleInfo) -> ClassInfo | None:
        """Return the record of a class definition met in a body."""
        self._index_nodes(module)
        return self._classes.get(node)

    def _index_nodes(self, module: ModuleInfo) -> None:
        if module not in self._indexed:
            self._indexed.add(module)
            self._functions.update((function.node, function) for function in module.functions)
            self._classes.update((cls.node, cls) for cls in module.classes)

    # Attributes of classes.

    def initialise(self, cls: ClassInfo) -> None:
        """Interpret the constructors of a class: its attributes are known then, and other writers follow when asked."""
        if cls in self._initialised:
            return
        self._initialised.add(cls)
        for one in reversed(self.project.mro(cls)):
            self._initialised.add(one)
            constructor = one.methods.get("__init__")
            if constructor is not None and constructor not in self.contexts:
                self.default_context(constructor)

    def read_attribute(self, cls: ClassInfo, name: str, frame: Frame) -> Kind:
        """Return what instances of `cls` hold under `name`; `NOTHING` where no constructor or method stores it."""
        self.initialise(cls)
        kind = self._attribute(cls, name)
        if frame.context is None or (cls, name) not in frame.context.reads:
            self._note_reader(cls, name, kind, frame.context)
        return kind

    def _attribute(self, cls: ClassInfo, name: str) -> Kind:
        kind = self.project.class_attribute(cls, name)
        return self.project.join_subclasses(cls, name) if kind is NOTHING else kind

    def _note_reader(self, cls: ClassInfo, name: str, kind: Kind, context: Context | None) -> None:
        """Have a context run again when an attribute changes, and the methods that store it run at all."""
        lists = self._reader_lists.get((cls, name))
        if lists is None:
            lists = self._reader_lists[cls, name] = [self._readers_of(one, name) for one in self.project.mro(cls)]
        if context is not None:
            context.reads[cls, name] = kind
            for readers in lists:
                readers[context] = None
            if all(name not in one.attributes for one in self.project.mro(cls)):
                self.heirs.note_reader(cls, name, context)

    def run_writers(self, cls: ClassInfo, name: str) -> None:
        """Have the methods of a class that store an attribute interpreted."""
        if name in cls.writers:
            self._readers_of(cls, name)

    def _readers_of(self, cls: ClassInfo, name: str) -> dict[Context, None]:
        """The contexts that read an attribute of one class; to ask the first time has its writers run.

        A method that stores nothing but constants there, as switches do, need not run for them.
        """
        known = self._readers.get((cls, name))
        if known is None:
            known = self._readers[cls, name] = {}
            for method, lines in cls.writers.get(name, {}).items():
                statements = [] if method in self.contexts else method.assignments(name, lines)
                constants = [_stored_constant(method, statement) for statement in statements]
                if None in constants:
                    self._later[method] = None
                    continue
                for statement, kind in zip(statements, constants, strict=True):
                    self._store(cls, name, kind or NOTHING, method, statement)
        return known

    def store_attribute(self, cls: ClassInfo, name: str, kind: Kind, frame: Frame) -> None:
        """Join a kind into what instances of `cls` hold under `name`."""
        self._store(cls, name, kind, frame.function, frame.statement)

    def _store(
        self, cls: ClassInfo, name: str, kind: Kind, function: FunctionInfo | None, statement: ast.stmt | None
    ) -> None:
        if function is not None and statement is not None:
            stores = cls.stores.setdefault(name, [])
            if not any(known is statement for _, known in stores):
                stores.append((function, statement))
        old = cls.attribute(name)
        new = either_store(old, k.lasting(k.shallow(kind)))
        if new != old:
            cls.attributes[name] = new
            for reader in list(self._readers.get((cls, name), ())):
                reader.outdated = reader.outdated or reader.running
                self.enqueue(reader)
            self.heirs.note_stored(cls, name, new)

    # What rules ask for.

    def record_kinds(self, function: FunctionInfo) -> dict[ast.AST, Kind]:
        """Interpret a function once more and return the kind of each of its expressions, joined over its contexts.

        Raises:
            Exhausted: as of `kinds_in`.
        """
        recorded: dict[ast.AST, Kind] = {}
        for context in self.contexts.get(function, ()):
            for node, kind in self.kinds_in(context).items():
                known = recorded.get(node)
                recorded[node] = kind if known is None else either_caller(known, kind)
        return recorded

    def kinds_in(self, context: Context) -> dict[ast.AST, Kind]:
        """Interpret a function once more as called in one way and return the kind of each of its expressions.

        If no budget is left in its file, that is the kinds of some of them.

        Raises:
            Exhausted: rules ask, and theirs is used up.
        """
        frame = self._frame(context)
        frame.context = Context(context.function, context.params)
        frame.budget = spent_now() or frame.budget
        frame.record = {}
        asked = spent_now()
        try:
            with nullcontext() if asked is not None else frame.budget.spending():
                self._run_body(frame)
        except Exhausted:
            if asked is not None:
                raise
            self.budgets.leave_out(context.function)
        return frame.record


def _stored_constant(method: FunctionInfo, statement: ast.stmt | None) -> Kind | None:
    """The kind of a constant that a statement stores to one attribute of `self` and nothing else; None for others."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not method.node.args.args:
        return None
    target, value = statement.targets[0], statement.value
    owner = target.value if isinstance(target, ast.Attribute) else None
    on_self = isinstance(owner, ast.Name) and owner.id == method.node.args.args[0].arg
    return k.constant(value.value) if on_self and isinstance(value, ast.Constant) else None


def _exits(frame: Frame) -> tuple[Environment, dict[str, str]]:
    """The attributes of `self` that are set on every way out of a function, apart from those that hold a parameter.

    Of the latter it is told which: each caller knows better than all together what it has passed.
    """
    if frame.self_name is None or frame.context is None or not frame.exits:
        return {}, {}
    prefix = f"{frame.self_name}."
    common = set.intersection(*({name for name in env if name.startswith(prefix)} for env in frame.exits))
    objects = {id(kind): name for name, kind in frame.context.params.items() if isinstance(kind, (k.Instance, k.Union))}
    exits, handed = {}, {}
    for name in sorted(common):
        parameters = {objects.get(id(env[name])) for env in frame.exits}
        parameter = parameters.pop() if len(parameters) == 1 else None
        if parameter is not None and parameter != frame.self_name:
            handed[name[len(prefix) :]] = parameter
        else:
            exits[name[len(prefix) :]] = k.join_all([env[name] for env in frame.exits])
    return exits, handed

"""Abstract interpretation of a whole project: contexts, summaries, and the computation of their fixpoint.

The compiled roots are interpreted first, and each callee before its caller ends. Small helpers are interpreted once for
each combination of argument kinds. Larger functions are interpreted once, for the join of the kinds that all callers
pass. A function's result and a class's attributes are summaries. When a summary grows, everything that read it is
interpreted again, so the kinds climb a lattice of bounded height until nothing changes (P. Cousot and R. Cousot,
"Abstract interpretation", POPL 1977).

Termination depends on the state kept between runs: parameters (`passing.widen`), a function's result and exits (from
its third run on), attributes (`passing.either_store`), and the variables of enclosing functions (`Scopes`). Each is
joined with its old value, so it can only grow. All names, types, classes and functions come from the program, and
`kinds.shallow` and `kinds.MOST_PARTS` limit the kinds that are built from them.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext
from functools import cache

from dynalint.analysis import calls, expressions, steps, subscripts  # noqa: F401 - they register evaluators
from dynalint.analysis import kinds as k
from dynalint.analysis.attributes import Attributes
from dynalint.analysis.definitions import Definitions
from dynalint.analysis.frame import CallsOfPackages, Context, Environment, Frame
from dynalint.analysis.heirs import Heirs
from dynalint.analysis.index import ClassInfo, FunctionInfo, ModuleInfo
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, Unknown, join
from dynalint.analysis.passing import either_caller, left_behind, widen
from dynalint.analysis.project import Project
from dynalint.analysis.public import is_public
from dynalint.analysis.scopes import Scopes
from dynalint.analysis.signatures import bind_defaults, has_decorator, is_small
from dynalint.analysis.sparse import as_sparse, as_tested
from dynalint.analysis.statements import run_block
from dynalint.analysis.steps import AnalysisFailure, Budgets, Exhausted, spent_now
from dynalint.analysis.tensor_evidence import TensorEvidence

# How many combinations of arguments a small function is interpreted for separately. Any others share one context.
_MOST_CONTEXTS = 6
# After this many runs, results are joined with earlier results. Before that, not all arguments have been seen.
_RUNS_AFRESH = 2
# After this many runs, a context that is called with a larger kind waits for the remaining callers.
_RUNS_AT_ONCE = 2
# The maximum depth of nested calls. Deeper calls are postponed.
_DEEPEST_CALL = 40


class Interpreter:
    """Computes the kinds and events in a project. `watched` selects the calls that become events."""

    exact = False  # whether large functions are also interpreted separately for each combination of argument kinds

    def __init__(self, project: Project, watched: Callable[[str], str | None]) -> None:
        self.project = project
        self.watched = cache(watched)
        self.failures: list[AnalysisFailure] = []
        self.budgets = Budgets(steps.MOST_STEPS)
        self.compiled: dict[Kind, None] = {}
        self.unpacked: set[ast.expr] = set()
        self.forwards: dict[FunctionInfo, str] = {}
        self.doubts: dict[FunctionInfo, str] = {}
        self.scripts: set[FunctionInfo | None] = set()
        self.hooked: set[tuple[ClassInfo, str]] = set()
        self.hooks: dict[tuple[ClassInfo, str], dict[tuple[str, Kind], None]] = {}
        self.contexts: dict[FunctionInfo, list[Context]] = {}
        self._masks: dict[ModuleInfo, set[str]] = {}
        self._queue: deque[Context] = deque()
        self.annotations: dict[ast.expr | ast.arg, Kind] = {}
        self.outside_names: dict[tuple[ClassInfo, str], str] = {}
        self.attributes = Attributes(self)
        self.evidence = TensorEvidence()
        self.scopes = Scopes(self)
        self.heirs = Heirs(self)
        self.definitions = Definitions()
        self._receivers: dict[FunctionInfo, Kind] = {}
        self._entered: set[FunctionInfo] = set()
        self._depth, self._recording = 0, False
        self.effects: dict[tuple[object, ...], None] | None = None
        self.changes = self._settled_changes = 0
        self.installed: CallsOfPackages | None = None
        project.interpreter = self

    # Running.

    def run(self, functions: Iterable[FunctionInfo]) -> None:
        """Interpret `functions` and everything they call until nothing changes."""
        entered = list(functions)
        self._entered.update(entered)
        for cls in filter(None, [function.owner for function in entered]):
            self.attributes.initialise(cls)  # attributes that grow later would cause their readers to be rerun
        self.settle()
        for function in entered:
            if function.enclosing is not None and function.enclosing not in self.contexts:
                self.default_context(function.enclosing)  # it binds the variables that the function closes over
            self.call_from_outside(function, self.method_receiver(function))
        waiting = self.attributes.waiting
        while waiting or self._queue:
            while waiting:
                function = next(iter(waiting))
                del waiting[function]
                if function not in self.contexts:
                    self.default_context(function)
            self.settle()

    def pass_masks(self) -> None:
        """Pass the masks that unknown callees receive to all modules that they may be, with the same keywords."""
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
        """Record that code in a module passes a mask to an unknown callee with this keyword."""
        self._masks.setdefault(module, set()).add(keyword)
        self.note_effect("mask", module, keyword)

    def run_scripts(self, functions: Collection[FunctionInfo]) -> None:
        """Interpret functions that run eagerly and call compiled code."""
        self.scripts.update(functions)
        self.run(functions)

    def call_from_outside(self, function: FunctionInfo, receiver: Kind | None) -> None:
        """Interpret a function as if unknown code called it on `receiver`."""
        self.context_for(function, bind_defaults(self, function, receiver))

    def settle(self) -> None:
        """Rerun the waiting contexts whose inputs have changed."""
        while self._queue:
            context = self._queue.popleft()
            context.queued = False
            if context.outdated or any(
                self.attributes.known(cls, name) != seen for (cls, name), seen in context.reads.items()
            ):
                self.interpret(context)

    def note_unsettled(self) -> None:
        """Record the functions that reached no fixpoint: they have not been interpreted with their last arguments."""
        for function, contexts in self.contexts.items():
            unsettled = [context.runs for context in contexts if context.outdated and context.is_at_limit]
            if unsettled:
                text = f"it was still called in new ways after {max(unsettled)} runs"
                self.failures.append(AnalysisFailure(function.file.path, function.qualname, text))

    def runs(self, function: FunctionInfo) -> bool:
        """Return whether a call to a function always runs it, in spite of its decorators."""
        return True

    def note_effect(self, *effect: object) -> None:
        """Record what a run does outside its own context, if it is needed (see `analysis.revision`)."""
        if self.effects is not None:
            self.effects[effect] = None

    def default_context(self, function: FunctionInfo) -> Context:
        """Interpret a function as if unknown code called it.

        Parameters have the kinds given by their annotations and defaults.
        """
        self.note_effect("default", function)
        known = self.contexts.get(function)
        if known:
            return known[0]
        return self._context(function, bind_defaults(self, function, self.method_receiver(function)), None)

    def method_receiver(self, function: FunctionInfo) -> Kind | None:
        """Return the kind of `self` (or `cls`) in a method, or None for a plain function or static method."""
        if function.owner is None:
            return None
        known = self._receivers.get(function)
        if known is None and not has_decorator(function, "staticmethod"):
            is_of_class = has_decorator(function, "classmethod")
            made = function.name in ("__init__", "__post_init__")
            known = k.Class(function.owner) if is_of_class else k.Instance(function.owner, made)
            self._receivers[function] = known
        return known

    def _context(self, function: FunctionInfo, params: Environment, key: tuple[object, ...] | None) -> Context:
        context = Context(function, params, key)
        self.contexts.setdefault(function, []).append(context)
        self.interpret(context)
        return context

    def context_for(self, function: FunctionInfo, params: Environment) -> Context:
        """Return the context for a call with these parameter kinds, and interpret it if it is new or has grown."""
        if self.effects is not None:
            self.note_effect("call", function, frozenset(params.items()))
        own = self.contexts.setdefault(function, [])
        if (self.exact or is_small(function)) and len(own) < _MOST_CONTEXTS:
            if function not in self._entered:  # a function that is already running gets a new context
                params = self._and_from_outside(function, params)
            key = tuple(sorted(params.items(), key=lambda item: item[0]))
            for context in own:
                if context.key == key:
                    return context
            return self._context(function, params, key)
        shared = next((context for context in own if context.key is None and context.agrees(params)), None)
        if shared is None:
            return self._context(function, self._and_from_outside(function, params), None)
        if not self._recording and widen(shared, params):
            self._rerun(shared)
        return shared

    def _rerun(self, context: Context) -> None:
        """Rerun a context whose parameters have grown, immediately or after all waiting callers have called it."""
        self.changes += 1
        if context.runs < _RUNS_AT_ONCE:
            self.interpret(context)
        else:
            context.outdated = True
            self.enqueue(context)

    def _is_open(self, function: FunctionInfo) -> bool:
        """Return whether unknown code may also call a function. This includes constructors of public classes."""
        return function in self._entered or (function.name == "__init__" and is_public(function))

    def _and_from_outside(self, function: FunctionInfo, params: Environment) -> Environment:
        """Join the parameters with the parameters of a pending call from outside, so that a single run covers both."""
        if not self._is_open(function):
            return params
        receiver = next(iter(params.values()), None) if self.method_receiver(function) is not None else None
        outside = bind_defaults(self, function, receiver)
        both = Context(function, dict(params))
        if both.agrees(outside):
            widen(both, outside)
        return both.params

    def interpret(self, context: Context) -> None:
        """Run a context once and propagate changes.

        Calls that are too deep are postponed, and excess runs are skipped.
        """
        if context.running or context.is_at_limit:
            context.outdated = True  # it has called itself with a larger kind, or did not reach the fixpoint
            return
        if self.budgets.of(context.function.file).exhausted:
            if not context.runs:
                context.returns = UNKNOWN
                self.budgets.leave_out(context.function.file, context.function)
            return  # an earlier run's result is the best one known
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
            self.budgets.leave_out(context.function.file, context.function)
        except Exception as fault:  # noqa: BLE001 - if dynalint fails on one function, the others are still analysed
            context.returns = UNKNOWN
            deep = isinstance(fault, RecursionError)
            said = "it is nested too deeply" if deep else f"{type(fault).__name__}: {fault}"
            failure = AnalysisFailure(context.function.file.path, context.function.qualname, said, crashed=not deep)
            if failure not in self.failures:
                self.failures.append(failure)
        finally:
            self._depth -= 1
            context.running = False
            if context.outdated:
                self.enqueue(context)

    def _interpret(self, context: Context) -> None:
        function = context.function
        evidence = self.evidence.amount(function)
        frame = self._frame(context)
        context.forget_run()
        self._run_body(frame)
        if self.evidence.amount(function) > evidence:
            frame = self._frame(context)
            context.forget_run()
            self._run_body(frame)
        returns = frame.returns
        context.yields = frame.yields is not NOTHING
        if context.yields:
            returns = k.Sequence("generator", frame.yields)
        returns, exits, handed = k.shallow(returns), *left_behind(frame)
        if context.runs > _RUNS_AFRESH and context.returns is not NOTHING:
            returns = join(context.returns, returns)
            exits = {name: join(context.exits[name], kind) for name, kind in exits.items() if name in context.exits}
            handed = dict(handed.items() & context.handed.items())
        others, own = returns != context.returns, exits != context.exits or handed != context.handed
        context.returns, context.exits, context.handed = returns, exits, handed
        alone = self.effects is not None
        for user, reads_exits in list(context.users.items()) if (others or own) and not alone else ():
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
            known = isinstance(kind, Unknown) and name in self.evidence.of(function)
            frame.env[name] = self.evidence.kind(function, name) if known else as_tested(function, name, kind)
        for name in self.evidence.sparse(function) & frame.env.keys():
            frame.env[name] = as_sparse(frame.env[name])
        receiver = self.method_receiver(function)
        if receiver is not None:
            frame.self_name = function.positional[0].arg if function.positional else None
            if frame.self_name is None or frame.env[frame.self_name] != UNKNOWN:
                frame.receiver = receiver
            elif not self.exact:
                frame.receiver = frame.env[frame.self_name] = receiver  # called on an unknown receiver
        return frame

    @property
    def is_settled(self) -> bool:
        """Whether no context has to be interpreted again, and none has grown since the state was settled."""
        return not self._queue and not self.attributes.waiting and self.changes == self._settled_changes

    def note_settled(self) -> None:
        """Record that everything has been interpreted."""
        self._settled_changes = self.changes

    def enqueue(self, context: Context) -> None:
        """Schedule a context to be interpreted again."""
        if not context.queued and not context.running and not context.is_at_limit:
            context.queued = True
            self._queue.append(context)

    def drop_queue(self) -> None:
        """Forget the contexts that recording kinds has scheduled, after everything was settled."""
        for context in self._queue:
            context.queued = context.outdated = False
        self._queue.clear()

    def rerun(self, context: Context) -> list[tuple[object, ...]]:
        """Interpret a settled context once more by itself, and return the effects of this run in order."""
        runs, self.effects = context.runs, {}
        context.runs, context.reads, context.running = 0, {}, True
        try:
            with self.budgets.of(context.function.file).spending():
                self._interpret(context)
            return list(self.effects)
        finally:
            context.runs, context.running, self.effects = runs, False, None

    # Queries from rules.

    def record_kinds(self, function: FunctionInfo) -> dict[ast.AST, Kind]:
        """Interpret a function once more and return the kind of each of its expressions, joined over its contexts.

        Raises:
            Exhausted: See `kinds_in`.
        """
        recorded: dict[ast.AST, Kind] = {}
        for context in self.contexts.get(function, ()):
            for node, kind in self.kinds_in(context).items():
                known = recorded.get(node)
                recorded[node] = kind if known is None else either_caller(known, kind)
        return recorded

    def kinds_in(self, context: Context) -> dict[ast.AST, Kind]:
        """Interpret one context of a function once more and return the kind of each of its expressions.

        If its file's budget is used up, some expressions are missing.

        Raises:
            Exhausted: If a rule asked for the kinds and has used up its own budget.
        """
        frame = self._frame(context)
        frame.context = Context(context.function, context.params)
        frame.budget = spent_now() or frame.budget
        frame.record, asked = {}, spent_now()
        self._recording = True  # what callers pass is settled, and does not depend on what rules ask for
        try:
            with nullcontext() if asked is not None else frame.budget.spending():
                self._run_body(frame)
        except Exhausted:
            if asked is not None:
                raise
            self.budgets.leave_out(context.function.file, context.function)
        finally:
            self._recording = False
        return frame.record

"""DYN508: state that the first call creates, which causes a recompilation on the second call."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeGuard

from dynalint.rulekit import (
    Call,
    ContainerChange,
    Declined,
    FunctionInfo,
    Project,
    Refusal,
    Rewrite,
    Rule,
    StateChange,
    Violation,
    k,
    rw,
    walk_function,
)
from dynalint_rules._code.cached_values import Memo
from dynalint_rules._code.changes import same
from dynalint_rules._code.growth import is_counter, is_held
from dynalint_rules._code.initial import initial
from dynalint_rules._code.missing_state import StateTest, asking, is_made_for_sure, keys_added, turns_from_none
from dynalint_rules._code.only_caller import at_the_call
from dynalint_rules._code.order import always_before
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.uses import Attribute

_REGISTERING = frozenset(f"torch.nn.Module.{name}" for name in ("register_buffer", "register_parameter", "add_module"))
_HELP = "Create it in the constructor, or call the model once before compiling it."
_HELP_MOVED = "Register it as a buffer, which moves with the module, or assign the result to a local variable."


class LazyState(Rule):
    code = "DYN508"
    name = "lazy-state"
    summary = "State is created on the first call, so the second call recompiles"
    category = "advice"
    severity = "info"
    events = (StateChange, ContainerChange, Call)
    calls = _REGISTERING

    def check(self, event: StateChange | ContainerChange | Call, project: Project) -> Iterable[Violation]:
        """Flag state that is set depending on a test of the same state, and registrations in compiled code."""
        if isinstance(event, Call):
            name = next((node.value for node in event.node.args[:1] if isinstance(node, ast.Constant)), None)
            if event.function.name != "__init__" and isinstance(name, str):
                sure = _is_registered_once(event, name, project)
                owner = ast.unparse(event.node.func).rpartition(".")[0]
                yield Violation(
                    event.node,
                    f"`{owner}.{name}` is registered in compiled code, so the second call finds it and recompiles",
                    help="Register it in the constructor.",
                    category="recompile" if sure else None,
                    severity="warning" if sure else None,
                )
        elif isinstance(event, StateChange) and _is_moved(event, project):
            sure = project.options.get("device") == "cuda" and _is_moved_from_the_cpu(event, project)
            moved = "the first call moves it to the GPU and" if sure else "if the first call has to move it,"
            yield Violation(
                event.statement,
                f"`{_place(event)}` is not a buffer and does not move with the module, so {moved} "
                "the second call recompiles",
                help=_HELP_MOVED,
                category="recompile" if sure else None,
                severity="warning" if sure else None,
            )
        elif isinstance(event, StateChange) and _comes_of_none(event, project):
            yield Violation(
                event.statement,
                f"`{_place(event)}` is only {_first(event, project)} on the first call, so the second call recompiles; "
                "later calls do not",
                help=_HELP,
                category="recompile",
                severity="warning",
            )
        elif isinstance(event, ContainerChange) and (keys := _new_keys(event, project)):
            more = f" and {len(keys) - 1} other keys" if len(keys) > 2 else f" and {keys[1]!r}" if keys[1:] else ""
            yield Violation(
                event.statement,
                f"`{_place(event)}` only lacks {keys[0]!r}{more} on the first call, so the second call recompiles; "
                "later calls do not",
                help="Create the dict with all of its keys in the constructor.",
                category="recompile",
                severity="warning",
            )
        elif isinstance(event, StateChange | ContainerChange) and _may_be_first(event, project):
            found = asking(event, project)
            if found is not None:
                yield self._made_once(event, found, project)
            elif isinstance(event, StateChange) and (called := at_the_call(event, project)) is not None:
                found = asking(called, project)
                if found is not None and is_made_for_sure(called, found, project):
                    yield self._made_once(called, found, project, event.statement)

    def _made_once(
        self,
        event: StateChange | ContainerChange,
        found: StateTest,
        project: Project,
        marked: ast.stmt | None = None,
    ) -> Violation:
        place = _place(event)
        if isinstance(event, ContainerChange):
            told = f"the first call with a key adds it to `{place}`, so the second call finds it there and recompiles"
        elif found.leaves:
            line = (marked or event.statement).lineno
            told = f"the first call creates `{place}` on line {line}, so the second call finds it here and recompiles"
        else:
            flag = all(isinstance(one, k.Value) and one.type == "bool" for one in event.new.members)
            made, found_so = ("changed", "changed") if flag else ("created", "there")
            told = f"`{place}` is {made} on the first call, so the second call finds it {found_so} and recompiles"
        sure = is_made_for_sure(event, found, project)
        return Violation(
            found.statement.test if found.leaves and marked is None else marked or event.statement,
            f"{told}; later calls do not" if isinstance(event, StateChange) else f"{told}, once for each key",
            help=_HELP,
            category="recompile" if sure else None,
            severity="warning" if sure else None,
        )

    def fix(
        self, event: StateChange | ContainerChange | Call, violation: Violation, project: Project
    ) -> Rewrite | Declined:
        """Use a cached value in eager code only."""
        if isinstance(event, Call):
            return Declined("the state becomes part of `state_dict()`; register it in the constructor instead")
        if isinstance(event, StateChange) and _is_moved(event, project):
            return _moved_in_each_call(Scope.of(event, project), event)
        if isinstance(event, ContainerChange) and _new_keys(event, project):
            return Declined(
                "the code does not say which values the keys have before the first call; add them in the constructor"
            )
        if isinstance(event, StateChange) and _comes_of_none(event, project):
            return Declined("the initial value depends on the input; start with zeros instead")
        found = asking(event, project)
        if found is None:
            return Declined("another method tests for the state; create the state in the constructor instead")
        return _created_in_each_call(Scope.of(event, project), event, found)


def _is_registered_once(event: Call, name: str, project: Project) -> bool:
    """Return whether only the first call finds the name without a value, and registers one for it."""
    if not isinstance(event.node.func, ast.Attribute) or ast.unparse(event.node.func.value) != "self":
        return False
    change = StateChange(
        node=event.statement,
        statement=event.statement,
        function=event.function,
        position=event.position,
        home=k.Home("attribute", name),
        old=k.NONE,
        new=k.TENSOR,
        reads_old=False,
        fresh=False,
    )
    found = asking(change, project)
    return found is not None and is_made_for_sure(change, found, project)


def _created_in_each_call(scope: Scope, event: StateChange | ContainerChange, found: StateTest) -> Rewrite:
    """Return the rewrite that only reads kept state in eager code, so that Dynamo does not guard on it.

    Raises:
        Refusal: If the next call needs this call's state, or may find state that depends on other arguments.
    """
    if isinstance(event, ContainerChange):
        raise Refusal(
            "Dynamo guards on the keys of the dict that the code changes; create the value on each call instead"
        )
    Memo.of(scope, event, found).refuse_other_values()
    compiling = rw.call(f"{scope.torch}.compiler.is_compiling")
    first, sign = (compiling, "or") if found.truth else (rw.negation(compiling), "and")
    edits = rw.written(scope.file, (found.statement.test, lambda test: rw.operation(first, sign, test)))
    condition = f"creating `{_place(event)}` again on each call, as compiled code does, gives the same value"
    return Rewrite("Use the cached value only in eager mode", "conditional", edits, (condition,), scope.imports)


def _moved_in_each_call(scope: Scope, event: StateChange) -> Rewrite:
    """Return the rewrite that assigns the moved tensor to a local variable, which the rest of the function reads.

    Raises:
        Refusal: If code may read the attribute without moving it first.
    """
    assert event.function.owner is not None
    assert isinstance(event.statement, ast.Assign)
    local = scope.fresh_name(event.home.name.strip("_"))
    changes: list[rw.Change] = [(event.statement.targets[0], local)]
    moves: dict[FunctionInfo, list[ast.AST]] = defaultdict(list)
    uses = Attribute(event.function.owner, event.home.name, scope.project).uses()
    inside = [(use, use.function) for use in uses if use.function is not None and use.function.name != "__init__"]
    for use, function in inside:
        if use.stored and _is_move(use.statement()):
            moves[function].append(use.node)
    for use, function in inside:
        if _is_move(use.statement()):
            continue
        parents = scope.project.parents(function)
        after = any(always_before(one, use.node, parents) for one in moves[function])
        if use.stored or len(moves[function]) != 1 or not (after or _is_earlier(use.node, moves[function][0], parents)):
            raise Refusal(f"{use.place} may read the moved tensor; register a buffer instead")
        if function is event.function and after:
            changes.append((use.node, local))
    conditions = (
        f"no code outside this project reads `{_place(event)}`, which keeps its device and dtype",
        "if the input is on another device, each call copies the tensor",
    )
    edits = rw.written(scope.file, *changes)
    return Rewrite("Assign the moved tensor to a local variable", "unsafe", edits, conditions)


def _is_earlier(read: ast.expr, move: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a read is only reached before a move. The first call has not moved the tensor there either."""
    node: ast.AST | None = read
    while node is not None and not isinstance(node, ast.For | ast.While):
        node = parents.get(node)
    return node is None and read.lineno < getattr(move, "lineno", 0)


def _may_be_first(event: StateChange | ContainerChange, project: Project) -> bool:
    """Return whether a change may be the first change to state that outlives the call."""
    if event.home.type not in ("attribute", "class", "global", "closure"):
        return False
    if event.home.type == "attribute" and not is_held(event.function, project, compiled=True):
        return False
    if isinstance(event, ContainerChange):
        return event.method == "setitem"
    return not (event.fresh or event.reads_old or is_counter(event, project))


def _new_keys(event: ContainerChange, project: Project) -> list[str]:
    return keys_added(event, project) if is_held(event.function, project, compiled=True) else []


def _comes_of_none(event: StateChange, project: Project) -> bool:
    return is_held(event.function, project, compiled=True) and turns_from_none(event, project)


def _first(event: StateChange, project: Project) -> str:
    values = initial(event.function.owner, event.home.name, project) if event.function.owner is not None else []
    return "None" if any(isinstance(one, ast.Constant) and one.value is None for one in values) else "a number"


def _is_moved(event: StateChange, project: Project) -> bool:
    """Return whether a tensor that is not a buffer is moved or converted to the device or dtype of the input."""
    if event.home.type != "attribute" or event.fresh or not _is_move(event.statement):
        return False
    kinds = project.kinds(event.function)
    return (
        any(_is_of_the_call(kinds.get(one, k.UNKNOWN)) for one in _moved_to(event))
        and is_held(event.function, project, compiled=True)
        and _is_plain_tensor(event, project)
    )


def _is_moved_from_the_cpu(event: StateChange, project: Project) -> bool:
    """Return whether a tensor, which constructors make without naming a device, is moved to the input's device."""
    owner, kinds = event.function.owner, project.kinds(event.function)
    if owner is None or not any(_is_on_a_device(kinds.get(one, k.UNKNOWN)) for one in _moved_to(event)):
        return False
    made = [cls.methods["__init__"].node for cls in project.mro(owner) if "__init__" in cls.methods]
    return not any(_names_a_device(node) for one in made for node in walk_function(one))


def _is_on_a_device(kind: k.Kind) -> bool:
    return isinstance(kind, k.Tensor) or (isinstance(kind, k.Value) and kind.type == "device")


def _names_a_device(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "arg", None)
    return name in ("device", "cuda", "set_default_device")


def _moved_to(event: StateChange) -> list[ast.expr]:
    call = event.statement.value if isinstance(event.statement, ast.Assign) else None
    return [*call.args, *(keyword.value for keyword in call.keywords)] if isinstance(call, ast.Call) else []


def _is_move(statement: ast.stmt | None) -> TypeGuard[ast.Assign]:
    """Return whether a statement is `self.x = self.x.to(...)`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
        return False
    called = statement.value.func if isinstance(statement.value, ast.Call) else None
    if not isinstance(called, ast.Attribute) or called.attr not in ("to", "type_as"):
        return False
    return same(called.value, statement.targets[0])


def _is_plain_tensor(event: StateChange, project: Project) -> bool:
    """Return whether constructors set an attribute to a tensor that is neither a buffer nor a parameter."""
    name, owner = event.home.name, event.function.owner
    lineage = project.mro(owner) if owner is not None else ()
    made = [
        project.kinds(method).get(statement.value, k.UNKNOWN)
        for cls in lineage
        for method, statement in cls.stores.get(name, ())
        if method.name == "__init__" and isinstance(statement, ast.Assign)
    ]
    registered = any(
        isinstance(node, ast.Constant) and node.value == name
        for cls in lineage
        for method in cls.methods.values()
        for node in walk_function(method.node)
    )
    return bool(made) and all(isinstance(one, k.Tensor) and one.origin is None for one in made) and not registered


def _is_of_the_call(kind: k.Kind) -> bool:
    """Return whether a kind is a tensor, or a device or dtype that is not a constant in the code."""
    if isinstance(kind, k.Value):
        return kind.type in ("device", "dtype") and kind.constant is k.MISSING
    return isinstance(kind, k.Tensor)


def _place(event: StateChange | ContainerChange) -> str:
    return f"self.{event.home.name}" if event.home.type == "attribute" else event.home.name

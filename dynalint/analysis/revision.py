"""Bring an interpretation up to date after an edit without interpreting everything again.

The rest of an interpretation only depends on a function's body through the function's results and its effects on the
state that all functions share: the calls it makes, the attributes it stores and reads, and so on. A function that an
edit changes is interpreted twice in the final state of the old interpretation, once with its old body and once with its
new one. If the results and effects are equal, so is the rest of the interpretation, and only this function's events are
new. Otherwise, everything has to be interpreted again.

A function that has the same code on other lines keeps its results. Its records are transferred to its new nodes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynalint.analysis.build import build_module
from dynalint.analysis.documented import documented
from dynalint.analysis.events import Event
from dynalint.analysis.functions import makes_instance
from dynalint.analysis.hooks import puts_in_place
from dynalint.analysis.index import ClassInfo, FunctionInfo, FunctionNode, ModuleInfo
from dynalint.analysis.interpreter import Interpreter
from dynalint.analysis.matching import Different, Function, merged
from dynalint.analysis.project import Project
from dynalint.analysis.reach import direct_changes, receiver_name, returned_value
from dynalint.analysis.region import compiling_places
from dynalint.analysis.registries import registering
from dynalint.analysis.signatures import is_small
from dynalint.analysis.steps import all_nodes
from dynalint.analysis.subjects import tested_subjects

# What records compute from their module's text, or from nodes.
_COMPUTED = {
    ModuleInfo: ("stores", "quoted", "may_disable"),
    ClassInfo: ("writers", "annotated"),
    FunctionInfo: ("decorators", "defaults", "locals", "named", "positional"),
}
# The bodies of functions with these names are also read where the function is not called.
_READ_BY_NAME = frozenset({"__getattr__", "__getattribute__"})


def revised(project: Project, interpreter: Interpreter, overrides: Mapping[Path, str]) -> bool:
    """Bring a project and its interpretation up to date with other texts, and return whether this was possible.

    If not, neither of them can be used any more.
    """
    changed = project.disk.changed(overrides)
    if any(path not in project.modules for path in changed) or _is_cut_short(project, interpreter):
        return False
    project.disk.revise(overrides)
    interpreter.drop_queue()
    try:
        return interpreter.is_settled and _revised(project, interpreter, changed)
    except Exception:  # noqa: BLE001 - another analysis does not depend on what went wrong
        return False


def _is_cut_short(project: Project, interpreter: Interpreter) -> bool:
    """Return whether anything has not been interpreted to its end."""
    cuts = any(interpreter.budgets.of(module.file).cuts for module in project.modules.values())
    return cuts or bool(interpreter.failures or interpreter.budgets.left_out)


def _revised(project: Project, interpreter: Interpreter, changed: Sequence[Path]) -> bool:
    edits = [_Edit(project, interpreter, project.modules[path]) for path in changed]
    functions = [function for edit in edits for function in edit.functions]
    before = [_Run(interpreter, function) for function in functions]
    moved = {old: new for edit in edits for old, new in edit.moved()}
    for edit in edits:
        edit.apply()
    _move_stores(project, moved)
    after = [_Run(interpreter, function) for function in functions]
    if any(one.outcome != other.outcome for one, other in zip(before, after, strict=True)):
        return False
    for run, old in zip(after, before, strict=True):
        run.replace_stores(old)
    return all(edit.means_the_same for edit in edits) and interpreter.is_settled


class _Run:
    """Another run of all contexts of a settled function by itself. `outcome` is all that other functions see of it.

    `stores` are the function's statements that are recorded as storing attributes.

    Raises:
        Different: If the function itself or the state around it is not the same afterwards.
    """

    def __init__(self, interpreter: Interpreter, function: FunctionInfo) -> None:
        self._interpreter, self._function = interpreter, function
        self._contexts = interpreter.contexts[function]
        results, evidence = self._results(), interpreter.evidence
        known = evidence.forget(function)
        documented_only = evidence.all_of(function)
        self.outcome = self._run()
        if evidence.all_of(function) != documented_only:
            self.outcome = self._run()  # now every context has the evidence from all of them
        if self._results() != results or evidence.all_of(function) != known or not interpreter.is_settled:
            raise Different
        self.stores = self._stores()

    def _results(self) -> list[object]:
        return [(one.returns, one.exits, one.handed, one.yields) for one in self._contexts]

    def _run(self) -> list[object]:
        found: list[object] = []
        self._effects: dict[tuple[Any, ...], None] = {}
        for context in self._contexts:
            effects = self._interpreter.rerun(context)
            self._effects.update(dict.fromkeys(effects))
            found += [dict(context.callees), context.reads, effects]
        return [*found, self._interpreter.scopes.read_from(self._function)]

    def _stores(self) -> dict[tuple[ClassInfo, str], list[ast.stmt]]:
        stores = [effect for effect in self._effects if effect[0] == "store"]
        if stores and isinstance(self._function.node, ast.Lambda):
            raise Different  # its statement is made anew for each run
        return {
            (cls, name): [statement for function, statement in cls.stores[name] if function is self._function]
            for _, cls, name, *_ in stores
        }

    def replace_stores(self, before: _Run) -> None:
        """Put the new statements that store attributes in the place of the old ones in the records.

        Raises:
            Different: If there are more or fewer of them, or others.
        """
        for (cls, name), statements in self.stores.items():
            old = before.stores[cls, name]
            new = [one for one in statements if one not in old]
            if [ast.dump(one) for one in old] != [ast.dump(one) for one in new]:
                raise Different
            places = dict(zip(old, new, strict=True))
            kept = [one for one in cls.stores[name] if one[1] not in new]
            cls.stores[name] = [(function, places.get(statement, statement)) for function, statement in kept]


class _Edit:
    """An edit of a module. `functions` are the interpreted functions whose code has changed."""

    def __init__(self, project: Project, interpreter: Interpreter, module: ModuleInfo) -> None:
        self._project, self._interpreter, self._module = project, interpreter, module
        file, changed = merged(module.file, project.read(module.file.path))
        if any(puts_in_place(one.text) for one in (module.file, file)):
            raise Different  # hooks are known without interpreting the code that registers them
        self._new = build_module(module.name, file, module.package)
        self._classes = [*_paired(module.classes, self._new.classes)]
        functions = [*_paired(module.functions, self._new.functions)]
        functions += [(module.top, self._new.top)] if "top" in module.__dict__ else []
        self._nodes = [(one, other.node) for one, other in functions if one.node is not other.node]
        self._nodes += _lambdas(interpreter, module, self._new)
        changed = [pair for pair in changed if ast.dump(pair[0]) != ast.dump(pair[1])]
        for pair in changed:
            _check(*pair)
        inside = {one for pair in changed for one in all_nodes(pair[0])}
        self._changed = [function for function, _ in self._nodes if function.node in inside]
        self._moved = [(function, node) for function, node in self._nodes if function.node not in inside]
        self.functions = [function for function in self._changed if function in interpreter.contexts]
        if any(function not in interpreter.contexts and _is_in_records(function) for function in self._changed):
            raise Different  # constants that it stores are known without interpreting it
        self._quoted = "quoted" in module.__dict__  # otherwise, no function has asked
        self._meaning = self._meaning_now()

    def _meaning_now(self) -> dict[object, object]:
        """Return what other functions may read from the module's text."""
        module, text = self._module, self._module.file.text
        found: list[object] = [module.may_disable, "torch" in text, compiling_places(text)]
        found += [self._interpreter.scopes.written_globals(module), module.quoted if self._quoted else ()]
        found += [{name: [*by] for name, by in cls.writers.items()} for cls in module.classes]
        found += [is_small(function) for function, _ in self._nodes]
        found += map(_meaning, self._changed)
        asked = ((what, function) for function in self._changed for what in _ASKED)
        return {None: found, **{(what, function): _ASKED[what](function) for what, function in asked}}

    @property
    def means_the_same(self) -> bool:
        """Whether other functions read the same from the module's text as before."""
        kept = {None, *self._project.asked}
        return all(value == self._meaning[key] for key, value in self._meaning_now().items() if key in kept)

    def moved(self) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Transfer what is recorded about functions that have only moved to their new nodes, and yield these."""
        unpacked = self._interpreter.unpacked
        for function, node in self._moved:
            nodes: dict[Any, Any] = dict(zip(all_nodes(function.node), all_nodes(node), strict=True))
            for context in self._interpreter.contexts.get(function, ()):
                context.events = {_moved_key(key, nodes): _moved(one, nodes) for key, one in context.events.items()}
            unpacked.update(nodes[one] for one in unpacked & nodes.keys())
            yield from nodes.items()

    def apply(self) -> None:
        """Give the records of the module, its classes and functions their new nodes."""
        project, module, new = self._project, self._module, self._new
        project.checked = [new.file if file is module.file else file for file in project.checked]
        project.forget(function for function, _ in self._nodes)
        self._interpreter.scopes.forget_text(module)
        self._interpreter.budgets.forget(module.file)
        module.file = new.file
        if [(name, type(one)) for name, one in module.bindings.items()] != [
            (name, type(one)) for name, one in new.bindings.items()
        ]:
            raise Different
        module.bindings.update((name, one) for name, one in new.bindings.items() if isinstance(one, list))
        for cls, other in self._classes:
            self._interpreter.definitions.renew_class(cls, other.node)
            cls.body = other.body
        for function, node in self._nodes:
            self._interpreter.definitions.renew_function(function, node)
            function.known.clear()
        for record in (module, *module.classes, *(function for function, _ in self._nodes)):
            for name in _COMPUTED[type(record)]:
                record.__dict__.pop(name, None)


def _moved_key(key: tuple[Any, ...], nodes: Mapping[Any, Any]) -> tuple[Any, ...]:
    """Return the key of an event with its new node."""
    kind, node, *rest = key
    return kind, nodes[node], *rest


def _moved(event: Event, nodes: Mapping[Any, Any]) -> Event:
    """Return an event with its new nodes."""
    return replace(
        event,
        node=nodes[event.node],
        statement=nodes[event.statement],
        condition=None if event.condition is None else nodes[event.condition],
        others=tuple(None if one is None else _moved(one, nodes) for one in event.others),
    )


def _move_stores(project: Project, moved: Mapping[Any, Any]) -> None:
    """Transfer the records of what stores attributes to the new nodes of functions that have only moved."""
    for cls in (cls for module in project.modules.values() for cls in module.classes) if moved else ():
        for name, stores in cls.stores.items():
            if any(statement in moved for _, statement in stores):
                cls.stores[name] = [(function, moved.get(statement, statement)) for function, statement in stores]


def _paired(old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Pair the records of a module with those after an edit."""
    if [one.qualname for one in old] != [one.qualname for one in new]:
        raise Different
    return zip(old, new, strict=True)


def _lambdas(
    interpreter: Interpreter, module: ModuleInfo, new: ModuleInfo
) -> Iterator[tuple[FunctionInfo, FunctionNode]]:
    """Yield the interpreted lambdas of a module that have new nodes."""
    if "lambda" not in module.file.text:
        return
    before, after = ([one for one in all_nodes(each.tree) if isinstance(one, ast.Lambda)] for each in (module, new))
    known = [interpreter.definitions.lambda_at(node) for node in before]
    if any(known) and len(before) != len(after):
        raise Different
    for info, node in zip(known, after, strict=False):
        if info is not None and info.node is not node:
            yield info, node


def _check(old: Function, new: Function) -> None:
    """Check that a function whose code has changed is one that only matters where it is called.

    Raises:
        Different: If it is not.
    """
    if old.name in _READ_BY_NAME:
        raise Different
    parts = []
    for function in (old, new):
        inside = [one for statement in function.body for one in all_nodes(statement)]
        made = [one for one in inside if isinstance(one, Function)]
        names, returned = {one.name for one in made}, (one.value for one in inside if isinstance(one, ast.Return))
        if any(isinstance(one, ast.ClassDef) for one in inside):
            raise Different
        if any(isinstance(one, ast.Name) and one.id in names for one in returned):
            raise Different  # it may be a decorator, and the function that it makes is read without calling it
        imports = [ast.dump(one) for one in inside if isinstance(one, ast.Import | ast.ImportFrom)]
        heads = [[ast.dump(part) for part in (one.args, *one.decorator_list)] for one in made]
        parts.append((imports, heads))
    if parts[0] != parts[1]:
        raise Different


def _is_in_records(function: FunctionInfo) -> bool:
    """Return whether any statement of a method is recorded as storing an attribute."""
    stores = () if function.owner is None else function.owner.stores.values()
    return any(one is function for known in stores for one, _ in known)


def _stores(function: FunctionInfo) -> bool:
    """Return whether a function stores any attribute."""
    return any(isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) for one in all_nodes(function.node))


def _meaning(function: FunctionInfo) -> tuple[object, ...]:
    """Return what other functions read from the text of a function."""
    return documented(function), _stores(function), registering(function), makes_instance(function)


def _returned(function: FunctionInfo) -> tuple[object, ...]:
    value = returned_value(function)
    return () if value is None else (ast.dump(value), len(function.statements))


# What other functions only read from the text of a function if this is recorded in `Project.asked`.
_ASKED: Mapping[object, Callable[[FunctionInfo], object]] = {
    returned_value: _returned,
    direct_changes: direct_changes,
    tested_subjects: lambda function: tested_subjects(function, receiver_name(function)),
}

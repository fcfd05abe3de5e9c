"""Bring an interpretation up to date after an edit without interpreting everything again.

The rest of an interpretation only depends on a function's body through the function's results and its effects on the
state that all functions share: the calls it makes, the attributes it stores and reads, and so on. A function that an
edit changes is interpreted twice in the final state of the old interpretation, once with its old body and once with its
new one. If the results and effects are equal, so is the rest of the interpretation, and only this function's events are
new. Otherwise, everything has to be interpreted again.

A function whose lines have moved has new nodes, so it is treated in the same way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dynalint.analysis.build import build_module
from dynalint.analysis.documented import documented
from dynalint.analysis.index import ClassInfo, FunctionInfo, FunctionNode, ModuleInfo
from dynalint.analysis.interpreter import Interpreter
from dynalint.analysis.matching import Different, Function, merged
from dynalint.analysis.project import Project
from dynalint.analysis.reach import receiver_name, said_of_self
from dynalint.analysis.region import may_compile
from dynalint.analysis.signatures import is_small
from dynalint.analysis.source import SourceFile
from dynalint.analysis.subjects import tested_subjects

# What records compute from their module's text, or from nodes.
_COMPUTED = {
    ModuleInfo: ("stores", "quoted", "may_disable"),
    ClassInfo: ("writers", "annotated"),
    FunctionInfo: ("decorators", "defaults", "locals"),
}
# The bodies of functions with these decorators are also read where the function is not called.
_READ = frozenset({"property", "cached_property", "classmethod"})


def revised(project: Project, interpreter: Interpreter, overrides: Mapping[Path, str]) -> bool:
    """Bring a project and its interpretation up to date with other texts, and return whether this was possible.

    If not, neither of them can be used any more.
    """
    if interpreter.failures or interpreter.budgets.left_out:
        return False
    changed = [path for path in project.modules if project.disk.is_changed(path, overrides)]
    if any(project.disk.is_changed(file.path, overrides) for file in project.checked if file.tree is None):
        return False
    project.disk.revise(overrides)
    interpreter.drop_queue()
    try:
        edits = [_Edit(project, interpreter, project.modules[path]) for path in changed]
        functions = [function for edit in edits for function in edit.functions]
        before = [_Run(interpreter, function) for function in functions]
        for edit in edits:
            edit.apply()
        after = [_Run(interpreter, function) for function in functions]
        if any(one.outcome != other.outcome for one, other in zip(before, after, strict=True)):
            return False
        for run in after:
            run.tidy()
        return all(edit.means_the_same for edit in edits) and interpreter.is_settled
    except Different:
        return False


class _Run:
    """Another run of all contexts of a settled function by itself. `outcome` is all that other functions see of it.

    Raises:
        Different: If the function itself or the state around it is not the same afterwards.
    """

    def __init__(self, interpreter: Interpreter, function: FunctionInfo) -> None:
        self._interpreter, self._function = interpreter, function
        self._contexts = interpreter.contexts[function]
        self._effects = set[tuple[Any, ...]]()
        results, evidence = self._results(), interpreter.evidence
        known = evidence.forget(function)
        documented_only = evidence.all_of(function)
        self.outcome = self._run()
        if evidence.all_of(function) != documented_only:
            self.outcome = self._run()  # now every context has the evidence from all of them
        if self._results() != results or evidence.all_of(function) != known or not interpreter.is_settled:
            raise Different

    def _results(self) -> list[object]:
        return [(one.returns, one.exits, one.handed, one.yields) for one in self._contexts]

    def _run(self) -> list[object]:
        self._effects, found = set(), list[object]()
        for context in self._contexts:
            users, context.users = context.users, {}
            try:
                effects = self._interpreter.rerun(context)
            except Exception as fault:  # it is reported when everything is interpreted again
                raise Different from fault
            finally:
                context.users = users
            self._effects |= effects
            found += [dict(context.callees), {*context.firm_calls}, context.reads, effects]
        return [*found, self._interpreter.scopes.read_from(self._function)]

    def tidy(self) -> None:
        """Drop the old statements from the records of what stores attributes."""
        own = {node for node in ast.walk(self._function.node) if isinstance(node, ast.stmt)}
        for effect in self._effects:
            if effect[0] == "store":
                _, cls, name, *_ = effect
                cls.stores[name] = _renewed(cls.stores[name], self._function, own)


def _renewed(
    stores: list[tuple[FunctionInfo, ast.stmt]], function: FunctionInfo, own: set[ast.stmt]
) -> list[tuple[FunctionInfo, ast.stmt]]:
    """Return stores with a function's new statements in the place of its old ones."""
    new = [one for one in stores if one[0] is function and one[1] in own]
    first = next(index for index, one in enumerate(stores) if one[0] is function)
    others = [one for one in stores[first:] if one[0] is not function]
    return [*stores[:first], *new, *others]


class _Edit:
    """An edit of a module. `functions` are the interpreted functions with new nodes."""

    def __init__(self, project: Project, interpreter: Interpreter, module: ModuleInfo) -> None:
        self._project, self._interpreter, self._module = project, interpreter, module
        file, changed = merged(module.file, project.read(module.file.path))
        self._new = build_module(module.name, file, module.package)
        self._functions = [*_paired(module.functions, self._new.functions)]
        if "top" in module.__dict__:
            self._functions.append((module.top, self._new.top))
        self._classes = [*_paired(module.classes, self._new.classes)]
        self._nodes: list[tuple[FunctionInfo, FunctionNode]] = [
            *((one, other.node) for one, other in self._functions if one.node is not other.node),
        ]
        self._nodes += [pair for function, node in self._nodes for pair in _lambdas(interpreter, function, node)]
        self.functions = [function for function, _ in self._nodes if function in interpreter.contexts]
        changed = [pair for pair in changed if ast.dump(pair[0]) != ast.dump(pair[1])]
        nodes = {node for pair in changed for node in ast.walk(pair[0]) if isinstance(node, Function)}
        self._changed = [function for function in module.functions if function.node in nodes]
        for pair in changed:
            _check(module.file, file, pair)
        self._quoted = module.quoted if "quoted" in module.__dict__ else None
        self._meaning = self._meaning_now()

    def _meaning_now(self) -> list[object]:
        """Return what other functions read from the module's text."""
        module = self._module
        found: list[object] = [module.may_disable, self._interpreter.scopes.written_globals(module)]
        if self._quoted is not None:  # otherwise, no function has asked
            found.append(module.quoted)
        found += [{name: [*by] for name, by in cls.writers.items()} for cls in module.classes]
        return [*found, *map(_meaning, self._changed)]

    @property
    def means_the_same(self) -> bool:
        """Whether other functions read the same from the module's text as before."""
        return self._meaning == self._meaning_now()

    def apply(self) -> None:
        """Give the records of the module, its classes and functions their new nodes."""
        project, module, new = self._project, self._module, self._new
        project.checked = [new.file if file is module.file else file for file in project.checked]
        project.forget(function for function, _ in self._nodes)
        self._interpreter.scopes.forget_text(module)
        module.file = new.file
        if {name: type(one) for name, one in module.bindings.items()} != {
            name: type(one) for name, one in new.bindings.items()
        }:
            raise Different
        module.bindings.update((name, one) for name, one in new.bindings.items() if isinstance(one, list))
        for cls, other in self._classes:
            self._interpreter.renew_class(cls, other.node)
            cls.body = other.body
        for function, node in self._nodes:
            self._interpreter.renew_function(function, node)
            function.known.clear()
        for record in (module, *module.classes, *(function for function, _ in self._nodes)):
            for name in _COMPUTED[type(record)]:
                record.__dict__.pop(name, None)


Record = FunctionInfo | ClassInfo


def _paired(old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Pair the records of a module with those after an edit."""
    if [one.qualname for one in old] != [one.qualname for one in new]:
        raise Different
    return zip(old, new, strict=True)


def _lambdas(
    interpreter: Interpreter, function: FunctionInfo, new: FunctionNode
) -> Iterator[tuple[FunctionInfo, FunctionNode]]:
    """Yield the interpreted lambdas of a function with their new nodes."""
    before, after = ([one for one in ast.walk(node) if isinstance(one, ast.Lambda)] for node in (function.node, new))
    known = [interpreter.lambda_at(node) for node in before]
    if any(known) and len(before) != len(after):
        raise Different
    for info, node in zip(known, after, strict=False):
        if info is not None and info.parent is function:
            yield info, node


def _check(old: SourceFile, new: SourceFile, pair: tuple[Function, Function]) -> None:
    """Check that a function whose text has changed is one that only matters where it is called.

    Raises:
        Different: If it is not.
    """
    imports = []
    for file, node in zip((old, new), pair, strict=True):
        inside = [one for statement in node.body for one in ast.walk(statement)]
        if any(isinstance(one, ast.ClassDef) for one in inside) or may_compile(file.segment(node)):
            raise Different
        made = {one.name for one in inside if isinstance(one, Function)}
        returned = (one.value for one in inside if isinstance(one, ast.Return))
        if any(isinstance(one, ast.Name) and one.id in made for one in returned):
            raise Different  # it may be a decorator, and the function that it makes is read without calling it
        imports.append([ast.dump(one) for one in inside if isinstance(one, ast.Import | ast.ImportFrom)])
    if imports[0] != imports[1]:
        raise Different


def _meaning(function: FunctionInfo) -> tuple[object, ...]:
    """Return what other functions read from the text of a function."""
    if function.decorators & _READ:
        raise Different
    own = receiver_name(function)
    said = said_of_self(function)
    return is_small(function), said, tested_subjects(function, own), documented(function)

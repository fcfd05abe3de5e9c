"""A Python count that several share, turned into a tensor at the same place: a global, a class attribute, an item.

It is assigned to and never changed in place, as a buffer is (see `buffers`); unlike one it stays where it was made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynalint.analysis import kinds as k
from dynalint.analysis.events import StateChange
from dynalint.analysis.index import ClassInfo, FunctionInfo, Import, ModuleInfo
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.buffers import Plan, change_store, check_reader, plain_number
from dynalint_rules._shared.scope import Refusal, torch_name
from dynalint_rules._shared.uses import Attribute, Use


@dataclass(frozen=True)
class _Kept:
    """The expression that gives the number its first value, and all other places that use it."""

    value: ast.expr
    uses: Sequence[Use]


def shared_to_tensor(event: StateChange, project: Project) -> Rewrite:
    """Return the rewrite that keeps a count in a tensor where it is, in all places at once.

    Raises:
        Refusal: it does not begin as a plain number that can be seen, or a place that uses it needs a Python number.
    """
    name, function = event.home.name, event.function
    kept = _kept(_target(event), function, project)
    number = plain_number(kept.value)
    if number is None:
        raise Refusal(f"`{name}` does not begin as one plain number; make it a tensor by hand")
    annotated = [node for node in walk(function.module.tree) if isinstance(node, ast.AnnAssign)]
    if any(node.value is kept.value for node in annotated):
        raise Refusal(f"`{name}` is annotated as a Python number; change that first")
    _refuse_two_spellings(name, kept.uses)
    plan, (torch, imports) = Plan(name), torch_name(function)
    file = function.file
    if not imports and not _imported_before(kept.value, function.module, torch):
        raise Refusal(f"`{name}` is made before torch is imported; import it first")
    plan.replacements.append(Replacement(file, *file.span(kept.value), f"{torch}.tensor({number})"))
    for use in kept.uses:
        if use.stored:
            change_store(plan, use)
        else:
            check_reader(plan, use)
    conditions = (f"`{name}` is a tensor, on the CPU, for whoever else reads or sets it", *plan.conditions)
    replacements = tuple(plan.replacements)
    return Rewrite(f"Keep `{name}` in a tensor", "unsafe", replacements, conditions, imports, plan.leaves)


def _target(event: StateChange) -> ast.expr:
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        return statement.target
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.targets[0]
    raise Refusal(f"`{event.home.name}` is set together with something else; give it a statement of its own")


def _kept(target: ast.expr, function: FunctionInfo, project: Project) -> _Kept:
    module = function.module
    if isinstance(target, ast.Name):
        return _Kept(_global_value(target.id, module, project), _global_uses(target.id, module, project))
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        return _item(target.value, target.slice.value, function, project)
    return _attribute(target, function, project)


def _item(container: ast.expr, key: object, function: FunctionInfo, project: Project) -> _Kept:
    """The item of a dict that is written out where a global or an attribute of a class begins."""
    if isinstance(container, ast.Name):
        value = _global_value(container.id, function.module, project)
        uses = _global_uses(container.id, function.module, project)
    else:
        found = _attribute(container, function, project)
        value, uses = found.value, list(found.uses)
    items = dict(_items(value))
    if key not in items:
        raise Refusal(f"`{ast.unparse(container)}` is not written out as a dict; make the count a tensor by hand")
    return _Kept(items[key], [use for one in uses for use in _uses_of_item(one, key)])


def _items(value: ast.expr) -> Iterator[tuple[object, ast.expr]]:
    for key, item in zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ():
        if isinstance(key, ast.Constant):
            yield key.value, item


def _uses_of_item(container: Use, key: object) -> Iterator[Use]:
    """Yield the use of the item that a use of its container is, none where it is one of another item.

    Raises:
        Refusal: it is one of the container as a whole.
    """
    item = container.parent(container.node)
    if not isinstance(item, ast.Subscript) or item.value is not container.node:
        raise Refusal(f"{container.place} uses {container.quote(container.node)} as a whole; change that place by hand")
    if not isinstance(item.slice, ast.Constant):
        raise Refusal(f"{container.place} uses {container.quote(item)}, which may be the count; change that by hand")
    if item.slice.value == key:
        yield Use(container.file, container.function, item, container.project)


def _global_value(name: str, module: ModuleInfo, project: Project) -> ast.expr:
    bound = module.bindings.get(name)
    if not isinstance(bound, list) or len(bound) != 1:
        raise Refusal(f"`{name}` is not bound once in this file; make the count a tensor by hand")
    for other in list(project.modules.values()):
        # What another module has imported stays the number that it was then.
        imported = any(isinstance(one, Import) and one.attribute == name for one in other.bindings.values())
        if other is not module and (imported or module.name in other.stars):
            raise Refusal(f"{other.file.path.name} imports `{name}`; change both files by hand")
    return bound[0]


def _global_uses(name: str, module: ModuleInfo, project: Project) -> list[Use]:
    """The uses of a global but for the statement that binds it first."""
    found = [Use(module.file, function, node, project) for function, node in project.name_uses(module, name)]
    first = min((use for use in found if use.stored), key=lambda use: use.node.lineno, default=None)
    for file, function, node in project.attribute_uses(name):
        owner = k.UNKNOWN if function is None else project.kinds(function).get(node.value, k.UNKNOWN)
        if isinstance(owner, k.Module | k.Unknown) and file is not module.file:
            raise Refusal(f"{file.path.name}:{node.lineno} may use `{name}` as well; change both files by hand")
    return [use for use in found if use is not first]


def _attribute(target: ast.expr, function: FunctionInfo, project: Project) -> _Kept:
    """An attribute that a class body or a constructor of this file begins.

    Raises:
        Refusal: it is no attribute, or one that begins elsewhere.
    """
    hidden = f"where `{ast.unparse(target)}` begins is not to be seen here; make it a tensor by hand"
    if not isinstance(target, ast.Attribute):
        raise Refusal(hidden)
    owner, name = project.kinds(function).get(target.value, k.UNKNOWN), target.attr
    for cls in project.mro(owner.cls) if isinstance(owner, k.Class | k.Instance) else ():
        if cls.module is not function.module:
            break
        if name in cls.body:
            return _Kept(cls.body[name], Attribute(cls, name, project).uses(shared=True))
        first = _set_first(cls, name)
        if first is not None:
            uses = Attribute(cls, name, project).uses(shared=True)
            return _Kept(first.value, [use for use in uses if use.node is not first.targets[0]])
    raise Refusal(hidden)


def _set_first(cls: ClassInfo, name: str) -> ast.Assign | None:
    """The statement of a constructor that sets an attribute."""
    for method, statement in cls.stores.get(name, ()):
        if method.name == "__init__" and isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            return statement if statement in method.statements else None
    return None


def _refuse_two_spellings(name: str, uses: Sequence[Use]) -> None:
    """Make sure that no place in compiled code reaches the number in another way than the one that sets it.

    Dynamo does not see through `self.count` what it has stored to `type(self).count` in the same call.

    Raises:
        Refusal: one does.
    """
    reached = [use for use in uses if use.function is not None and use.function.reached]
    if len({ast.unparse(use.node) for use in reached}) > 1:
        raise Refusal(f"`{name}` is reached in more than one way, of which Dynamo sees one; write it alike everywhere")


def _imported_before(value: ast.expr, module: ModuleInfo, torch: str) -> bool:
    """Whether the file has torch under its name where a value stands."""
    return any(
        isinstance(node, ast.Import)
        and node.lineno < value.lineno
        and any((one.asname or one.name) == torch for one in node.names)
        for node in module.tree.body
    )

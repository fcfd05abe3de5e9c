"""What the first call makes and later ones find: made in every call.

if self.mask is None:                   self.mask = torch.ones(x.shape[-1])
    self.mask = torch.ones(x.shape[-1])
"""

from __future__ import annotations

import ast

from dynalint import rewriting as rw
from dynalint.analysis import kinds as k
from dynalint.analysis.index import ClassInfo, FunctionInfo
from dynalint.analysis.steps import walk
from dynalint.rules import Refusal, Rewrite
from dynalint_rules._shared.constructors import uses_of
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.names import loads, only_value, within
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.uses import self_name

_BY_HAND = "make it in the constructor by hand, or call the model once before it is compiled"
_ASKED = frozenset("device dim dtype ndim new_empty new_full new_ones new_zeros shape size".split())


def made_elsewhere(scope: Scope, statement: ast.stmt) -> Rewrite:
    """Return the rewrite of a statement that makes something under a test of the very thing.

    Raises:
        Refusal: it cannot be made at another time, or dynalint cannot tell.
    """
    branch = scope.parents.get(statement)
    if not isinstance(statement, ast.Assign) or not isinstance(branch, ast.If) or branch.orelse:
        raise Refusal(f"more than one test decides whether it is made; {_BY_HAND}")
    target = statement.targets[0]
    if not _makes_one_thing(scope, branch, statement):
        raise Refusal(f"{scope.quote(branch.test)} decides about more than {scope.quote(target)}; {_BY_HAND}")
    if not _is_alone(scope, branch):
        raise Refusal(f"{scope.quote(branch.test)} shares its line, or stands in an `elif`; {_BY_HAND}")
    name = _own_attribute(scope, target.value if isinstance(target, ast.Subscript) else target)
    if name is None or scope.function.owner is None:
        raise Refusal(f"{scope.quote(target)} is kept on another object than `self`; {_BY_HAND}")
    _refuse_names(scope, name, branch)
    tests = _alternatives(branch.test)
    if isinstance(target, ast.Subscript) or not any(_asks_whether_there(scope, test, name) for test in tests):
        raise Refusal(f"{scope.quote(branch.test)} asks for more than whether it is there; {_BY_HAND}")
    return _in_every_call(scope, branch, statement, name)


def _makes_one_thing(scope: Scope, branch: ast.If, statement: ast.Assign) -> bool:
    """Whether a branch ends in a statement, and sets nothing before but names that it alone uses."""
    if len(statement.targets) > 1 or branch.body[-1] is not statement:
        return False
    for one in branch.body[:-1]:
        name = one.targets[0] if isinstance(one, ast.Assign) and len(one.targets) == 1 else None
        if not isinstance(name, ast.Name) or only_value(scope, name.id, scope.function.node.args) is None:
            return False
        if not all(within(load, branch, scope) for load in loads(scope, name.id)):
            return False
    return True


def _in_every_call(scope: Scope, branch: ast.If, statement: ast.Assign, name: str) -> Rewrite:
    """Make anew in every call what depends on nothing but the sizes, types and device of its input."""
    values = [one.value for one in branch.body if isinstance(one, ast.Assign)]
    if not all(_hangs_on_sizes(scope, value, branch) for value in values) or not is_pure(scope, branch.test):
        raise Refusal(f"it depends on more than the sizes of the input; {_BY_HAND}")
    for function, node in uses_of(scope, name):
        if not isinstance(node.ctx, ast.Load) and function is not None:
            made = _statement_around(scope, function, node)
            if made is not statement and not _sets_none(made):
                raise Refusal(f"line {node.lineno} sets it as well; {_BY_HAND}")
        if function is None or _may_change(scope, function, node):
            raise Refusal(f"line {node.lineno} may change it in place; {_BY_HAND}")
    edits = rw.written(scope.file, (branch, branch.body))
    conditions = (f"every call makes the `{name}` that the first one makes, or one that fits its own input",)
    return Rewrite(f"Make `{name}` in every call", "conditional", edits, conditions)


def _alternatives(test: ast.expr) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]


def _asks_whether_there(scope: Scope, test: ast.expr, name: str) -> bool:
    """Whether a test is `self.name is None` or `not hasattr(self, "name")`."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is) and len(test.ops) == 1:
        nothing = test.comparators[0]
        return isinstance(nothing, ast.Constant) and nothing.value is None and _own_attribute(scope, test.left) == name
    if not isinstance(test, ast.UnaryOp) or not isinstance(test.op, ast.Not) or not isinstance(test.operand, ast.Call):
        return False
    call = test.operand
    named = len(call.args) == 2 and isinstance(call.args[1], ast.Constant) and call.args[1].value == name
    return named and ast.unparse(call.func) == "hasattr" and _is_self(scope, call.args[0])


def _own_attribute(scope: Scope, node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) and _is_self(scope, node.value) else None


def _is_self(scope: Scope, node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and scope.function.owner is not None and node.id == self_name(scope.function)


def _owner(scope: Scope) -> ClassInfo:
    assert scope.function.owner is not None
    return scope.function.owner


def _is_alone(scope: Scope, branch: ast.If) -> bool:
    """Whether an `if` begins its line and has its body on lines of its own."""
    line = scope.file.line(branch.lineno)
    return line.lstrip(" \t").startswith("if") and branch.body[0].lineno > (branch.test.end_lineno or 0)


def _refuse_names(scope: Scope, name: str, branch: ast.stmt) -> None:
    """Make sure that nothing uses an attribute by its name as text, but for the `if` itself.

    Raises:
        Refusal: something does, or a class treats attributes in a way of its own.
    """
    own = set(walk(branch))
    for module, node in scope.project.nodes_with(name):
        if isinstance(node, ast.Constant) and node.value == name and node not in own:
            raise Refusal(f"{module.file.path.name}:{node.lineno} names `{name}` in a string; {_BY_HAND}")
    for cls in scope.project.mro(_owner(scope)):
        if any(hook in cls.methods for hook in ("__setattr__", "__getattr__", "__getattribute__")) or name in cls.body:
            raise Refusal(f"`{cls.name}` treats the attribute in a way of its own; {_BY_HAND}")


def _statement_around(scope: Scope, function: FunctionInfo, node: ast.AST) -> ast.AST:
    parents = scope.project.parents(function)
    while not isinstance(node, ast.stmt) and node in parents:
        node = parents[node]
    return node


def _sets_none(statement: ast.AST) -> bool:
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    single = not isinstance(statement, ast.Assign) or len(statement.targets) == 1
    return single and isinstance(value, ast.Constant) and value.value is None


def _may_change(scope: Scope, function: FunctionInfo, node: ast.Attribute) -> bool:
    """Whether a use of an attribute may change its tensor in place, or hand it to something that does."""
    parents = scope.project.parents(function)
    parent = parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr.endswith("_") or parent.attr == "data"
    if isinstance(parent, ast.Subscript):
        return not isinstance(parent.ctx, ast.Load) or not isinstance(parents.get(parent), ast.BinOp | ast.Compare)
    if isinstance(parent, ast.AugAssign):
        return parent.target is node
    return isinstance(parent, ast.Assign | ast.NamedExpr) and parent.value is node


def _hangs_on_sizes(scope: Scope, value: ast.expr, branch: ast.If) -> bool:
    """Whether an expression only gives a value, and takes from tensors no more than sizes, types and devices.

    Tensors under names that the branch makes are taken whole.
    """
    targets = [one.targets[0] for one in branch.body if isinstance(one, ast.Assign)]
    made = {target.id for target in targets if isinstance(target, ast.Name)}
    for node in walk(value):
        if isinstance(node, ast.Name | ast.Attribute) and not (isinstance(node, ast.Name) and node.id in made):
            kind, parent = scope.kind(node), scope.parents.get(node)
            read = any(isinstance(one, k.Value) and one.source == "data" for one in kind.members)
            asked = isinstance(parent, ast.Attribute) and parent.attr in _ASKED
            counted = isinstance(parent, ast.Call) and ast.unparse(parent.func) == "len"
            if read or (not asked and not counted and k.may_be_tensor(kind)) or isinstance(kind, k.Unknown):
                return False
    return is_pure(scope, value)

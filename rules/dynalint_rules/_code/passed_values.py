"""Values passed to a project function, and how the function uses them."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from dynalint.rulekit import FunctionInfo, Project, k, walk, walk_function
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.names import has_one_value, last_value, loads, stores
from dynalint_rules._code.order import always_runs, may_return_before
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.uses import Attribute, self_name

_EXAMINING = (ast.Attribute, ast.Subscript, ast.Compare, ast.BinOp, ast.UnaryOp, ast.BoolOp)
# Decorators that do not change what a method takes and returns.
_MODES = frozenset({"torch.no_grad", "torch.inference_mode", "torch.enable_grad"})


def asks_for_tensor(scope: Scope, call: ast.Call, argument: ast.expr) -> bool:
    """Return whether the callee tests if the parameter that receives `argument` is a tensor."""
    callee = scope.kind(call.func)
    if not isinstance(callee, k.Function) or callee.args or callee.keywords:
        return False
    name = parameter_of(callee, call, argument)
    return name is not None and any(
        isinstance(node, ast.Call) and _asks(node, name) for node in walk_function(callee.function.node)
    )


def condition_to_record(scope: Scope, target: ast.expr) -> str | None:
    """Return what must hold to store a tensor in place of a number that the module keeps for others to read.

    `target` is an attribute, or an item of a dict in an attribute. Return None if it is anything else, or if a method
    of the project reads it.
    """
    owner = scope.function.owner
    item = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant)
    kept = target.value if isinstance(target, ast.Subscript) and item else target
    if owner is None or not isinstance(kept, ast.Attribute) or not isinstance(kept.value, ast.Name):
        return None
    own = scope.project.is_module_class(owner) and kept.attr not in owner.methods
    if not own or kept.value.id != self_name(scope.function):
        return None
    if item and not isinstance(scope.kind(kept), k.Dictionary):
        return None
    for use in Attribute(owner, kept.attr, scope.project).uses():
        around = use.parent(use.node)
        filled = isinstance(around, ast.Subscript) and isinstance(around.ctx, ast.Store)
        if not use.stored and not (item and filled):
            return None
    if item:
        return f"other code accepts the items of `self.{kept.attr}` as 0-dim tensors"
    return f"other code accepts `self.{kept.attr}` as a 0-dim tensor"


def is_passed_up(scope: Scope) -> bool:
    """Return whether all known callers, up to the compiled root, only return the function's result."""
    function = scope.function
    while (caller := function.caller) is not None:
        parents = scope.project.parents(caller)
        calls = [node for node in walk_function(caller.node) if _calls(node, function.name)]
        if not calls or not all(isinstance(parents.get(node), ast.Return) for node in calls):
            return False
        function = caller
    return True


def is_returned(scope: Scope, node: ast.expr) -> bool:
    """Return whether a value is only returned, possibly inside containers, or by a name that has no other use."""
    parent = scope.parents.get(node)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(name := parent.targets[0], ast.Name):
        reads = list(loads(scope, name.id))
        return has_one_value(scope, name.id) and bool(reads) and all(is_returned(scope, read) for read in reads)
    if isinstance(parent, ast.Return):
        return True
    return isinstance(parent, ast.Tuple | ast.List | ast.Dict) and is_returned(scope, parent)


def is_given_results(scope: Scope, name: str) -> bool:
    """Return whether all uses of a method are calls that pass the result of a computation as `name`.

    Such a tensor is not a leaf.
    """
    calls, passed = results_on_self(scope), []
    for caller, call in calls or ():
        there = Scope(scope.project, caller)
        kind = there.kind(call.func) if isinstance(call, ast.Call) else k.UNKNOWN
        if not isinstance(call, ast.Call) or not isinstance(kind, k.Function):
            return False
        given = (*call.args, *(keyword.value for keyword in call.keywords))
        results = (_is_result(there, value, call) for value in given if parameter_of(kind, call, value) == name)
        passed.append(any(results))
    return bool(passed) and all(passed)


def _is_result(scope: Scope, value: ast.expr, call: ast.Call) -> bool:
    """Return whether an argument, or the value that its variable has at the call, is a new tensor."""
    if not isinstance(value, ast.Name):
        return makes_tensor(scope, value)
    made, given = last_value(scope, value.id, call) or (None, None)
    if made is None or given is None or not makes_tensor(scope, given):
        return False
    return not any(made.lineno < one.lineno < call.lineno for one in stores(scope, value.id))


def results_on_self(scope: Scope) -> list[tuple[FunctionInfo, ast.expr]] | None:
    """Return the calls to a plain method, or the reads of a property, each with the function that contains it.

    Return None unless all of them are on `self` in the same file. The same name on `self` of other classes does not
    count.
    """
    function, project = scope.function, scope.project
    decorators = function.node.decorator_list if isinstance(function.node, ast.FunctionDef) else None
    names = [ast.unparse(one).removesuffix("()") for one in decorators or ()]
    read = names == ["property"]
    if (
        decorators is None
        or function.owner is None
        or function.name == "forward"
        or not (read or _MODES.issuperset(names))
    ):
        return None
    family = Attribute(function.owner, function.name, project).family
    found: list[tuple[FunctionInfo, ast.expr]] = []
    for file, user, node in project.attribute_uses(function.name):
        if user is None or user.owner is None or ast.unparse(node.value) != self_name(user):
            return None
        if user.owner not in family:
            continue  # another class's attribute with the same name
        if file is not scope.file or not isinstance(node.ctx, ast.Load):
            return None
        call = project.parents(user).get(node)
        if not read and not (isinstance(call, ast.Call) and call.func is node):
            return None
        found.append((user, node if read or not isinstance(call, ast.Call) else call))
    return found


def _calls(node: ast.AST, name: str) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return (isinstance(called, ast.Name) and called.id == name) or (
        isinstance(called, ast.Attribute) and called.attr == name
    )


def is_looked_at(project: Project, call: ast.Call, argument: ast.expr, callee: k.Kind) -> bool:
    """Return whether each call looks at an argument. Code of the project may only pass it on, or ignore it."""
    for one in callee.members:
        if isinstance(one, k.Function):
            name, function = parameter_of(one, call, argument), one.function
            reads = (read for read in walk_function(function.node) if isinstance(read, ast.Name) and read.id == name)
            if not any(_is_examined(read, function, project.parents(function)) for read in reads):
                return False
        elif isinstance(one, k.Instance | k.Unknown):
            return False
    return True


def _is_examined(read: ast.Name, function: FunctionInfo, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether each call of a function uses the value of a variable here, and does not just pass it on."""
    user, top = parents[read], parents[read]
    while parents[top] is not function.node:
        top = parents[top]
    tested = isinstance(user, ast.If | ast.IfExp | ast.While) and user.test is read
    used = tested or isinstance(user, _EXAMINING)
    return used and always_runs(read, top, parents) and not may_return_before(function, read)


def parameter_of(callee: k.Function, call: ast.Call, argument: ast.expr) -> str | None:
    """Return the name of the parameter that receives an argument."""
    for keyword in call.keywords:
        if keyword.value is argument:
            return keyword.arg
    if argument not in call.args or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    names = _positional(callee.function)[1 if callee.receiver is not None else 0 :]
    position = call.args.index(argument)
    return names[position] if position < len(names) else None


def _positional(function: FunctionInfo) -> list[str]:
    return [argument.arg for argument in function.positional]


def _asks(node: ast.Call, name: str) -> bool:
    """Return whether a call is `isinstance(name, torch.Tensor)` or `torch.is_tensor(name)`."""
    called, arguments = ast.unparse(node.func), [ast.unparse(one) for one in node.args]
    if called == "isinstance" and len(arguments) == 2:
        return arguments[0] == name and arguments[1] in ("torch.Tensor", "Tensor")
    return called in ("torch.is_tensor", "is_tensor") and arguments == [name]


def is_root_argument(node: ast.expr, function: FunctionInfo) -> bool:
    """Return whether a variable is an argument of compiled code, and nothing else."""
    if not isinstance(node, ast.Name) or function.called_by:
        return False
    stored = {one.id for one in walk(function.node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return node.id not in stored and any(
        one.arg == node.id for one in walk(function.node.args) if isinstance(one, ast.arg)
    )

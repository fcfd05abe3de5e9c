"""What the first call makes and later ones find: made in the constructor, in every call, or for one call alone.

if self.mask is None:                   __init__: self.mask = torch.ones(8)
    self.mask = torch.ones(8)

if self.mask is None:                   self.mask = torch.ones(x.shape[-1])
    self.mask = torch.ones(x.shape[-1])

if n not in self.masks:                 mask = torch.ones(n)
    self.masks[n] = torch.ones(n)
return x * self.masks[n]                return x * mask
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dynalint.analysis import kinds as k
from dynalint.analysis.index import ClassInfo, FunctionInfo
from dynalint.analysis.steps import walk
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.constructors import appended, check_reads, constructor_for, stores_of, uses_of
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.guard import taken_out
from dynalint_rules._shared.memory import may_change_in_place
from dynalint_rules._shared.names import loads, only_value, within
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.text import comments, held_together, indentation
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
        return _for_one_call(scope, branch, statement, name)
    try:
        if len(tests) > 1 or len(branch.body) > 1:
            raise Refusal(f"{scope.quote(branch.test)} asks for more than whether it is there")
        return _in_constructor(scope, branch, statement, name)
    except Refusal as refusal:
        reason = str(refusal)
    return _in_every_call(scope, branch, statement, name, reason)


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


def registered_elsewhere(scope: Scope, call: ast.Call, name: str) -> Rewrite:
    """Return the rewrite of a call that registers a buffer in compiled code: the constructor registers it.

    Raises:
        Refusal: it cannot be made there, or dynalint cannot tell.
    """
    statement = scope.parents.get(call)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method != "register_buffer" or not isinstance(statement, ast.Expr) or len(call.args) < 2:
        raise Refusal("a parameter or a module draws its weights where it is made; make it in the constructor by hand")
    if not isinstance(call.func, ast.Attribute) or not _is_self(scope, call.func.value):
        raise Refusal(f"it is registered in {scope.quote(call.func)}; register it in the constructor by hand")
    branch: ast.stmt = statement
    parent = scope.parents.get(statement)
    if isinstance(parent, ast.If) and not parent.orelse and parent.body == [statement]:
        if not _asks_whether_there(scope, parent.test, name) or not _is_alone(scope, parent):
            shown = scope.quote(parent.test)
            raise Refusal(f"{shown} decides whether it is registered; register it in the constructor by hand")
        branch = parent
    elif statement not in scope.function.statements:
        raise Refusal("not every call registers it; register it in the constructor by hand")
    try:
        _refuse_names(scope, name, branch)
        _refuse_other_changes(scope, name, branch, in_place=branch is statement)
        constructor = constructor_for(scope)
        for argument in (*call.args, *(one.value for one in call.keywords)):
            check_reads(scope, argument, constructor)
        edits = (appended(scope, constructor, scope.text(statement)), *_without(scope, branch))
    except Refusal as refusal:
        raise Refusal(f"{refusal}; register it in the constructor by hand") from None
    conditions = (f"`{name}` is there from the start, in `state_dict()` too unless it is not persistent",)
    return Rewrite(f"Register `{name}` in the constructor", "unsafe", edits, conditions, shown=True)


def _in_constructor(scope: Scope, branch: ast.If, statement: ast.Assign, name: str) -> Rewrite:
    """Make in the constructor what takes nothing from the call."""
    constructor = constructor_for(scope)
    check_reads(scope, statement.value, constructor)
    _refuse_other_changes(scope, name, branch)
    first = _initial(constructor, name)
    value = scope.text(statement.value)
    edits = _without(scope, branch)
    if first is None:
        edits = (appended(scope, constructor, f"{scope.text(statement.targets[0])} = {value}"), *edits)
    else:
        assert first.value is not None
        _refuse_later_reads(scope, statement.value, constructor, first)
        edits = (Replacement(scope.file, *scope.file.span(first.value), value), *edits)
    conditions = (
        f"nothing asks for `{name}` before the first call",
        "the device and dtype that new tensors get are the same in the constructor as in the first call",
    )
    return Rewrite(f"Make `{name}` in the constructor", "conditional", edits, conditions)


def _in_every_call(scope: Scope, branch: ast.If, statement: ast.Assign, name: str, reason: str) -> Rewrite:
    """Make anew in every call what depends on nothing but the sizes, types and device of its input."""
    values = [one.value for one in branch.body if isinstance(one, ast.Assign)]
    if not all(_hangs_on_sizes(scope, value, branch) for value in values) or not is_pure(scope, branch.test):
        raise Refusal(f"{reason}, and it depends on more than the sizes of the input; {_BY_HAND}")
    for function, node in uses_of(scope, name):
        if not isinstance(node.ctx, ast.Load) and function is not None:
            made = _statement_around(scope, function, node)
            if made is not statement and not _sets_none(made):
                raise Refusal(f"line {node.lineno} sets it as well; {_BY_HAND}")
        if function is None or _may_change(scope, function, node):
            raise Refusal(f"line {node.lineno} may change it in place; {_BY_HAND}")
    step = f"{scope.file.newline}{indentation(scope.file, branch.lineno)}"
    inside = [scope.file.span(one) for one in branch.body]
    loose = [text for at, text in comments(scope.file, *scope.file.span(branch)) or () if not _within(at, inside)]
    lines = [*loose, *map(scope.text, branch.body)]
    edit = Replacement(scope.file, *scope.file.span(branch), step.join(lines))
    conditions = (f"every call makes the `{name}` that the first one makes, or one that fits its own input",)
    return Rewrite(f"Make `{name}` in every call", "conditional", (edit,), conditions)


def _within(offset: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= offset < end for start, end in spans)


def _for_one_call(scope: Scope, branch: ast.If, statement: ast.Assign, name: str) -> Rewrite:
    """Put under a local name what a table holds for a key, or a table that is cut to the length asked for."""
    target, value = statement.targets[0], statement.value
    if len(branch.body) > 1 or not _hangs_on_sizes(scope, value, branch) or not is_pure(scope, branch.test):
        raise Refusal(f"{scope.quote(value)} depends on more than the sizes of the input; {_BY_HAND}")
    constructor = scope.project.find_method(_owner(scope), "__init__")
    by_key = isinstance(target, ast.Subscript)
    if not by_key and not _continues(scope, constructor, name, value):
        raise Refusal(f"the constructor may put something else there than the first part of it; {_BY_HAND}")
    block = next(block for block in _blocks(scope.parents[branch]) if branch in block)
    after = {node for one in block[block.index(branch) + 1 :] for node in walk(one)}
    local = scope.fresh_name(name.strip("_").rstrip("s" if by_key else "") or "made")
    edits, own = [], set(walk(branch))
    for function, node in uses_of(scope, name):
        if node in own or (function is constructor and not isinstance(node.ctx, ast.Load)):
            continue
        read = scope.parents.get(node)
        if function is not scope.function or node not in after or not _reads_part(branch, target, node, read):
            raise Refusal(f"line {node.lineno} uses it in another way; {_BY_HAND}")
        assert isinstance(read, ast.Subscript)
        if not _is_only_computed_with(scope, read):
            raise Refusal(f"line {node.lineno} may change it in place, or keep it; {_BY_HAND}")
        edits.append(Replacement(scope.file, *scope.file.span(read if by_key else node), local))
    if not edits or not _keeps_names(branch, after):
        raise Refusal(f"it is not read with what {scope.quote(branch.test)} compares; {_BY_HAND}")
    made = Replacement(scope.file, *scope.file.span(branch), f"{local} = {held_together(scope.text(value))}")
    conditions = (
        f"it is made in every call, and `{name}` stays as the constructor makes it",
        f"what is kept in `{name}` depends on what {scope.quote(branch.test)} compares alone",
    )
    return Rewrite(f"Make what `{name}` keeps in every call", "unsafe", (made, *edits), conditions)


def _continues(scope: Scope, constructor: FunctionInfo | None, name: str, value: ast.expr) -> bool:
    """Whether a table in a buffer begins as one of the same numbers, but for how many there are: `torch.arange(n)`."""
    for statement in constructor.statements if constructor is not None else ():
        if constructor is not None and _registers(statement, name):
            assert isinstance(statement, ast.Expr)
            assert isinstance(statement.value, ast.Call)
            first = statement.value.args[1] if len(statement.value.args) > 1 else None
            kinds = scope.project.kinds(constructor)
            one, other = (None, None) if first is None else (_counted(first), _counted(value))
            if one is None or other is None or ast.unparse(one.func) != ast.unparse(other.func):
                return False
            left, right = kinds.get(one.args[0], k.UNKNOWN), scope.kind(other.args[0])
            alike = isinstance(left, k.Value) and isinstance(right, k.Value) and left.type == right.type
            return alike and [ast.dump(each) for each in one.keywords] == [ast.dump(each) for each in other.keywords]
    return False


def _counted(value: ast.expr) -> ast.Call | None:
    """Return a call of `arange` with an end alone, if that is all there is."""
    counts = isinstance(value, ast.Call) and ast.unparse(value.func).endswith("arange") and len(value.args) == 1
    return value if counts and isinstance(value, ast.Call) else None


def _is_only_computed_with(scope: Scope, read: ast.Subscript) -> bool:
    """Whether what is read is an operand, or goes by a name that is never changed in place nor kept."""
    parent = scope.parents.get(read)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        name = parent.targets[0].id
        return not may_change_in_place(scope, name) and all(
            isinstance(scope.parents.get(load), ast.BinOp | ast.Compare) for load in loads(scope, name)
        )
    return isinstance(parent, ast.BinOp | ast.Compare)


def _reads_part(branch: ast.If, target: ast.expr, node: ast.Attribute, read: ast.AST | None) -> bool:
    """Whether a read is of the item that the branch stores, or of as much of a table as the test asks for."""
    if not isinstance(read, ast.Subscript) or read.value is not node or not isinstance(read.ctx, ast.Load):
        return False
    test = branch.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    left, right, asked = ast.unparse(test.left), ast.unparse(test.comparators[0]), ast.unparse(node)
    if isinstance(target, ast.Subscript):
        stored = ast.unparse(target.slice)
        return isinstance(test.ops[0], ast.NotIn) and (left, right, ast.unparse(read.slice)) == (stored, asked, stored)
    if isinstance(test.ops[0], ast.Lt):
        left, right = right, left
    lengths = (f"{asked}.size(0)", f"{asked}.shape[0]", f"len({asked})")
    if not isinstance(test.ops[0], ast.Gt | ast.Lt) or right not in lengths:
        return False
    first = read.slice.elts[0] if isinstance(read.slice, ast.Tuple) else read.slice
    cut = isinstance(first, ast.Slice) and first.lower is None and first.step is None and first.upper is not None
    return cut and ast.unparse(first.upper) == left  # type: ignore[attr-defined]


def _keeps_names(branch: ast.If, after: set[ast.AST]) -> bool:
    """Whether what the test reads is the same still where the table is read."""
    names = {node.id for node in walk(branch.test) if isinstance(node, ast.Name)}
    return not any(isinstance(one, ast.Name) and one.id in names and not isinstance(one.ctx, ast.Load) for one in after)


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


def _blocks(parent: ast.AST) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list):
            yield block


def _without(scope: Scope, statement: ast.stmt) -> tuple[Replacement, ...]:
    """Return what takes a statement out, with the comments in it."""
    return taken_out(scope, statement, "", "safe").replacements


def _refuse_names(scope: Scope, name: str, branch: ast.stmt) -> None:
    """Make sure that nothing uses an attribute by its name as text, but for the `if` or the registration itself.

    Raises:
        Refusal: something does, or a class treats attributes in a way of its own.
    """
    own = set(walk(branch))
    if isinstance(branch, ast.If) and not any(
        _asks_whether_there(scope, one, name) for one in _alternatives(branch.test)
    ):
        # A table that grows may be a buffer.
        constructor = _owner(scope).methods.get("__init__")
        registrations = (one for one in constructor.statements if _registers(one, name)) if constructor else ()
        own.update(*(walk(one) for one in registrations))
    for module, node in scope.project.nodes_with(name):
        if isinstance(node, ast.Constant) and node.value == name and node not in own:
            raise Refusal(f"{module.file.path.name}:{node.lineno} names `{name}` in a string; {_BY_HAND}")
    for cls in scope.project.mro(_owner(scope)):
        if any(hook in cls.methods for hook in ("__setattr__", "__getattr__", "__getattribute__")) or name in cls.body:
            raise Refusal(f"`{cls.name}` treats the attribute in a way of its own; {_BY_HAND}")


def _registers(statement: ast.stmt, name: str) -> bool:
    """Whether a statement is `self.register_buffer("name", ...)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    first = call.args[0] if call.args else None
    return call.func.attr == "register_buffer" and isinstance(first, ast.Constant) and first.value == name


def _refuse_other_changes(scope: Scope, name: str, branch: ast.stmt, *, in_place: bool = False) -> None:
    """Make sure that nothing else sets an attribute but the constructor, to None, nor asks whether it is there.

    Raises:
        Refusal: something does, or, with `in_place`, may change the tensor in place.
    """
    own = set(walk(branch))
    for function, node in uses_of(scope, name):
        if node in own:
            continue
        if function is None:
            raise Refusal(f"line {node.lineno} uses it from outside the class")
        statement = _statement_around(scope, function, node)
        if not isinstance(node.ctx, ast.Load):
            if function.name != "__init__" or function.owner is not scope.function.owner or not _sets_none(statement):
                raise Refusal(f"line {node.lineno} sets it as well")
        elif isinstance(scope.project.parents(function).get(node), ast.Compare):
            raise Refusal(f"line {node.lineno} compares it as well")
        elif in_place and _may_change(scope, function, node):
            raise Refusal(f"line {node.lineno} may change it in place")


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


def _initial(constructor: FunctionInfo, name: str) -> ast.Assign | ast.AnnAssign | None:
    """Return the statement of a constructor that sets an attribute to None."""
    for one in constructor.statements:
        if isinstance(one, ast.Assign | ast.AnnAssign):
            target = one.targets[0] if isinstance(one, ast.Assign) else one.target
            if isinstance(target, ast.Attribute) and target.attr == name:
                return one
    return None


def _refuse_later_reads(
    scope: Scope, value: ast.expr, constructor: FunctionInfo, first: ast.Assign | ast.AnnAssign
) -> None:
    """Make sure that what an expression reads of `self` is set before a statement of the constructor.

    Raises:
        Refusal: it is set afterwards.
    """
    for node in walk(value):
        if isinstance(node, ast.Attribute) and _is_self(scope, node.value):
            for function, store in stores_of(scope, node.attr):
                if function is constructor and store.lineno >= first.lineno:
                    raise Refusal(f"the constructor sets {scope.quote(node)} later")


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

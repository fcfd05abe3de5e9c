"""Elements that a mask selects only for `bincount` to count them: what is not selected counts for nothing.

found = labels[mask]                                 found = torch.where(mask, labels, 0)
if found.shape[0] == 0:                              counts = mask.new_zeros(n, dtype=torch.int64).scatter_add(
    counts = torch.zeros(n)                              0, found.long(), mask.long()
else:                                                ).float()
    counts = torch.bincount(found.long(), minlength=n).float()
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.rules import Replacement, Rewrite, Settled
from dynalint_rules._shared.blocks import is_elif, statements_after
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.counts import count_of
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.masked_reductions import Selection, matches, may_match
from dynalint_rules._shared.memory import changed_between
from dynalint_rules._shared.names import loads, only_value, statement_of, within
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import comments

_TITLE = "Count all in bins, with nothing added where nothing is selected"
_CONVERSIONS = ("long", "int")
_WHOLE, _FLOAT = ("int64", "long"), ("float32", "float")


@dataclass(frozen=True)
class _Binned:
    """`call` counts the values `source` in `bins`."""

    call: ast.Call
    source: ast.expr
    bins: ast.expr


def counted_in_bins(scope: Scope, read: Selection) -> Rewrite | None:
    """Return the rewrite of a selection of which nothing but `torch.bincount` takes the elements, else None."""
    mask, statement = read.mask, statement_of(scope, read.node)
    if (
        not isinstance(mask, ast.Name)
        or mask.id not in scope.function.locals
        or not may_match(scope, read)
        or not is_pure(scope, read.source)
    ):
        return None
    binned, test = _binned(scope, _converted(scope, read.node)), None
    if binned is None:
        found = _by_name(scope, read, statement)
        if found is None:
            return None
        binned, test = found
    last = test or statement_of(scope, binned.call)
    if changed_between(scope, mask.id, statement, last) or not is_pure(scope, binned.bins):
        return None
    flat = "" if _is_flat(scope, mask) or _is_flat(scope, read.source) else ".flatten()"
    chosen = f"{scope.torch}.where({mask.id}, {scope.text(read.source)}, 0){flat}"
    file = scope.file
    source, edits = scope.text(binned.source), []
    if within(read.node, binned.call, scope):
        first, end = (at - file.span(binned.source)[0] for at in file.span(read.node))
        source = source[:first] + chosen + source[end:]
    else:
        edits.append(Replacement(file, *file.span(read.node), chosen))
    whole = _ends_in_long(binned.source) or _ends_in_long(_converted(scope, read.node))
    added = f"{mask.id}{flat}.long()"
    zeros = f"{mask.id}.new_zeros({scope.text(binned.bins)}, dtype={scope.torch}.int64)"
    new = f"{zeros}.scatter_add(0, {source if whole else f'{source}.long()'}, {added})"
    conditions: list[str] = []
    if test is None:
        edits.append(Replacement(file, *file.span(binned.call), new))
    else:
        counted = _full_side(scope, test, binned)
        if counted is None:
            return None
        side, conditions = counted
        start, (first, end) = file.span(side)[0], file.span(binned.call)
        text = scope.text(side)
        edits.append(Replacement(file, *file.span(test), text[: first - start] + new + text[end - start :]))
    # The other side gives what counting nothing gives, so that no input has to reach it.
    settled = () if test is None else (Settled(file, *file.span(test.test), _is_full_first(test)),)
    conditions.append(f"all that is selected is below {scope.quote(binned.bins)}")
    if not matches(scope, read):
        conditions.insert(0, f"the mask has as many dimensions as {scope.quote(read.source)}")
    return Rewrite(_TITLE, "conditional", tuple(edits), tuple(conditions), scope.imports, settled=settled)


def _by_name(scope: Scope, read: Selection, statement: ast.stmt) -> tuple[_Binned, ast.If | None] | None:
    """The one use of a name that the selected elements get, and the `if` that asks whether there are any."""
    if not isinstance(statement, ast.Assign) or statement.value is not _converted(scope, read.node):
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or only_value(scope, target.id, read.node) is not statement.value:
        return None
    binned: _Binned | None = None
    test: ast.If | None = None
    after = statements_after(scope, statement)
    for use in loads(scope, target.id):
        if not any(within(use, one, scope) for one in after):
            return None
        found, asked = _binned(scope, _converted(scope, use)), count_of(scope, use)
        if found is not None and binned is None:
            binned = found
        elif asked is not None and test is None and (test := _test_of(scope, asked.node)) is not None:
            continue
        else:
            return None
    if binned is None or _in_loop(scope, binned.call, statement):
        return None
    return None if test is not None and not within(binned.call, test, scope) else (binned, test)


def _binned(scope: Scope, source: ast.expr) -> _Binned | None:
    """The `torch.bincount(source, minlength=bins)` or `source.bincount(minlength=bins)` around some values."""
    parent = scope.parents[source]
    call = scope.parents[parent] if isinstance(parent, ast.Attribute) and parent.value is source else parent
    if not isinstance(call, ast.Call) or [one.arg for one in call.keywords] != ["minlength"]:
        return None
    name = callee(scope, call)
    fits = (name == "torch.bincount" and call.args == [source]) or (name == "Tensor.bincount" and not call.args)
    return _Binned(call, source, call.keywords[0].value) if fits else None


def _converted(scope: Scope, node: ast.expr) -> ast.expr:
    """Return the outermost `.long()` around an expression."""
    parent = scope.parents[node]
    call = scope.parents[parent] if isinstance(parent, ast.Attribute) and parent.attr in _CONVERSIONS else None
    if isinstance(call, ast.Call) and call.func is parent and not call.args and not call.keywords:
        return _converted(scope, call)
    return node


def _ends_in_long(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "long"


def _test_of(scope: Scope, count: ast.expr) -> ast.If | None:
    """The `if` whose test compares a count with zero and is nothing else."""
    compare = scope.parents[count]
    statement = scope.parents[compare]
    if not isinstance(compare, ast.Compare) or compare.left is not count or len(compare.ops) != 1:
        return None
    zero, known = compare.comparators[0], isinstance(compare.ops[0], ast.Eq | ast.NotEq | ast.Gt)
    if not known or not isinstance(zero, ast.Constant) or zero.value != 0:
        return None
    alone = isinstance(statement, ast.If) and statement.test is compare and not is_elif(scope, statement)
    return statement if alone and isinstance(statement, ast.If) else None


def _full_side(scope: Scope, test: ast.If, binned: _Binned) -> tuple[ast.Assign, list[str]] | None:
    """The side of an `if` that counts, where the other one gives zeros, and on what conditions these are the same."""
    full, empty = (test.body, test.orelse) if _is_full_first(test) else (test.orelse, test.body)
    if len(full) != 1 or len(empty) != 1 or comments(scope.file, *scope.file.span(test)) != []:
        return None
    (one,), (other,) = full, empty
    if not isinstance(one, ast.Assign) or not isinstance(other, ast.Assign) or one.lineno != one.end_lineno:
        return None
    if list(map(ast.dump, one.targets)) != list(map(ast.dump, other.targets)) or len(one.targets) != 1:
        return None
    zeros, converted = other.value, one.value is not binned.call
    if converted and one.value is not _floated(scope, binned.call):
        return None
    if not isinstance(one.targets[0], ast.Name) or not isinstance(zeros, ast.Call) or not is_pure(scope, zeros):
        return None
    if callee(scope, zeros) != "torch.zeros" or list(map(ast.dump, zeros.args)) != [ast.dump(binned.bins)]:
        return None
    keywords = {keyword.arg: keyword.value for keyword in zeros.keywords}
    if not keywords.keys() <= {"dtype", "device"}:
        return None
    conditions = ["both sides are on one device"]
    if "dtype" in keywords:
        same = [f"{scope.torch}.{name}" for name in (_FLOAT if converted else _WHOLE)]
        return (one, conditions) if ast.unparse(keywords["dtype"]) in same else None
    if not converted or any("set_default_" in module.file.text for module in scope.project.modules.values()):
        return None
    return one, [*conditions, "the default dtype is that of `float()`"]


def _is_full_first(test: ast.If) -> bool:
    """Whether the body of an `if` is for what is not empty."""
    return not isinstance(test.test, ast.Compare) or not isinstance(test.test.ops[0], ast.Eq)


def _floated(scope: Scope, call: ast.Call) -> ast.expr | None:
    """The `.float()` around a call."""
    parent = scope.parents[call]
    outer = scope.parents[parent] if isinstance(parent, ast.Attribute) and parent.attr == "float" else None
    return outer if isinstance(outer, ast.Call) and not outer.args and not outer.keywords else None


def _is_flat(scope: Scope, node: ast.expr) -> bool:
    tensor = scope.tensor(node)
    return tensor is not None and tensor.rank == 1


def _in_loop(scope: Scope, node: ast.AST, beside: ast.stmt) -> bool:
    """Whether there is a loop or a function of its own around `node` that is not around `beside`."""
    while node is not scope.parents[beside]:
        if isinstance(node, ast.For | ast.While | ast.AsyncFor | ast.FunctionDef | ast.Lambda | ast.comprehension):
            return True
        node = scope.parents[node]
    return False

"""Statements that only run in eager code, or that are removed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import takewhile
from typing import TYPE_CHECKING

from dynalint.rulekit import Call, Refusal, Replacement, Rewrite, Safety, k, remembered, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.eager import all_of, is_eager
from dynalint_rules._code.effects import SHOWS, is_pure, only_shows_values
from dynalint_rules._code.names import around, lineage, loads, within
from dynalint_rules._code.raising import never_raises
from dynalint_rules._code.scope import Scope, shared
from dynalint_rules._code.uses import self_name
from dynalint_rules._shared.branch.blocks import is_elif
from dynalint_rules._shared.guard.skipping import check_arguments, is_caught, may_go_unasked
from dynalint_rules._shared.text import WIDTH

if TYPE_CHECKING:
    import libcst as cst


def guarded(
    scope: Scope,
    event: Call,
    title: str,
    *,
    alike: Callable[[ast.Call], bool] | None = None,
    safety: Safety = "safe",
    conditions: tuple[str, ...] = (),
) -> Rewrite:
    """Put the statement that makes a call under `if not torch.compiler.is_compiling():`.

    Adjacent statements with `alike` calls are put under the same test, with the comments between them, and so are loops
    that do nothing else.

    Raises:
        Refusal: If the value of the call is used, or its arguments have side effects.
    """
    statement = own_statement(scope, event)
    check_arguments(scope, event.node)
    refuse_without_tensors(scope)
    together = _with_test(scope, statement)
    if together is not None:
        return replace(together, title=title, safety=safety, conditions=conditions)
    run: list[ast.stmt] = [statement]
    if alike is not None:
        outermost = _outermost(scope, statement)
        run = remembered((title, outermost), lambda: _neighbours(scope, outermost, alike))
        for other in run:
            remembered((title, other), lambda: run)
    run = [*_computed_for(scope, run), *run]
    return Rewrite(title, safety, _behind_guard(scope, run), conditions, imports=scope.imports)


def shown_in_eager(scope: Scope, read: ast.expr) -> Rewrite | None:
    """Return the rewrite of a statement that only shows what `read` reads from a tensor, or None for any other use.

    Raises:
        Refusal: If the arguments of the statement have side effects.
    """
    node: ast.AST = read
    while isinstance(node, ast.expr | ast.keyword) and node in scope.parents:
        node = scope.parents[node]
    shown = next(iter(around(scope.parents, node)[1]), None) if isinstance(node, ast.Assign) else node
    call = shown.value if isinstance(shown, ast.Expr) else None
    if not isinstance(shown, ast.Expr) or not isinstance(call, ast.Call) or not callee(scope, call).startswith(SHOWS):
        return None
    before = _computed_for(scope, [shown])
    if node not in (*before, shown):
        return None
    check_arguments(scope, call)
    title, run = "Show the number only in eager mode", [*before, shown]
    return _with_test(scope, shown) or Rewrite(title, "safe", _behind_guard(scope, run), imports=scope.imports)


def _computed_for(scope: Scope, run: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements right before a run that only compute what it shows from tensors."""
    found: list[ast.stmt] = []
    for one in reversed(around(scope.parents, run[0])[0]):
        if not isinstance(one, ast.Assign) or not is_pure(scope, one.value) or not asks_tensor(scope, one.value):
            break
        read = any(next(loads(scope, name.id), None) for name in one.targets if isinstance(name, ast.Name))
        if not read or not _stays_inside(scope, one, one.value, [*found, *run]):
            break
        found.insert(0, one)
    return found


def _with_test(scope: Scope, statement: ast.stmt) -> Rewrite | None:
    """Return the rewrite of the whole `if` around a statement if the `if` does nothing but show values."""
    parent = scope.parents[statement]
    if not isinstance(parent, ast.If) or (len(parent.body) == 1 and len(_reports_around(scope, parent)) < 2):
        return None
    return asked_in_eager(scope, parent)


def asked_in_eager(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite that only evaluates a test in eager code, or None if the test affects more than output."""
    if statement.orelse or is_elif(scope, statement):
        return None
    parts = all_of(statement.test)
    if any(map(is_eager, parts)) or not all(may_go_unasked(scope, part) for part in parts):
        return None
    if not only_shows(scope, statement.body):
        return None
    run = _reports_around(scope, statement) or [statement]
    tree = rw.Tree.around(scope.file, statement)
    guarded = rw.branch(eager_test(scope), [tree.line(one) for one in run])
    whole = rw.Substitution(tuple(map(tree.statement, run)), (guarded,))
    joined = _joined_to_branch(scope, tree, statement.body) if len(run) == 1 else None
    edits = joined or rw.replacements(tree, [whole])
    return Rewrite("Test only in eager mode; compiled code has no output", "safe", edits, imports=scope.imports)


def _reports_around(scope: Scope, statement: ast.If) -> list[ast.stmt]:
    """Return the adjacent `if` statements around one that only decide about output, or none if it does anything else.

    A single test for eager code around all of them is shorter than one in each.
    """

    def reports(one: ast.stmt) -> bool:
        if not isinstance(one, ast.If) or one.orelse or is_elif(scope, one) or not asks_tensor(scope, one.test):
            return False
        return (
            not any(map(is_eager, all_of(one.test))) and may_go_unasked(scope, one.test) and only_shows(scope, one.body)
        )

    if not reports(statement):
        return []
    earlier, later = around(scope.parents, statement)
    return [*reversed(list(takewhile(reports, reversed(earlier)))), statement, *takewhile(reports, later)]


def only_shows(scope: Scope, body: Sequence[ast.stmt]) -> bool:
    """Return whether statements do nothing but print, log, and compute the values that they show."""
    calls = [one.value for one in body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)]
    made = [one for one in body if isinstance(one, ast.Assign)]
    inner = [one for one in body if isinstance(one, ast.If) and not one.orelse]
    loops = [one for one in body if isinstance(one, ast.For) and not one.orelse]
    if not (calls or inner or loops) or len(calls) + len(made) + len(inner) + len(loops) < len(body):
        return False
    asked = [one for one in inner if not is_eager(one.test)]  # compiled code skips the others
    if not all(may_go_unasked(scope, one.test) and only_shows(scope, one.body) for one in asked):
        return False
    if not all(callee(scope, one).startswith(SHOWS) or only_shows_values(scope, one) for one in calls):
        return False
    if not all(is_pure(scope, one.value) and _stays_inside(scope, one, one.value, body) for one in made):
        return False
    for loop in loops:
        inside = _stays_inside(scope, loop, loop.iter, body) and only_shows(scope, loop.body)
        if not inside or not is_pure(scope, loop.iter):
            return False
    try:
        for one in calls:
            check_arguments(scope, one)
    except Refusal:
        return False
    return True


def _stays_inside(scope: Scope, made: ast.Assign | ast.For, value: ast.expr, body: Sequence[ast.stmt]) -> bool:
    """Return whether what a statement assigns from `value` is only read by statements in the same block."""
    if is_caught(scope, made) and not never_raises(scope, value):
        return False
    targets = made.targets if isinstance(made, ast.Assign) else [made.target]
    if isinstance(made, ast.For) and isinstance(made.target, ast.Tuple):
        targets = made.target.elts
    names = [one.id for one in targets if isinstance(one, ast.Name) and one.id in scope.function.locals]
    reads = [read for name in names for read in loads(scope, name) if not _has_own_loop(scope, read, made)]
    return len(names) == len(targets) and all(any(within(one, other, scope) for other in body) for one in reads)


def _has_own_loop(scope: Scope, read: ast.Name, made: ast.stmt) -> bool:
    """Return whether a name is read in the body of another loop that assigns it."""
    loops = [one for one in lineage(scope, read) if isinstance(one, ast.For) and one is not made]
    assigning = [one for one in loops if any(getattr(name, "id", "") == read.id for name in walk(one.target))]
    return any(within(read, part, scope) for one in assigning for part in one.body)


def guarded_all(scope: Scope, statements: Sequence[ast.stmt], title: str) -> Rewrite:
    """Run statements only in eager code. Consecutive statements share a test."""
    behind = tuple(one for run in _runs(scope, statements) for one in _behind_guard(scope, run))
    return Rewrite(title, "safe", behind, imports=scope.imports)


def _behind_guard(scope: Scope, run: Sequence[ast.stmt]) -> tuple[Replacement, ...]:
    """Return the replacements that put consecutive statements under one test."""

    def found() -> tuple[Replacement, ...]:
        tree = rw.Tree.around(scope.file, run[0])
        joined = _joined_to_branch(scope, tree, run)
        if joined is not None:
            return joined
        guarded = rw.branch(eager_test(scope), [tree.line(one) for one in run])
        return rw.replacements(tree, [rw.Substitution(tuple(tree.statement(one) for one in run), (guarded,))])

    return shared((_behind_guard, scope.function, run[0], run[-1]), found)  # for each statement of the run


def _joined_to_branch(scope: Scope, tree: rw.Tree, run: Sequence[ast.stmt]) -> tuple[Replacement, ...] | None:
    """Return the replacements that extend the test of an `if` with these statements as its body, or None if unsafe.

    The new condition comes before a test of data or of changing state, and after any other test. Tests of data would
    also break the graph, and tests of state such as counters recompile the function.
    """
    branch = scope.parents[run[0]]
    if not isinstance(branch, ast.If) or branch.orelse or branch.body != list(run):
        return None
    others = [part for part in all_of(branch.test) if not is_eager(part)]
    first = any(asks_tensor(scope, part) or _asks_state(scope, part) for part in others)
    skipped = all(may_go_unasked(scope, part) for part in others)
    if not others or (not skipped and any(asks_tensor(scope, part) for part in others)):
        return None
    first = skipped and first
    old, guard = tree.statement(branch), eager_test(scope)
    test = tree.expression(branch.test)
    if len(others) < len(all_of(branch.test)):
        test = reduce(lambda one, other: rw.operation(one, "and", other), map(tree.expression, others))
    added = len(f" and not {scope.torch}.compiler.is_compiling()")
    line = branch.test.end_lineno or branch.lineno
    fits = len(scope.file.line(line)) + added <= WIDTH
    behind = branch.body[0].lineno == line  # `if verbose: print(x)`, whose body may have a line of its own
    if not fits and not (behind and (branch.test.end_col_offset or 0) + len(":") + added <= WIDTH):
        return None
    both = rw.operation(guard, "and", test) if first else rw.operation(test, "and", guard)
    new = rw.asking(old, both)
    if len(run) == 1 and isinstance(run[0], ast.If) and is_eager(run[0].test) and not run[0].orelse:
        new = new.with_changes(body=rw.block([tree.line(one) for one in run[0].body]))  # asked once is enough
    elif not fits:
        new = rw.branch(both, [tree.line(one) for one in run])
    return rw.replacements(tree, [rw.Substitution((old,), (new,))])


def eager_test(scope: Scope) -> cst.BaseExpression:
    """Return `not torch.compiler.is_compiling()`."""
    return rw.negation(compiling(scope))


def compiling(scope: Scope) -> cst.BaseExpression:
    """Return `torch.compiler.is_compiling()`."""
    return rw.call(f"{scope.torch}.compiler.is_compiling")


def asks_tensor(scope: Scope, test: ast.expr) -> bool:
    """Return whether a test depends on a tensor, or on a number that is read from one."""
    if isinstance(test, ast.BoolOp):
        return any(asks_tensor(scope, value) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return asks_tensor(scope, test.operand)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In | ast.NotIn):
        return any(scope.tensor(one) is not None for one in (test.left, *test.comparators))
    return scope.tensor(test) is not None or any(_is_read(scope.kind(node)) for node in walk(test))


def _asks_state(scope: Scope, test: ast.expr) -> bool:
    """Return whether a test reads an attribute of `self` that a method other than the constructor assigns."""
    owner, own = scope.function.owner, self_name(scope.function)
    read = (one.attr for one in walk(test) if isinstance(one, ast.Attribute) and ast.unparse(one.value) == own)
    return owner is not None and any(
        function.name != "__init__" for name in read for function, _ in owner.stores.get(name, ())
    )


def _is_read(kind: k.Kind) -> bool:
    """Return whether a value is read from a tensor, which breaks the graph."""
    return isinstance(kind, k.Value) and kind.source == "data"


def _runs(scope: Scope, statements: Sequence[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Yield lists of consecutive statements, in source order."""
    run: list[ast.stmt] = []
    for statement in sorted(statements, key=lambda one: one.lineno):
        earlier = around(scope.parents, statement)[0]
        if run and earlier and earlier[-1] is run[-1]:
            run.append(statement)
        else:
            if run:
                yield run
            run = [statement]
    if run:
        yield run


def removed(scope: Scope, event: Call, title: str, safety: Safety, conditions: tuple[str, ...] = ()) -> Rewrite:
    """Remove the statement that makes a call, and its line if there is nothing else on it.

    Raises:
        Refusal: If the value of the call is used, or its arguments have side effects.
    """
    statement = own_statement(scope, event)
    check_arguments(scope, event.node)
    tree = rw.Tree.around(scope.file, statement)
    gone = rw.replacements(tree, [rw.Substitution((tree.statement(statement),), ())])
    return Rewrite(title, safety, gone, conditions)


def own_statement(scope: Scope, event: Call) -> ast.Expr:
    """Return the statement that consists only of the call in `event`.

    Raises:
        Refusal: If the call is part of a larger expression.
    """
    statement = scope.parents.get(event.node)
    if isinstance(statement, ast.Expr):
        return statement
    raise Refusal(f"{scope.quote(event.node)} is part of a larger expression; make it a separate statement")


def refuse_without_tensors(scope: Scope) -> None:
    """Ensure that a function computes with tensors, or does nothing but show values.

    A guard in a constructor or in code that downloads files, for example, would be noise: all of it belongs elsewhere.

    Raises:
        Refusal: If it does something else.
    """
    function, project = scope.function, scope.project
    made = function.name == "__init__"
    own = function.owner is not None and project.is_module_class(function.owner) and not made
    if own or function.caller is None or not isinstance(function.node, ast.FunctionDef):
        return
    shown = function.node.body[ast.get_docstring(function.node) is not None :]
    if only_shows(scope, shown) or (not made and any(_computes(scope, node) for node in walk(function.node))):
        return
    what = "is a constructor" if made else "computes with no tensor"
    raise Refusal(f"`{function.name}` {what}; call it outside of the compiled code")


def _computes(scope: Scope, node: ast.AST) -> bool:
    """Return whether a node has a tensor, or arithmetic with a value that may be one."""
    if not isinstance(node, ast.expr):
        return False
    tensor = k.only_tensor(scope.kind(node))
    if tensor is not None:
        return not tensor.array
    return isinstance(node, ast.BinOp) and any(k.may_be_tensor(scope.kind(one)) for one in (node.left, node.right))


def _outermost(scope: Scope, statement: ast.stmt) -> ast.stmt:
    """Return the outermost of the loops around a statement that do nothing but show values, or the statement itself."""
    loop = scope.parents.get(statement)
    while isinstance(loop, ast.For) and only_shows(scope, [loop]):
        statement, loop = loop, scope.parents.get(loop)
    return statement


def _neighbours(scope: Scope, statement: ast.stmt, alike: Callable[[ast.Call], bool]) -> list[ast.stmt]:
    """Return `statement` and the statements around it that can go under the same test."""

    def fits(one: ast.stmt) -> bool:
        if isinstance(one, ast.For):
            return only_shows(scope, [one])
        if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and alike(one.value)):
            return False
        try:
            check_arguments(scope, one.value)
        except Refusal:
            return False
        return True

    if not fits(statement):
        return [statement]
    earlier, later = around(scope.parents, statement)
    before = list(takewhile(fits, reversed(earlier)))
    return [*reversed(before), statement, *takewhile(fits, later)]

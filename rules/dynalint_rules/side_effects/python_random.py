"""DYN407: Python's `random` module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.rulekit import (
    Call,
    Declined,
    Project,
    Refusal,
    Rule,
    Violation,
    k,
    leads_to_raise,
    walk,
)
from dynalint_rules._code.calls import callee
from dynalint_rules._code.order import always_before
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.size_arguments import sizes

_UNTRACED = (
    "random gauss choice choices sample shuffle seed getrandbits getstate setstate normalvariate betavariate "
    "expovariate triangular lognormvariate vonmisesvariate gammavariate paretovariate weibullvariate "
    "randbytes binomialvariate"
).split()
_TRACED = ("uniform", "randint", "randrange")
# From torch 2.14 on, Dynamo runs these functions once, during tracing, and keeps the result in the graph.
_RUN_ONCE = frozenset({"sample", "shuffle", "seed"})
# The other methods of a `random.Random` that Dynamo traces.
_OF_OBJECTS = frozenset({"random", "seed", "getstate", "setstate"})
_OBJECT = "random.Random."
# Only numbers and tensors can be compared with a number like this, and a test of either breaks the graph.
_ORDERING = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_CONVERSIONS = ("builtins.int", "builtins.float", "builtins.round")


class PythonRandom(Rule):
    code = "DYN407"
    name = "python-random"
    summary = "Random numbers from Python's `random` module break the graph"
    gb = ("GB0007", "GB0008", "GB0156", "GB0170", "GB0213", "GB0033", "GB0124", "GB0178", "GB4841")
    events = (Call,)
    calls = frozenset(
        [f"random.{name}" for name in (*_UNTRACED, *_TRACED)]
        + [f"{_OBJECT}{name}" for name in (*_UNTRACED, *_TRACED) if name not in _OF_OBJECTS or name == "random"]
    )

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call or, if Dynamo traces the function, the uses of the number that it does not trace."""
        if leads_to_raise(event, project):
            return
        name = event.callee.rpartition(".")[2]
        traced = name in _TRACED or (name == "random" and event.callee.startswith(_OBJECT))
        if not traced:
            yield Violation(
                event.node,
                f"`{event.callee}()` breaks the graph",
                help="generate the number with `torch.rand`, or generate it outside the compiled code and pass it "
                "in as an argument",
                torch="<2.14" if name == "random" or name in _RUN_ONCE else "",
            )
        if name in _RUN_ONCE:
            yield Violation(
                event.node,
                f"`{event.callee}()` only runs during tracing, and every later call reuses its result",
                help="call it outside the compiled code, and pass the result in as an argument",
                category="miscompile",
                torch=">=2.14",
            )
        for node in _untraced_uses(event, project) if traced or name == "random" else ():
            yield Violation(
                node,
                f"Python needs the number from `{event.callee}()` here, which breaks the graph",
                help="generate the number outside the compiled code, or select with `torch.where`",
                torch="" if traced else ">=2.14",
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Declined:
        """Offer no fix, because any replacement would draw a different number."""
        if event.callee.startswith(_OBJECT):
            return Declined(
                "the numbers come from a separate generator; generate them outside the compiled code and pass them "
                "in as an argument"
            )
        return Declined("Python needs the number; generate it outside the compiled code and pass it in as an argument")


def _untraced_uses(event: Call, project: Project) -> Iterator[ast.expr]:
    """Yield the uses of a number that Dynamo cannot trace.

    If there are more of these uses in a row, only the first is included, because after the break that it causes, the
    number is a Python number and an input to the next graph.
    """
    try:
        scope = Scope.of(event, project)
    except Refusal:
        return
    uses = [node for node in (event.node, *_reads(scope, event.node)) if _is_untraced(scope, node)]
    for use in uses:
        if not any(always_before(other, use, scope.parents) for other in uses if other is not use):
            yield use


def _reads(scope: Scope, node: ast.expr) -> Iterator[ast.expr]:
    """Yield the reads of the variable that holds a drawn number, as long as it holds that number."""
    statement = scope.parents.get(node)
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return
    where: list[ast.AST] = [scope.function.node]
    arguments = {one.arg for one in walk(scope.function.node.args) if isinstance(one, ast.arg)}
    if target.id in arguments or len(list(_named(where[0], target.id, ast.Store))) > 1:
        where = list(_behind(statement, target.id, scope))
    for place in where:
        yield from _named(place, target.id, ast.Load)


def _named(place: ast.AST, name: str, context: type[ast.expr_context]) -> Iterator[ast.Name]:
    for one in walk(place):
        if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, context):
            yield one


def _behind(statement: ast.stmt, name: str, scope: Scope) -> Iterator[ast.stmt]:
    """Yield the statements after an assignment, or after the `if n is None:` around it, up to the next assignment."""
    place = scope.parents.get(statement)
    if not (
        isinstance(place, ast.If) and isinstance(place.test, ast.Compare) and isinstance(place.test.ops[0], ast.Is)
    ):
        place = statement
    parent = scope.parents.get(place)
    blocks = (getattr(parent, field, None) for field in ("body", "orelse", "finalbody"))
    block = next((one for one in blocks if isinstance(one, list) and place in one), [])
    for one in block[block.index(place) + 1 :] if block else ():
        if any(_named(one, name, ast.Store)):
            return
        yield one


def _is_untraced(scope: Scope, node: ast.expr) -> bool:
    """Return whether `node` is tested, combined with a Python number, converted, or used as an index or size."""
    parent = scope.parents.get(node)
    if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert):
        return node is parent.test
    if isinstance(parent, ast.BoolOp | ast.UnaryOp):
        return True
    if isinstance(parent, ast.Compare):
        others = [scope.kind(one) for one in (parent.left, *parent.comparators) if one is not node]
        ordered = all(isinstance(one, _ORDERING) for one in parent.ops)
        known = all(k.is_number(one) or (ordered and isinstance(one, k.Unknown)) for one in others)
        return known and _is_untraced(scope, parent)
    if isinstance(parent, ast.BinOp):
        other = parent.right if node is parent.left else parent.left
        return k.is_number(scope.kind(other))
    if isinstance(parent, ast.Slice):
        return True
    if isinstance(parent, ast.Subscript):
        return node is parent.slice
    if isinstance(parent, ast.Tuple | ast.List):
        call = scope.parents.get(parent)
        return isinstance(call, ast.Call) and parent in sizes(callee(scope, call), call)
    if isinstance(parent, ast.keyword):
        call = scope.parents.get(parent)
        return isinstance(call, ast.Call) and node in sizes(callee(scope, call), call)
    if isinstance(parent, ast.Call):
        name = callee(scope, parent)
        return node in parent.args and (name in _CONVERSIONS or node in sizes(name, parent))
    return False

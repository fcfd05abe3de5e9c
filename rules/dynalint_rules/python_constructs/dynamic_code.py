"""DYN704: code from text, and the names that code can see."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from dynalint.rulekit import (
    Call,
    Declined,
    FunctionInfo,
    Project,
    Rewrite,
    Rule,
    Violation,
    k,
    leads_to_raise,
    rw,
    walk,
)
from dynalint_rules._code.names import loads, only_value
from dynalint_rules._code.scope import Scope

_OWN_SCOPE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr, ast.Await)


class DynamicCode(Rule):
    code = "DYN704"
    name = "dynamic-code"
    summary = "Running code from a string, or inspecting the namespace, breaks the graph"
    gb = ("GB0059", "GB0007", "GB0193")
    events = (Call,)
    calls = frozenset(
        {
            "builtins.eval",
            "builtins.exec",
            "builtins.compile",
            "builtins.globals",
            "builtins.dir",
            "builtins.__import__",
            "importlib.import_module",
            "importlib.__import__",
        }
    )

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call, unless it is an `eval` that Dynamo can work out."""
        if leads_to_raise(event, project):
            return
        if event.callee == "builtins.eval" and not _names_something(event):
            return
        yield Violation(
            event.node,
            f"`{event.callee.removeprefix('builtins.')}()` breaks the graph: Dynamo traces only code that it can see",
            help="use `getattr` or a dict of functions, or look the name up in the constructor",
        )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Write out what stands in the text; decline where the text has to be worked out."""
        scope = Scope.of(event, project)
        rewrite = _written_out(scope, event) or _looked_up(scope, event) or _stored(scope, event.node)
        if rewrite is not None:
            return rewrite
        return Declined(
            "the code does not show what is intended; use `getattr`, a dict, or look it up in the constructor"
        )


def _names_something(event: Call) -> bool:
    """Whether the text that is evaluated is certainly an expression with names in it."""
    given = event.node.args[0] if event.node.args else None
    if isinstance(given, ast.JoinedStr):
        return any(isinstance(part, ast.Constant) and "." in str(part.value) for part in given.values)
    kind = event.args[0] if event.args else k.UNKNOWN
    if not (isinstance(kind, k.Value) and isinstance(kind.constant, str)):
        return False
    try:
        tree = ast.parse(kind.constant.strip(), mode="eval")
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Name) for node in walk(tree))


def _written_out(scope: Scope, event: Call) -> Rewrite | None:
    """The rewrite of `eval("x + 1")`, None where the text is not known, or may see other names than the code does."""
    node = event.node
    text = node.args[0] if event.callee == "builtins.eval" and len(node.args) == 1 and not node.keywords else None
    if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
        return None
    source = text.value.strip()
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    parts = list(walk(tree))
    if "\n" in source or any(isinstance(part, _OWN_SCOPE) for part in parts):
        return None
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    attributes = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    if _in_comprehension(scope, node) or any(_is_mangled(scope, name) for name in names | attributes):
        return None
    if not all(_is_seen(scope, name) for name in names):
        return None
    # Without a comment behind it, which would comment out what closes it.
    expression = ast.get_source_segment(source, tree) or ""
    return Rewrite("Write the expression directly", "safe", rw.written(scope.file, (node, expression)))


def _looked_up(scope: Scope, event: Call) -> Rewrite | None:
    """The rewrite of `globals()["NAME"]`, None where it is anything else."""
    item = scope.parents.get(event.node)
    if event.callee != "builtins.globals" or not isinstance(item, ast.Subscript) or not isinstance(item.ctx, ast.Load):
        return None
    name = item.slice.value if isinstance(item.slice, ast.Constant) else None
    if not isinstance(name, str) or name not in scope.function.module.bindings or _is_local(scope, name):
        return None
    if _is_mangled(scope, name):
        return None
    return Rewrite(f"Read the global `{name}` by its name", "safe", rw.written(scope.file, (item, rw.name(name))))


def _in_comprehension(scope: Scope, node: ast.AST) -> bool:
    """Whether a call stands in a comprehension, where a text sees no names of the function before Python 3.12."""
    while node in scope.parents and not isinstance(node, ast.stmt):
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            return True
        node = scope.parents[node]
    return False


def _is_mangled(scope: Scope, name: str) -> bool:
    """Whether a name gets that of its class in code, though not in a text."""
    return scope.function.owner is not None and name.startswith("__") and not name.endswith("__")


def _is_seen(scope: Scope, name: str) -> bool:
    """Whether a name means the same to the code of the function and to a text that is evaluated in it."""
    if name in scope.function.locals:
        return True
    return not _is_local(scope, name) and (name in scope.function.module.bindings or hasattr(builtins, name))


def _is_local(scope: Scope, name: str) -> bool:
    """Whether a name is one of the function, or of a function around it."""
    function: FunctionInfo | None = scope.function
    while function is not None and function.name != "<module>":
        if name in function.locals:
            return True
        function = function.parent
    return False


def _stored(scope: Scope, call: ast.Call) -> Rewrite | None:
    """Store in a dictionary of the function's own what `exec("name = 2", space)` puts there: plain values."""
    statement = scope.parents.get(call)
    if scope.kind(call.func) != k.External("builtins.exec") or len(call.args) != 2 or call.keywords:
        return None
    text, space = call.args
    if not isinstance(text, ast.Constant) or not isinstance(text.value, str) or not isinstance(statement, ast.Expr):
        return None
    made = only_value(scope, space.id, scope.function.node.args) if isinstance(space, ast.Name) else None
    if not isinstance(space, ast.Name) or not isinstance(made, ast.Dict) or made.keys:
        return None
    # Python puts its built-in functions there as well, which nothing must come across.
    if not all(one is space or _reads_item(scope.parents.get(one)) for one in loads(scope, space.id)):
        return None
    lines = []
    try:
        for one in ast.parse(text.value).body:
            target = one.targets[0] if isinstance(one, ast.Assign) and len(one.targets) == 1 else None
            if not isinstance(one, ast.Assign) or not isinstance(target, ast.Name):
                return None
            ast.literal_eval(one.value)
            lines.append(f'{space.id}["{target.id}"] = {ast.unparse(one.value)}')
    except (SyntaxError, ValueError):
        return None
    return Rewrite("Store the values directly", "safe", rw.written(scope.file, (statement, lines)))


def _reads_item(node: ast.AST | None) -> bool:
    """Whether a node is the read of an item under a name that is written out."""
    read = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Constant)
    return read and isinstance(node, ast.Subscript) and getattr(node.slice, "value", "") != "__builtins__"

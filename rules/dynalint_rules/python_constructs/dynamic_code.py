"""DYN704: running code in strings, importing by name, and inspecting the namespace."""

from __future__ import annotations

import ast

from dynalint.rulekit import Call, Project, Rule, k, leads_to_raise, walk


class DynamicCode(Rule):
    code = "DYN704"
    name = "dynamic-code"
    summary = "Running code from a string or inspecting the namespace breaks the graph"
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
    message = "`{callee}()` breaks the graph, because Dynamo does not trace it"
    help = "use `getattr` or a dictionary of functions, or look up the name in the constructor"
    refusal = (
        "dynalint cannot tell from the code what is intended; use `getattr` or a dictionary, or look up the name in "
        "the constructor"
    )

    def flags(self, event: Call, project: Project) -> bool:
        """Flag the call, unless it is an `eval` that Dynamo can evaluate."""
        return not leads_to_raise(event, project) and (event.callee != "builtins.eval" or _names_something(event))


def _names_something(event: Call) -> bool:
    """Return whether the evaluated string is known to be an expression that contains names."""
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

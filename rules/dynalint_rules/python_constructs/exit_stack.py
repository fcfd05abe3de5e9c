"""DYN714: context managers of torch on an `ExitStack`."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.index import Import
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Refusal, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import atom, comments, indentation

_CONTEXTLIB = Import("contextlib", None)
_ADDS = ("enter_context", "callback", "push")
_WIDTH = 120


class ExitStackCall(Rule):
    code = "DYN714"
    name = "exit-stack"
    summary = "entering torch's context managers on an `ExitStack` ends the graph"
    gb = ("GB0007", "GB0147", "GB0156", "GB0467", "GB0066", "GB0092")
    events = (Call,)
    calls = frozenset({"contextlib.ExitStack.enter_context"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag what was seen to break, by the kind of what is entered."""
        if isinstance(event, Call) and event.args and all(_breaks(one) for one in event.args[0].members):
            yield Violation(
                event.node,
                "Dynamo enters this in a `with` statement, and not on a stack",
                help="write a `with` statement, over `contextlib.nullcontext()` where nothing is to be entered",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Enter in the `with` statement what the first statements of its block enter on the stack."""
        return _unstacked(Scope.of(event, project), event)


def _breaks(kind: k.Kind) -> bool:
    if isinstance(kind, k.Object):
        return kind.type.startswith("torch.") or kind.type == "contextlib.nullcontext"
    return isinstance(kind, k.Value) and kind.type == "device"


def _unstacked(scope: Scope, event: Event) -> Rewrite:
    """Enter in the `with` statement what the first statements of its block enter on the stack."""
    block, stack = _block_of(scope, event)
    entries: list[str] = []
    taken: list[ast.stmt] = []
    for statement in block.body:
        entry = _entry(scope, statement, stack)
        if entry is None:
            break
        entries.append(entry)
        taken.append(statement)
    if not any(event.node in walk(statement) for statement in taken):
        raise Refusal("the statements that follow have to move into a `with` statement of their own")
    inside = {node for statement in taken for node in walk(statement)}
    uses = [node for node in walk(scope.function.node) if _is_stack(node, stack) and node not in inside]
    rest = [node for node in uses if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    for node in rest:
        parent = scope.parents.get(node)
        if not isinstance(parent, ast.Attribute) or parent.attr not in _ADDS:
            raise Refusal(
                f"`{stack}` may be closed or handed on before the block ends; write `with` statements by hand"
            )
    if rest:
        entries.append(f"{scope.text(block.items[0].context_expr)} as {stack}")
    imports = ("import contextlib",) if any("contextlib.nullcontext()" in entry for entry in entries) else ()
    if imports and (
        "contextlib" in scope.function.locals
        or scope.function.module.bindings.get("contextlib", _CONTEXTLIB) != _CONTEXTLIB
    ):
        raise Refusal("the name `contextlib` means something else here; import `nullcontext` under a name of its own")
    return Rewrite(
        "Enter it in the `with` statement", "safe", (_header(scope, block, taken, entries),), imports=imports
    )


def _block_of(scope: Scope, event: Event) -> tuple[ast.With, str]:
    """Return the `with` statement over the stack that something is entered on, and the name of the stack."""
    function = event.node.func if isinstance(event.node, ast.Call) else None
    owner = function.value if isinstance(function, ast.Attribute) else None
    node: ast.AST | None = event.statement
    while node is not None and isinstance(owner, ast.Name):
        if isinstance(node, ast.With) and len(node.items) == 1 and _makes(scope, node.items[0], owner.id):
            return node, owner.id
        node = scope.parents.get(node) if node is not scope.function.node else None
    raise Refusal("no `with` statement over the stack alone stands around it; write one over what is entered")


def _makes(scope: Scope, item: ast.withitem, name: str) -> bool:
    """Whether an item of a `with` statement is `ExitStack() as name`."""
    made, target = item.context_expr, item.optional_vars
    stack = isinstance(made, ast.Call) and scope.kind(made.func) == k.External("contextlib.ExitStack")
    return stack and isinstance(target, ast.Name) and target.id == name


def _entry(scope: Scope, statement: ast.stmt, stack: str) -> str | None:
    """Return what to write in a `with` statement for one that enters something; None if it does something else."""
    if isinstance(statement, ast.If) and len(statement.body) == 1 and len(statement.orelse) <= 1:
        sides = [_entered(statement.body[0], stack)]
        sides += [_entered(one, stack) for one in statement.orelse]
        texts = [atom(side, scope.text(side)) for side in sides if side is not None]
        if len(texts) < len(sides):
            return None
        return f"{texts[0]} if {scope.text(statement.test)} else {[*texts, 'contextlib.nullcontext()'][1]}"
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if isinstance(statement, ast.Assign) and isinstance(target, ast.Name):
        entered = _entered_by(statement.value, stack)
    else:
        entered = _entered(statement, stack)
    if entered is None:
        return None
    text = atom(entered, scope.text(entered))
    return text if target is None else f"{text} as {scope.text(target)}"


def _entered(statement: ast.stmt, stack: str) -> ast.expr | None:
    """Return what a statement enters on the stack, without keeping what that gives."""
    return _entered_by(statement.value, stack) if isinstance(statement, ast.Expr) else None


def _entered_by(call: ast.expr | None, stack: str) -> ast.expr | None:
    if not isinstance(call, ast.Call) or call.keywords or len(call.args) != 1:
        return None
    function, entered = call.func, call.args[0]
    if not isinstance(function, ast.Attribute) or function.attr != "enter_context":
        return None
    own = _is_stack(function.value, stack) and not any(_is_stack(node, stack) for node in walk(entered))
    return entered if own and not isinstance(entered, ast.Starred) else None


def _is_stack(node: ast.AST, stack: str) -> bool:
    return isinstance(node, ast.Name) and node.id == stack


def _header(scope: Scope, block: ast.With, taken: list[ast.stmt], entries: list[str]) -> Replacement:
    """Return the new header of a block, in the place of the old one and of the statements that it takes in."""
    file = scope.file
    (start, _), (_, end) = file.span(block), file.span(taken[-1])
    rest = block.body[len(taken) :]
    if (rest and rest[0].lineno == taken[-1].end_lineno) or any("\n" in entry or "\r" in entry for entry in entries):
        raise Refusal("its line holds more than entering it; write each statement on a line of its own")
    loose = comments(file, start, end)
    if loose is None:
        raise Refusal("the block cannot be taken apart as text; write the `with` statement by hand")
    indent, newline = indentation(file, block.lineno), file.newline
    step = indentation(file, taken[0].lineno)[len(indent) :] or "    "
    header = f"with {', '.join(entries)}:"
    if len(indent) + len(header) > _WIDTH:
        header = newline.join(["with (", *(f"{indent}{step}{entry}," for entry in entries), f"{indent}):"])
    lines = [*(text for _, text in loose), header]
    if not rest:
        lines.append(f"{step}pass")
    return Replacement(file, start, end, f"{newline}{indent}".join(lines))

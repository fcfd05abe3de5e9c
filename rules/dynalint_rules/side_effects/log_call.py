"""DYN402: calls to `logging` or to a logger's methods."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import reduce

from dynalint.rulekit import Call, Declined, Project, Refusal, Rewrite, Rule, Violation, leads_to_raise, rw
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.bystanders import guarded_bystanders
from dynalint_rules._shared.guard.skipping import check_arguments, may_go_unasked
from dynalint_rules._shared.guard.statements import guarded

_LEVELS = "debug info warning warn error exception critical fatal log".split()
_ASKING = ("isEnabledFor", "vlog", "log_first_n", "log_every_n", "warning_once", "info_once")
_LOGGER = "logging.Logger."
_ADAPTER = "logging.LoggerAdapter."
_LOGURU = "loguru.logger."
_CONFIGURES = frozenset({"setLevel", "addHandler", "removeHandler", "addFilter", "removeFilter", "basicConfig"})
# `trace` is not included because the default handler ignores it.
_LOGURU_LEVELS = "debug info success warning error critical exception log".split()


class LogCall(Rule):
    code = "DYN402"
    name = "log-call"
    summary = "Calling a logger breaks the graph, regardless of its level"
    gb = ("GB0291", "GB4841", "GB6215", "GB0156", "GB0023")
    events = (Call,)
    calls = frozenset(
        {f"{_LOGGER}*", f"{_ADAPTER}*"}
        | {f"logging.{name}" for name in ("getLogger", "basicConfig", *_LEVELS)}
        | {f"{_LOGURU}{name}" for name in _LOGURU_LEVELS}
        | {f"absl.logging.{name}" for name in ("vlog", "log_first_n", "log_every_n", *_LEVELS)}
    )

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag every call."""
        if not leads_to_raise(event, project):
            method = event.callee.rpartition(".")[2]
            name = f"logger.{method}" if event.callee.startswith((_LOGGER, _ADAPTER, _LOGURU)) else event.callee
            yield Violation(
                event.node,
                f"`{name}()` breaks the graph{_whenever(event.callee)}",
                help="create the logger at the top of the module"
                if method == "getLogger"
                else "log only in eager mode, under `if not torch.compiler.is_compiling():`",
                gb=("GB0007",) if event.callee.startswith(_LOGURU) else (),
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Log in eager code only."""
        scope = Scope.of(event, project)
        if event.callee == "logging.getLogger":
            return _made_in_eager(scope, event)
        if event.callee.rpartition(".")[2] in _CONFIGURES:
            return Declined("this configures logging, which other code relies on; do it outside the compiled code")
        title = "Log only in eager mode; compiled code does not log"
        asked = _asked_first(scope, event.node)
        if asked is not None:
            return Rewrite(title, "safe", rw.written(scope.file, asked), imports=scope.imports)
        return guarded(scope, event, title, alike=lambda call: _logs(scope, call))


def _whenever(callee: str) -> str:
    """Return the part of the message about the logging level, or "" for calls that do not log anything."""
    if callee.startswith(_LOGURU):
        return " if a handler accepts the message's level"
    return ", regardless of the logger's level" if callee.rpartition(".")[2] in (*_LEVELS, *_ASKING) else ""


def _made_in_eager(scope: Scope, event: Call) -> Rewrite:
    """Create a logger in eager code only, together with the calls that use it."""
    try:
        title = "Create the logger only in eager mode; compiled code does not log"
        return guarded_bystanders(scope, event, "logging.getLogger".__eq__, title)
    except Refusal as refusal:
        reason = "the logger is used where it is created; create it once, at module level or in `__init__`"
        raise Refusal(reason) from refusal


def _asked_first(scope: Scope, node: ast.Call) -> rw.Change | None:
    """Return the change that tests for eager code before calling `isEnabledFor` around statements that only log."""
    parent = scope.parents[node]
    while isinstance(parent, ast.Expr | ast.BoolOp):
        parent = scope.parents[parent]
    if not isinstance(parent, ast.If) or parent.orelse:
        return None
    conjunction = isinstance(parent.test, ast.BoolOp) and isinstance(parent.test.op, ast.And)
    parts = parent.test.values if isinstance(parent.test, ast.BoolOp) and conjunction else [parent.test]
    asked = [one for one in parts if isinstance(one, ast.Call) and callee(scope, one) == f"{_LOGGER}isEnabledFor"]
    if not asked or not all(_only_logs(scope, statement) for statement in parent.body):
        return None
    if not all(may_go_unasked(scope, one) for one in parts[parts.index(asked[0]) + 1 :]):
        return None
    eager = rw.negation(rw.call(f"{scope.torch}.compiler.is_compiling"))
    operands = [rw.kept(scope.file, one) for one in parts]
    operands.insert(parts.index(asked[0]), eager)
    return parent.test, reduce(lambda one, other: rw.operation(one, "and", other), operands)


def _only_logs(scope: Scope, statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not _logs(scope, call):
        return False
    try:
        check_arguments(scope, call)
    except Refusal:
        return False
    return True


def _logs(scope: Scope, call: ast.Call) -> bool:
    name = callee(scope, call)
    return name.startswith(_LOGGER) or name in {f"logging.{level}" for level in _LEVELS}

"""DYN402: a call of `logging` or of a logger."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.bystanders import guarded_bystanders
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.guard import check_arguments, guarded, may_go_unasked
from dynalint_rules._shared.scope import Refusal, Scope

_LEVELS = "debug info warning warn error exception critical fatal log".split()
_ASKING = ("isEnabledFor", "vlog", "log_first_n", "log_every_n", "warning_once", "info_once")
_LOGGER = "logging.Logger."
_ADAPTER = "logging.LoggerAdapter."
_LOGURU = "loguru.logger."
# Not `trace`: no handler takes it unless one was asked to.
_LOGURU_LEVELS = "debug info success warning error critical exception log".split()


class LogCall(Rule):
    """Log while a model runs.

    ## What it flags
    Any method of a logger or a `LoggerAdapter` (`logger.info(...)`, `self.logger.isEnabledFor(...)`,
    `logger.warning_once(...)`), the loggers of `loguru` and `absl`, the functions of `logging` (`logging.info(...)`,
    `logging.basicConfig(...)`) and `logging.getLogger(...)`, in code that is compiled. A message below the logger's
    level counts too. Not flagged: `logger.name` and `logging.DEBUG`, logging in code that is not compiled or behind
    `if not torch.compiler.is_compiling():`, and logging on the way to a `raise`.

    ## Why
    A log record cannot be part of a graph. Dynamo does not ask for the level: it ends the graph at `logger.debug(...)`
    of a logger that is set to WARNING as well. A logger of `loguru` it follows, to the handlers that take the level.

    ## Example
    ```python
    def forward(self, x):
        logger.debug("input %s", x.shape)
        return self.fc(x)
    ```

    Use instead:
    ```python
    def forward(self, x):
        if not torch.compiler.is_compiling():
            logger.debug("input %s", x.shape)
        return self.fc(x)
    ```

    ## How it is rewritten
    A statement that logs is put behind `if not torch.compiler.is_compiling():`, together with those right beside it.
    An `if` that holds nothing else gets `not torch.compiler.is_compiling()` as a part of its test instead, before
    `logger.isEnabledFor(...)` where it asks that. Declined where the
    call is part of another expression, where it shares its
    line with another statement, and where its arguments may do more than give a value, or raise under a `try`
    of the function that catches it.

    ## When the rewrite is not exact
    The guard is `safe`: eager code logs as before for every input, and outputs, gradients and state of a compiled run
    are the same. A compiled run no longer logs. To have Dynamo itself drop the calls, leave the code as it is and put
    the methods into `torch._dynamo.config.ignore_logging_functions`.

    ## How Dynamo words it
    GB0291: `logging.Logger method not supported for non-export cases`. The functions of `logging` give GB4841:
    `Unsupported python_type() call`, `logging.getLogger` GB6215: `Unresolved GetAttrVariable comparison`,
    `logging.basicConfig` GB0156: `Unsupported method call`.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://docs.pytorch.org/docs/stable/generated/torch.compiler.is_compiling.html
    """

    code = "DYN402"
    name = "log-call"
    summary = "a call of a logger ends the graph, whatever its level"
    gb = ("GB0291", "GB4841", "GB6215", "GB0156", "GB0023")
    events = (Call,)
    calls = frozenset(
        {f"{_LOGGER}*", f"{_ADAPTER}*"}
        | {f"logging.{name}" for name in ("getLogger", "basicConfig", *_LEVELS)}
        | {f"{_LOGURU}{name}" for name in _LOGURU_LEVELS}
        | {f"absl.logging.{name}" for name in ("vlog", "log_first_n", "log_every_n", *_LEVELS)}
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            method = event.callee.rpartition(".")[2]
            name = f"logger.{method}" if event.callee.startswith((_LOGGER, _ADAPTER, _LOGURU)) else event.callee
            yield Violation(
                event.node,
                f"`{name}()` ends the graph{_whenever(event.callee)}",
                help="make the logger at the top of the module"
                if method == "getLogger"
                else "log only in eager code: `if not torch.compiler.is_compiling():`",
                gb=("GB0007",) if event.callee.startswith(_LOGURU) else (),
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Log in eager code only."""
        if not isinstance(event, Call):
            return None
        try:
            scope = Scope.of(event, project)
            if event.callee == "logging.getLogger":
                return _made_in_eager(scope, event)
            title = "Log only in eager code; a compiled run logs nothing"
            asked = _asked_first(scope, event.node)
            if asked is not None:
                return Rewrite(title, "safe", (asked,), imports=scope.imports)
            return guarded(scope, event, title, alike=lambda call: _logs(scope, call))
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="logger",
            code=forward(
                """
                logger.info("input %s", x.shape)  # DYN402
                return self.fc(x)
                """,
                head='import logging\n\nlogger = logging.getLogger("dynalint.example")\n',
            ),
            fixed=forward(
                """
                if not torch.compiler.is_compiling():
                    logger.info("input %s", x.shape)
                return self.fc(x)
                """,
                head='import logging\n\nlogger = logging.getLogger("dynalint.example")\n',
            ),
        ),
        Example(
            name="disabled-level-on-an-attribute",
            code=forward(
                """
                h = self.fc(x)
                self.logger.debug("hidden %s", h)  # DYN402
                return h + 1
                """,
                head="import logging",
                init="""
                self.fc = nn.Linear(8, 8)
                self.logger = logging.getLogger("dynalint.example")
                """,
            ),
            fixed=forward(
                """
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    self.logger.debug("hidden %s", h)
                return h + 1
                """,
                head="import logging",
                init="""
                self.fc = nn.Linear(8, 8)
                self.logger = logging.getLogger("dynalint.example")
                """,
            ),
        ),
        Example(
            name="several-in-a-row",
            code=forward(
                """
                h = self.fc(x)
                logging.debug("in %s", x.shape)  # DYN402
                logging.debug("out %s", h.shape)  # DYN402
                return h
                """,
                head="import logging",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    logging.debug("in %s", x.shape)
                    logging.debug("out %s", h.shape)
                return h
                """,
                head="import logging",
            ),
        ),
        Example(
            name="logging-costs-something",
            code=forward(
                """
                h = self.fc(x)
                if self.training and logger.isEnabledFor(logging.DEBUG):  # DYN402
                    logger.debug("shape %s", h.shape)  # DYN402
                return h + 1
                """,
                head='import logging\n\nlogger = logging.getLogger("dynalint.example")\nlogger.setLevel(10)\n',
            ),
            fixed=forward(
                """
                h = self.fc(x)
                if self.training and not torch.compiler.is_compiling() and logger.isEnabledFor(logging.DEBUG):
                    logger.debug("shape %s", h.shape)
                return h + 1
                """,
                head='import logging\n\nlogger = logging.getLogger("dynalint.example")\nlogger.setLevel(10)\n',
            ),
            target="Model().train()",
        ),
        Example(
            name="level-asked-first",
            code=forward(
                """
                h = self.fc(x)
                if logger.isEnabledFor(logging.DEBUG):  # DYN402
                    h = h + 0
                return h
                """,
                head='import logging\n\nlogger = logging.getLogger("dynalint.example")\n',
            ),
            declined="is part of a larger expression",
        ),
        Example(
            name="logger-made-on-every-call",
            code=forward(
                """
                log = logging.getLogger("dynalint.example")  # DYN402
                return self.fc(x), log.name
                """,
                head="import logging",
            ),
            declined="make it once",
        ),
        Example(
            name="attributes-of-a-logger",
            code=forward(
                """
                return self.fc(x), logger.name, logging.getLevelName(logging.DEBUG)
                """,
                head='import logging\n\nlogger = logging.getLogger("dynalint.example")\n',
            ),
        ),
        Example(
            name="not-a-logger",
            code=forward(
                """
                self.log.info(x)
                return self.fc(x)
                """,
                head="""
                class Notes:
                    def info(self, value):
                        return value
                """,
                init="self.fc, self.log = nn.Linear(8, 8), Notes()",
            ),
        ),
        Example(
            name="behind-a-guard",
            code=forward(
                """
                if not torch.compiler.is_compiling():
                    logger.info("input %s", x.shape)
                return self.fc(x)
                """,
                head='import logging\n\nlogger = logging.getLogger("dynalint.example")\n',
            ),
        ),
    )


def _whenever(callee: str) -> str:
    """What else decides whether a call ends the graph: nothing does, for what logs no message."""
    if callee.startswith(_LOGURU):
        return " if a handler takes its level"
    return ", whatever the level of the logger" if callee.rpartition(".")[2] in (*_LEVELS, *_ASKING) else ""


def _made_in_eager(scope: Scope, event: Call) -> Rewrite:
    """Make a logger in eager code only, with all that is logged by it."""
    try:
        title = "Make the logger only in eager code; a compiled run logs nothing"
        return guarded_bystanders(scope, event, "logging.getLogger".__eq__, title)
    except Refusal as refusal:
        reason = "the logger is needed where it is made; make it once, at the top of the module or in `__init__`"
        raise Refusal(reason) from refusal


def _asked_first(scope: Scope, node: ast.Call) -> Replacement | None:
    """What asks whether code is compiled before a logger is asked for its level, around statements that only log."""
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
    start = scope.file.span(asked[0])[0]
    return Replacement(scope.file, start, start, f"not {scope.torch}.compiler.is_compiling() and ")


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

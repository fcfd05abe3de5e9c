"""DYN210: a tensor turned into text in a way that Dynamo does not trace."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event, Format
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.text import atom

_BUILTINS = ("builtins.str", "builtins.repr", "builtins.ascii")
_METHODS = ("Tensor.__str__", "Tensor.__repr__", "Tensor.__format__")


class TensorToText(Rule):
    """Turn a tensor into text with `str()`, `repr()` or the `%` operator.

    ## What it flags
    `str(t)`, `repr(t)`, `ascii(t)`, `"%s" % t` and an f-string with a conversion (`f"{t!r}"`, `f"{t!s}"`) of a tensor,
    or of a list or tuple of tensors, in code that is compiled. Not flagged: a plain f-string (`f"{t}"`, `f"{t:.3f}"`)
    and `"{}".format(t)`, which Dynamo puts off until the graph has run; text of shapes, dtypes and devices; and text
    for an exception.

    ## Why
    The text shows numbers that exist only when the kernels have run, so the graph ends there. `%` leaves the whole
    function to eager Python.

    ## Example
    ```python
    def forward(self, x):
        loss = x.pow(2).mean()
        return loss, "loss " + str(loss)
    ```

    Use instead:
    ```python
    def forward(self, x):
        loss = x.pow(2).mean()
        return loss, f"loss {loss}"
    ```

    ## How it is rewritten
    `str(t)` that is returned becomes `f"{t}"`. Anything else is declined. Where the text is printed or logged, that
    call is the one to move.

    ## When the rewrite is not exact
    A tensor of whole numbers with dimensions reads the same in both ways. Without, `str(t)` gives `tensor(-0.1496)`
    where `f"{t}"` gives `-0.1495644599199295`, and compiled code has another `grad_fn` to tell of: that is `unsafe`.

    ## How Dynamo words it
    GB0059: `Failed to trace builtin operator` for `str`, GB0569: `repr() on tensor` for `repr`, GB0208: `torch.* op
    returned non-Tensor` or GB0033: `Data dependent operator` for `%`.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    """

    code = "DYN210"
    name = "tensor-to-text"
    summary = "`str()`, `repr()` or `%` of a tensor needs its numbers and ends the graph"
    gb = ("GB0059", "GB0569", "GB0208", "GB0033", "GB0088")
    events = (Call, Format)
    calls = frozenset({*_BUILTINS, *_METHODS})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag text of what is certainly a tensor, or holds one."""
        way = _way(event, project)
        if way and not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"{way} of a tensor needs its numbers, which ends the graph",
                help="use a plain f-string, or make the text outside of the compiled code",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Write an f-string in the place of `str()`, which reads the same for a tensor with dimensions."""
        if isinstance(event, Call) and event.callee == "builtins.str" and not event.node.keywords:
            rewrite = _as_fstring(event, project)
            if rewrite is not None:
                return rewrite
        return Declined(
            "the form that Dynamo traces, an f-string, reads otherwise for a tensor without dimensions "
            '(`f"{t}"` gives the bare number); write the f-string by hand if that will do'
        )

    examples = (
        Example(
            name="str",
            code=forward("""
                loss = self.fc(x).pow(2).mean()
                return loss, str(loss)  # DYN210
            """),
            fixed=forward("""
                loss = self.fc(x).pow(2).mean()
                return loss, f"{loss}"
            """),
        ),
        Example(
            name="str-in-a-sum",
            code=forward("""
                loss = self.fc(x).pow(2).mean()
                return loss, "loss " + str(loss)  # DYN210
            """),
            declined="reads otherwise",
        ),
        Example(
            name="str-of-rows",
            code=forward("""
                ids = torch.arange(4)
                return self.fc(x), str(ids["a" == "b":])  # DYN210
            """),
            fixed=forward("""
                ids = torch.arange(4)
                return self.fc(x), f'{ids["a" == "b":]}'
            """),
        ),
        Example(
            name="repr",
            code=forward("""
                loss = self.fc(x).pow(2).mean()
                return loss, repr(loss)  # DYN210
            """),
            declined="reads otherwise",
        ),
        Example(
            name="percent",
            code=forward("""
                loss = self.fc(x).pow(2).mean()
                return loss, "loss %s" % loss  # DYN210
            """),
        ),
        Example(
            name="percent-with-others",
            code=forward("""
                loss = self.fc(x).pow(2).mean()
                return loss, "loss %.3f of %d" % (loss, len(x))  # DYN210
            """),
        ),
        Example(
            name="conversion-in-f-string",
            code=forward("""
                loss = self.fc(x).pow(2).mean()
                return loss, f"loss {loss!r}"  # DYN210
            """),
        ),
        Example(
            name="list-of-tensors",
            code=forward("""
                loss = self.fc(x).pow(2).mean()
                return loss, str([loss, loss])  # DYN210
            """),
        ),
        Example(
            name="f-string-and-format",
            code=forward("""
                loss = self.fc(x).pow(2).mean()
                return loss, f"loss {loss} {loss:.3f}", "loss {}".format(loss)
            """),
        ),
        Example(
            name="text-of-shapes",
            code=forward("""
                note = str(x.shape) + "%s %s" % (x.dtype, x.device) + repr(x.dim())
                return self.fc(x), note
            """),
        ),
        Example(
            name="message-of-an-exception",
            code=forward("""
                if x.dim() != 2:
                    raise ValueError("bad input %s" % x)
                assert x.shape[1] == 8, "bad input " + str(x)
                return self.fc(x)
            """),
        ),
    )


def _way(event: Event, project: Project) -> str:
    """Return how the text is made, in backticks; "" if that is traced, or the value is not certainly a tensor."""
    if isinstance(event, Format):
        if event.style == "percent" and k.only_tensor(event.kind) is not None:
            return "`%`"
        outer = project.parents(event.function).get(event.node)
        if isinstance(outer, ast.FormattedValue) and outer.conversion != -1 and k.only_tensor(event.kind) is not None:
            return f"`!{chr(outer.conversion)}`"
        return ""
    if isinstance(event, Call):
        name = f"`{event.callee.rpartition('.')[2]}()`"
        if event.callee in _METHODS:
            return name if event.receiver is not None and k.only_tensor(event.receiver) is not None else ""
        return name if len(event.args) == 1 and _holds_tensor(event.args[0]) else ""
    return ""


def _holds_tensor(kind: k.Kind) -> bool:
    if isinstance(kind, k.Sequence) and kind.type in ("list", "tuple") and kind.items:
        return any(k.only_tensor(item) is not None for item in kind.items)
    return k.only_tensor(kind) is not None


def _as_fstring(event: Call, project: Project) -> Rewrite | None:
    """Write `f"{t}"` for `str(t)`; None where the text of `t` cannot stand in an f-string, or more is done with it.

    Dynamo does not add up such texts.
    """
    parents = project.parents(event.function)
    outer: ast.AST = event.node
    while isinstance(parents.get(outer), ast.Tuple | ast.List | ast.Dict):
        outer = parents[outer]
    if not isinstance(parents.get(outer), ast.Return):
        return None
    tensor, file = k.only_tensor(event.args[0]), event.function.file
    if tensor is None or tensor.array:
        return None
    source = event.node.args[0]
    text = atom(source, file.segment(source))
    quote = next((one for one in "\"'" if one not in text), None)
    if quote is None or any(one in text for one in "{}\\#\r\n"):
        return None
    replacement = Replacement(file, *file.span(event.node), f"f{quote}{{{text}}}{quote}")
    title = "Write an f-string, which Dynamo traces"
    if tensor.rank and tensor.dtype in ("bool", "int"):
        return Rewrite(title, "safe", (replacement,))
    changes = (
        "the text of a tensor without dimensions is the bare number, and that of others may name another `grad_fn`"
    )
    return Rewrite(title, "unsafe", (replacement,), (changes,))

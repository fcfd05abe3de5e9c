"""DYN106: `in`, and the builtins `any`, `all` and `sorted`, which compare or test tensors on the quiet."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Branch, Call, Event
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.checks import is_constant_message
from dynalint_rules._shared.choice import finished
from dynalint_rules._shared.decide import rewrite_decision
from dynalint_rules._shared.decision import Decision, asks_tensor, decision_of, operand_of
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.known_numbers import is_whole
from dynalint_rules._shared.scope import Refusal, Scope, as_tensor
from dynalint_rules._shared.truth import STAYS

_VALUE = (
    "its result is a Python bool, which its readers may need; if a tensor will do, compare with `==` and reduce with "
    "`.any()` or `.all()`"
)


class MembershipOnTensor(Rule):
    """`in`, `any()`, `all()` and `sorted()` go through their elements in Python and ask each for its truth.

    ## What it flags

    - `t in (0, 1)` and `t not in (0, 1)` for a tensor `t`; `3 in t`, which reads the answer out of the tensor.
    - `any(...)` and `all(...)` over a tensor or over tensors in a list, tuple or generator.
    - `sorted(...)` and `list.sort()` of tensors, without a key.

    Not flagged are `in` on dicts and sets, which look up the object; `min`, `max` and `sum`, which Dynamo traces as
    tensor operations; and all of these over Python values.

    ## Why

    Each comparison of a tensor gives a tensor, and Python has to know whether it is true before it looks at the next
    element. Dynamo breaks the graph there. `t in (0, 1)` whose answer is used as a value is worse: Dynamo traces it
    whole and gives a tensor where eager code gives a bool, so that `is True`, a dict key or a format sees another
    value. An `assert t in (0, 1)` is traced.

    ## Example

    ```python
    def forward(self, x):
        if any(x.mean(dim=0) > 1):
            x = x / 2
        return x
    ```

    Use instead:

    ```python
    def forward(self, x):
        x = torch.where((x.mean(dim=0) > 1).any(), x / 2, x)
        return x
    ```

    ## How it is rewritten

    In the test of an `if` or conditional expression, together with the branch (see DYN101): `t in (0, 1)` becomes
    `(t == 0) | (t == 1)`, `3 in t` becomes `(t == 3).any()`, `any(t)` and `all(t)` become `t.any()` and `t.all()`, and
    over a list that is written out its members joined by `|` or `&`; a comprehension or another list is declined.
    In a guard or an `assert`, as DYN105 and DYN104.
    As a value it is left: a tensor would take the place of a bool. `torch.stack(sorted(tensors))` and
    `sorted(tensors)[0]` become `torch.stack(tensors).sort(stable=True).values`, the latter with its index.

    ## When the rewrite is not exact

    As for DYN101. What is sorted must be tensors without dimensions, and not NaN. `any(t)` raises an error for a tensor
    of two dimensions or more, whose rows have no truth, and `t.any()` does not.

    ## How Dynamo words it

    GB0170, "Data-dependent branching", for `any`, `all` and `in` in a test; with a generator, GB8335, "Generator
    reconstruction with mutations". GB0124, "Unsupported Tensor.item() call", for `3 in t`; GB0033, "Data dependent
    operator", for `not in`; GB0207, "sort with non-constant keys", and GB0059, "Failed to trace builtin operator", for
    `sorted`.

    ## References

    - https://docs.python.org/3/reference/expressions.html#membership-test-operations
    - https://docs.pytorch.org/docs/stable/generated/torch.isin.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html
    """

    code = "DYN106"
    name = "membership-on-tensor"
    summary = "`in`, `any`, `all` or `sorted` over the data of tensors"
    gb = ("GB0170", "GB0124", "GB0033", "GB0207", "GB0059")
    events = (Branch, Call)
    calls = frozenset({"builtins.any", "builtins.all", "builtins.sorted", "list.sort"})

    examples = (
        Example(
            "in a tuple",
            forward("""
                h = self.fc(x)
                if x.sum().round() in (-32, 32):  # DYN106
                    h = h + 1
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                h = torch.where((x.sum().round() == -32) | (x.sum().round() == 32), h + 1, h)
                return h
            """),
        ),
        Example(
            "not in a list",
            forward("return x * 2 if x.sum() not in [32] else x - 1  # DYN106"),
            fixed=forward("return torch.where(~(x.sum() == 32), x * 2, x - 1)"),
        ),
        Example(
            "in a tensor",
            forward("""
                y = x * 2
                if 2.0 in y:  # DYN106
                    y = y + 1
                return y
            """),
            fixed=forward("""
                y = x * 2
                y = torch.where((y == 2.0).any(), y + 1, y)
                return y
            """),
        ),
        Example(
            "any over a tensor",
            forward("""
                y = x * 2
                if any(x.mean(dim=0) > 0.5):  # DYN106
                    y = y + 1
                return y
            """),
            fixed=forward("""
                y = x * 2
                y = torch.where((x.mean(dim=0) > 0.5).any(), y + 1, y)
                return y
            """),
        ),
        Example(
            "all over a list",
            forward("return x * 2 if all([x.sum() > 0, x.max() < 2]) else x - 1  # DYN106"),
            fixed=forward("return torch.where((x.sum() > 0) & (x.max() < 2), x * 2, x - 1)"),
        ),
        Example(
            "any over a generator",
            forward("""
                if any(row.sum() > 3 for row in x):  # DYN106 DYN803
                    x = x * 2
                return x + 1
            """),
        ),
        Example(
            "all over a list under a name",
            forward("""
                small = [part.max() < 1 for part in x.chunk(2)]
                if not all(small):  # DYN106
                    x = x * 2
                return x + 1
            """),
        ),
        Example(
            "any over some of a list",
            forward("""
                if any(row.sum() > 3 for row in x if row.dim() == 1):  # DYN106 DYN803
                    x = x * 2
                return x + 1
            """),
            declined="goes through an iterable",
        ),
        Example(
            "all in a guard",
            forward("""
                if not all(x[0] > -9):  # DYN106
                    raise ValueError("too small")
                return self.fc(x)
            """),
            fixed=forward("""
                torch._assert_async((x[0] > -9).all(), "too small")
                return self.fc(x)
            """),
        ),
        Example(
            "not in, asserted",
            forward("""
                assert x.sum() not in (7, 8), "seven or eight"  # DYN106
                return self.fc(x)
            """),
            fixed=forward("""
                assert ~((x.sum() == 7) | (x.sum() == 8)), "seven or eight"
                return self.fc(x)
            """),
        ),
        Example(
            "in a tuple, as a value",
            forward("""
                known = x.sum() in (32, 33)  # DYN106
                return x * 2 if known is True else x - 1
            """),
            shows="miscompile",
            declined="is a Python bool",
        ),
        Example(
            "not in, as a value",
            forward("return x * 2, x.sum() not in (32, 33)  # DYN106"),
            declined="is a Python bool",
        ),
        Example(
            "any, as a value",
            forward("return x * 2, any((x.sum() > 0, x.max() > 2))  # DYN106"),
            declined="is a Python bool",
        ),
        Example(
            "members that are not written out",
            forward("""
                known = [float(n) for n in range(3)]
                return x * 2 if x.sum() in known else x  # DYN106
            """),
            declined="not written out",
        ),
        Example(
            "sorted",
            forward("return torch.stack(sorted([row.sum() for row in x.chunk(4)]))  # DYN106"),
            fixed=forward("return torch.stack([row.sum() for row in x.chunk(4)]).sort(stable=True).values"),
        ),
        Example(
            "largest of a list",
            forward("""
                sums = [row.sum() for row in x.chunk(4)]
                return x * sorted(sums, reverse=True)[0]  # DYN106
            """),
            fixed=forward("""
                sums = [row.sum() for row in x.chunk(4)]
                return x * torch.stack(sums).sort(stable=True, descending=True).values[0]
            """),
        ),
        Example(
            "sorted list",
            forward("return sorted([row.sum() for row in x.chunk(4)])  # DYN106"),
            declined="torch.sort",
        ),
        Example(
            "list.sort",
            forward("""
                sums = [x.sum(), x.max()]
                sums.sort()  # DYN106
                return torch.stack(sums)
            """),
            declined="torch.sort",
        ),
        Example(
            "dicts, names and sizes",
            forward("""
                parts = {"a": x, "b": x * 2}
                if "a" in parts and x.dim() in (2, 3) and x.dtype not in (torch.float16,):
                    x = parts["a"] + parts["b"]
                if any([x.dim() == 2, False]) and all(part is not None for part in parts.values()):
                    x = x * len(sorted(parts)) + min(x.shape)
                return x
            """),
        ),
        Example(
            "min, max and sum of tensors",
            forward("return x * max(x.sum(), x.mean()) + sum([x, x]) + min(x[0])"),
        ),
        Example(
            "in a tuple, asserted",
            forward("""
                assert (x - x).sum() in (0, 1)
                return self.fc(x)
            """),
        ),
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag membership tests and builtins that ask tensors for their truth."""
        if isinstance(event, Call):
            yield from _check_call(event)
        elif isinstance(event, Branch) and event.form == "in" and asks_tensor(event, project):
            yield from _check_membership(event, project)

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compare and reduce with tensor operations, together with what is decided by it."""
        operand = operand_of(event)
        if operand is None:
            return None
        if isinstance(event, Call) and event.callee in ("builtins.sorted", "list.sort"):
            try:
                return _in_order(Scope.of(event, project), event)
            except Refusal as refusal:
                return Declined(str(refusal))
        return rewrite_decision(event, operand, project, value=_VALUE)


def _check_call(event: Call) -> Iterable[Violation]:
    name = event.callee.rpartition(".")[2]
    collection = event.receiver if event.callee == "list.sort" else event.args[0] if event.args else None
    if collection is None or "key" in event.keywords or not _holds_tensors(collection):
        return
    if name in ("any", "all"):
        message = f"`{name}(...)` asks one tensor after the other whether it is true"
        yield Violation(event.node, message, help=f"Use the tensor's own `.{name}()`, {STAYS}.")
    else:
        message = f"`{name}(...)` has to compare tensors with each other, and to know the outcome"
        yield Violation(event.node, message, help="Use `torch.sort`.")


def _holds_tensors(kind: k.Kind) -> bool:
    if isinstance(kind, k.Tensor):
        return not kind.array
    return isinstance(kind, k.Sequence) and k.only_tensor(kind.element) is not None


def _is_text(kind: k.Kind) -> bool:
    return isinstance(kind, k.Value) and kind.type == "str"


def _check_membership(event: Branch, project: Project) -> Iterable[Violation]:
    node = event.node
    kinds = project.kinds(event.function)
    if not isinstance(node, ast.Compare) or _is_text(kinds.get(node.left, k.UNKNOWN)):
        return  # a text is looked for in a dict: no tensor could be asked for it
    shown = quote(event.function.file, node)
    decision: Decision = decision_of(project.parents(event.function), node)
    negated = any(isinstance(operator, ast.NotIn) for operator in node.ops)
    in_tensor = k.may_be_tensor(kinds.get(node.comparators[-1], k.UNKNOWN))
    if in_tensor:
        message = f"{shown} reads out of a tensor whether it holds a value"
        yield Violation(node, message, help=f"Compare with `==`, reduce with `.any()`, {STAYS}.", gb=("GB0124",))
    elif negated or not decision.asked or decision.form not in ("assert", "value"):
        message = f"{shown} compares a tensor with one member after the other, and has to know each outcome"
        yield Violation(node, message, help=f"Join comparisons with `|`, or use `torch.isin`, {STAYS}.")
    elif isinstance(decision.node, ast.Assert):
        if not is_constant_message(decision.node.msg):
            message = f"Dynamo keeps the `assert` of {shown} only with a constant message"
            yield Violation(node, message, help="Make the message a constant string.")
    else:
        message = f"{shown} is a bool in eager code, and a tensor when compiled"
        yield Violation(
            node, message, help="Compare with `==` and join with `|`, for a tensor in both.", category="miscompile"
        )


def _in_order(scope: Scope, event: Call) -> Rewrite:
    """Sort the stack of the tensors, where one of them or the stack of all is asked for.

    Raises:
        Refusal: the list itself may be asked for.
    """
    node, outer = event.node, scope.parents.get(event.node)
    stacked = isinstance(outer, ast.Call) and outer.args == [node] and not outer.keywords
    stacked = stacked and isinstance(outer, ast.Call) and scope.kind(outer.func) == k.External("torch.stack")
    one = isinstance(outer, ast.Subscript) and outer.value is node and isinstance(outer.ctx, ast.Load)
    one = one and isinstance(outer, ast.Subscript) and is_whole(scope.kind(outer.slice))
    plain = event.callee == "builtins.sorted" and len(node.args) == 1
    if not plain or any(keyword.arg != "reverse" for keyword in node.keywords) or not (stacked or one):
        raise Refusal("the tensors are put in order in Python; `torch.stack` them and use `torch.sort` and its indices")
    values = node.args[0]
    kind = scope.kind(values)
    listed = (
        isinstance(kind, k.Sequence) and kind.type in ("list", "tuple") and not isinstance(values, ast.GeneratorExp)
    )
    text = scope.text(values) if listed or as_tensor(kind) is not None else f"list({scope.text(values)})"
    if as_tensor(kind) is None:
        text = f"{scope.torch}.stack({text})"
    descending = "".join(f", descending={scope.text(keyword.value)}" for keyword in node.keywords)
    replaced = outer if stacked and isinstance(outer, ast.Call) else node
    replacement = Replacement(scope.file, *scope.file.span(replaced), f"{text}.sort(stable=True{descending}).values")
    conditions = [f"{scope.quote(values)} holds tensors without dimensions, of one dtype, and none of them is NaN"]
    return finished(scope, "Sort the stack of the tensors", replacement, conditions)

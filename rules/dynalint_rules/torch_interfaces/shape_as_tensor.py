"""DYN622: a shape that was asked for as a tensor, which compiled code has as a tuple."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.kinds import UNKNOWN
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_HEAD = "from torch.onnx import operators"


class ShapeAsTensor(Rule):
    """Use a shape that was asked for as a tensor as one.

    ## What it flags

    A method of tensors called on what `torch.onnx.operators.shape_as_tensor(x)` or `torch._shape_as_tensor(x)` gives,
    or on one element of it: `shape_as_tensor(x)[1].unsqueeze(0)`. Not flagged: unpacking it, arithmetic with its
    elements, and passing them as sizes, all of which numbers do as well.

    ## Why

    In eager code the function gives a tensor. In compiled code it gives the shape itself, a tuple of ints. A method
    that only a tensor has raises there: for an element Dynamo gives up the whole function, and for the tuple it ends
    the graph and the program raises `AttributeError`, which it does not uncompiled.

    ## Example

    ```python
    def forward(self, x):
        shape = torch.onnx.operators.shape_as_tensor(x)
        return self.fc(x) / shape[1].float()
    ```

    Use instead:

    ```python
    def forward(self, x):
        return self.fc(x) / x.shape[1]
    ```

    ## How it is rewritten

    It is not. `x.shape` is what exporting and compiling trace today; what is a tensor on purpose is
    `torch.tensor(x.shape)`.

    ## When the rewrite is not exact

    A model exported by an old tracer keeps the sizes of the example where it reads `x.shape`.

    ## How Dynamo words it

    GB0088: `Observed exception`, of `AttributeError`; for the tuple GB0156: `Unsupported method call`.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0088.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0156.html
    """

    code = "DYN622"
    name = "shape-as-tensor"
    summary = "a shape asked for as a tensor is a tuple in compiled code, which has no methods of tensors"
    gb = ("GB0088", "GB0156")
    events = (Call,)
    calls = frozenset({f"{k.SHAPE_AS_TENSOR.type}.*", "int.*"})
    gives_up = True

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag methods that tensors have and shapes, or their elements, have not."""
        assert isinstance(event, Call)
        method = event.node.func
        if not isinstance(method, ast.Attribute) or project.api.method(method.attr) is None:
            return
        is_element = not isinstance(event.receiver, k.Sequence)
        if hasattr(int if is_element else tuple, method.attr) or (not is_element and method.attr == "numel"):
            return
        if is_element and not _is_element_of_shape(method.value, event, project):
            return
        what = "an int" if is_element else "a tuple"
        yield Violation(
            event.node,
            f"`{method.attr}()` is called on {what}: in compiled code `shape_as_tensor()` gives the shape itself",
            help="use `x.shape`, or `torch.tensor(x.shape)` where it has to be a tensor",
        )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: whether it has to be a tensor is for a person to say."""
        return Declined("whether the shape has to be a tensor is not to be seen from here; use `x.shape` if not")

    examples = (
        Example(
            name="element",
            code=forward(
                """
                shape = operators.shape_as_tensor(x)
                return self.fc(x) / shape[1].float()  # DYN622
                """,
                head=_HEAD,
            ),
            gb=("GB0088",),
            declined="whether the shape has to be a tensor",
        ),
        Example(
            name="cat-of-sizes",
            code=forward(
                """
                sizes = torch._shape_as_tensor(x)
                last = torch.cat((torch.LongTensor([-1]), sizes[-1].view(1)))  # DYN622
                return self.fc(x) * last[1]
                """
            ),
            gb=("GB0088",),
        ),
        Example(
            name="used-as-numbers",
            code=forward(
                """
                rows, columns = operators.shape_as_tensor(x)
                if rows > 1:
                    x = x.view(int(rows), columns)
                return self.fc(x) / (columns + 1)
                """,
                head=_HEAD,
            ),
        ),
        Example(
            name="made-a-tensor",
            code=forward(
                """
                return self.fc(x) * torch.tensor(x.shape).float().mean()
                """
            ),
        ),
    )


def _is_element_of_shape(node: ast.expr, event: Event, project: Project) -> bool:
    """Whether an expression takes one element of a shape that was asked for as a tensor."""
    if not isinstance(node, ast.Subscript):
        return False
    owner = project.kinds(event.function).get(node.value, UNKNOWN)
    return isinstance(owner, k.Sequence) and owner.type == k.SHAPE_AS_TENSOR.type

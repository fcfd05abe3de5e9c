"""DYN203: a slice whose bound is a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event, Subscript
from dynalint.analysis.project import Project
from dynalint.findings import Safety
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.detached import is_stored_number
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.handed_numbers import handed_as_numbers
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.settings import captures_scalars
from dynalint_rules._shared.sliced import NO_FORM, without_bounds


class TensorSliceBound(Rule):
    """Slice a tensor, list, tuple or string up to a tensor.

    ## What it flags
    A slice with a tensor for a bound or step, `x[:t]`, `x[:, t:]`, `names[:t]`, and `slice(0, t)`, in code that is
    compiled. Not flagged: slices by shapes and Python numbers, by a number that `.item()` has read (the break is at
    the `.item()`, see DYN201), and slices in a project that sets `torch._dynamo.config.capture_scalar_outputs = True`.

    ## Why
    The length of the result depends on the tensor's data, so Python reads the tensor. Dynamo cannot end the graph in
    the middle of a slice: it leaves the whole function to eager Python, without a warning.

    ## Example
    ```python
    def forward(self, x):
        length = (x > 0).sum()
        return x[:length].sum()
    ```

    Use instead:
    ```python
    def forward(self, x):
        length = (x > 0).sum()
        keep = torch.arange(x.shape[0], device=x.device) < length
        return torch.where(keep, x, 0).sum()
    ```

    ## How it is rewritten
    A parameter that is the bound of slices alone, and that the calls in the file give a number which they have put into
    a tensor before (`torch.IntTensor([n])[0]`), is given the number. A sum or a mean of a slice becomes that of the
    whole dimension, with zeros beyond the bounds. A window `x[t : t + 2]` is selected by
    `index_select(0, t + torch.arange(2))`. Other slices are not rewritten: what has to stand for the missing elements
    depends on what is done with the slice.

    ## When the rewrite is not exact
    Handing on the number is exact. A sum with zeros is `unsafe`: it is taken in another order, and a bound must not be
    negative. A window is `conditional`: it must lie within the tensor, and nothing may change it in place.

    ## How Dynamo words it
    GB0124: `Unsupported Tensor.item() call with capture_scalar_outputs=False`.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://docs.pytorch.org/docs/stable/generated/torch.where.html
    """

    code = "DYN203"
    name = "tensor-slice-bound"
    summary = "a slice up to a tensor reads the tensor and has a length that depends on data"
    gb = ("GB0124",)
    gives_up = True
    events = (Subscript, Call)
    calls = frozenset({"builtins.slice"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag each bound that is certainly a tensor."""
        bounds = list(_bounds(event))
        if not bounds or captures_scalars(project, event.function):
            return
        tensors = _tensors(event, project)
        # Dynamo breaks at the line on which the whole expression begins.
        nodes = [bound if bound.lineno == event.node.lineno else event.node for bound in tensors]
        for node in dict.fromkeys(nodes):
            yield Violation(
                node,
                "a tensor as the bound of a slice is read into Python, which ends the graph",
                help="mask the whole dimension: `torch.arange(n) < length`",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Hand on a number, or put a mask or a selection in the place of the bounds."""
        try:
            scope = Scope.of(event, project)
            return handed_as_numbers(scope, _tensors(event, project)) or _unbound(scope, event, project)
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="prefix-of-a-tensor",
            code=forward("""
                h = self.fc(x)
                length = (h[0] > 0).sum()
                return h[:, :length] * 2  # DYN203
            """),
            declined="mask it with",
        ),
        Example(
            name="sum",
            code=forward("""
                h = torch.relu(x)
                length = (x[:, 0].abs() > -1).sum()
                return self.fc(h) + h[:length].sum(0)  # DYN203
            """),
            fixed=forward("""
                h = torch.relu(x)
                length = (x[:, 0].abs() > -1).sum()
                return self.fc(h) + torch.where(
                    (torch.arange(h.size(0), device=h.device) < length).view(-1, *[1] * (h.dim() - 1)),
                    h,
                    0,
                ).sum(0)
            """),
            exact=False,
        ),
        Example(
            name="mean",
            code=forward("""
                rows = x.sum(1)
                start = (rows > 99).sum()
                return self.fc(x) * rows[start:].mean(dim=0)  # DYN203
            """),
            fixed=forward("""
                rows = x.sum(1)
                start = (rows > 99).sum()
                return self.fc(x) * (torch.where(
                    (torch.arange(rows.size(0), device=rows.device) >= start).view(-1, *[1] * (rows.dim() - 1)),
                    rows,
                    0,
                ).sum(dim=0) / (rows.size(0) - start).clamp(min=0))
            """),
            exact=False,
        ),
        Example(
            name="window",
            code=forward("""
                h = self.fc(x)
                start = (x[0] > 9).sum()
                return h[:, start : start + 2] * 2  # DYN203 DYN203
            """),
            fixed=forward("""
                h = self.fc(x)
                start = (x[0] > 9).sum()
                return h.index_select(1, start + torch.arange(2, device=h.device)) * 2
            """),
        ),
        Example(
            name="sum-of-the-rest",
            code=forward("""
                length = (x[:, 0] > 0).sum()
                return self.fc(x), x[:length].sum(1)  # DYN203
            """),
            declined="mask it with",
        ),
        Example(
            name="number-handed-on-in-a-tensor",
            code=forward(
                """
                size = torch.IntTensor([self.fc.in_features])
                h = self.fc(x)
                return gated(torch.cat([h, x], 1), size[0])
                """,
                head="""
                def gated(h, n):
                    return torch.tanh(h[:, :n]) * torch.sigmoid(h[:, n:])  # DYN203 DYN203
                """,
            ),
            fixed=forward(
                """
                h = self.fc(x)
                return gated(torch.cat([h, x], 1), self.fc.in_features)
                """,
                head="""
                def gated(h, n):
                    return torch.tanh(h[:, :n]) * torch.sigmoid(h[:, n:])
                """,
            ),
        ),
        Example(
            name="number-handed-on-that-is-read-otherwise",
            code=forward(
                """
                size = torch.tensor(4)
                return scaled(self.fc(x), size)
                """,
                head="""
                def scaled(h, n):
                    return h[:, :n] / n  # DYN203
                """,
            ),
            declined="mask it with",
        ),
        Example(
            name="suffix-and-step",
            code=forward("""
                start = (x.sum(1) > 0).sum() * 0
                return self.fc(x[start:])  # DYN203
            """),
            declined="mask it with",
        ),
        Example(
            name="list-of-tensors",
            code=forward("""
                rows = [x * 2, x * 3, x * 4]
                count = (x > 100).sum() + 1
                return torch.cat(rows[:count])  # DYN203
            """),
        ),
        Example(
            name="slice-object",
            code=forward("""
                h = self.fc(x)
                part = slice(0, (x > 100).sum() + 1)  # DYN203
                return h[part]
            """),
        ),
        Example(
            name="stored-slice",
            code=forward("""
                h = self.fc(x).detach()
                count = (x > 100).sum() + 1
                h[:count] = 0.0  # DYN203
                return h
            """),
        ),
        Example(
            name="bounds-from-shapes",
            code=forward("""
                half = x.shape[1] // 2
                return self.fc(x)[:, :half] + self.fc(x)[:, half:]
            """),
        ),
        Example(
            name="mask-instead",
            code=forward("""
                h = self.fc(x)
                length = (h[0] > 0).sum()
                keep = torch.arange(h.shape[1]) < length
                return torch.where(keep, h, 0.0)
            """),
        ),
        Example(
            name="number-read-before",
            code=forward("""
                h = self.fc(x)
                length = (h[0] > 0).sum()
                if torch.compiler.is_compiling():
                    return h * 2
                return h[:, :length] * 2
            """),
        ),
    )


def _tensors(event: Event, project: Project) -> list[ast.expr]:
    """The bounds that are certainly tensors."""
    kinds = project.kinds(event.function)
    tensors = ((bound, k.only_tensor(kinds.get(bound, k.UNKNOWN))) for bound in _bounds(event))
    return [bound for bound, tensor in tensors if tensor is not None and not is_stored_number(tensor)]


def _bounds(event: Event) -> Iterator[ast.expr]:
    if isinstance(event, Call):
        yield from event.node.args
    elif isinstance(event, Subscript) and not isinstance(event.base, k.Instance):
        index = event.node.slice
        for part in index.elts if isinstance(index, ast.Tuple) else [index]:
            if isinstance(part, ast.Slice):
                yield from (bound for bound in (part.lower, part.upper, part.step) if bound is not None)


def _unbound(scope: Scope, event: Event, project: Project) -> Rewrite:
    """Do without the bounds."""
    if not isinstance(event, Subscript):
        raise Refusal(NO_FORM)
    found = without_bounds(scope, event.node, _tensors(event, project)[0])
    clauses = (*found.changes, *found.conditions)
    safety: Safety = "unsafe" if found.changes else "conditional"
    return Rewrite("Take the whole dimension, without a bound", safety, tuple(found.edits), clauses, scope.imports)

"""DYN302: elements that a mask selects, computed from the elements that it selects."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Event, Subscript
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.masked_stores import stored
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.selection import reads_by_mask, target_of
from dynalint_rules._shared.settings import captures_shapes


class MaskedStore(Rule):
    """Compute the elements that a mask selects from the elements that the same mask selects.

    ## What it flags
    `x[mask] = y[mask]`, `x[mask] = f(x[mask])` and `x[mask] += v`, where the mask is a tensor of bools, in code that is
    compiled. Not flagged: `x[mask] = 0.0` and `x[mask] = t` with a tensor that is there already, which Dynamo traces,
    masks whose dtype is not known, and projects that set
    `torch._dynamo.config.capture_dynamic_output_shape_ops = True`.

    ## Why
    The store is no trouble, the read is: `y[mask]` has as many elements as the mask selects, a number that depends on
    data, so the graph ends before it. `x[mask] += v` reads before it stores.

    ## Example
    ```python
    def forward(self, x, scale):
        out = x.clone()
        large = x.abs() > 1
        out[large] = x[large] / scale[large]
        return out
    ```

    Use instead:
    ```python
    def forward(self, x, scale):
        out = x.clone()
        large = x.abs() > 1
        out = torch.where(large, x / torch.where(large, scale, 1.0), out)
        return out
    ```

    ## How it is rewritten
    The new value is computed for all elements, and `torch.where` chooses. What is divided by, given to a function
    like `torch.log`, or goes through more than linear steps is replaced by a harmless number where the mask selects
    nothing: gradients there stay zero, and do not become NaN. A tensor that the function has made itself
    is bound anew, any other is written to as a whole (`x[...] = torch.where(mask, y, x)`), so that everything else
    that holds it sees the change. A tensor with one element for each that the mask selects is put in their places
    first, by `torch.zeros_like(x).masked_scatter(mask, values)`. Declined where the value is made by anything but
    elementwise operations, numbers, such tensors and reads by the same mask, and where a tensor from elsewhere would be
    overwritten whose old value the gradient needs.

    ## When the rewrite is not exact
    The fix is `conditional`: the mask must have as many dimensions as the tensors, whose dtypes must be equal (with
    others the original raises an error), values must be as many as the mask selects, where more would go unnoticed, and
    where something is computed, its gradient must be finite for the elements that are not selected, too.

    ## How Dynamo words it
    GB0036: `Dynamic shape operator`, "Operator `aten.nonzero.default`'s output shape depends on input Tensor data".

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://docs.pytorch.org/docs/stable/generated/torch.where.html
    """

    code = "DYN302"
    name = "masked-store"
    summary = "storing by a mask what is read by the same mask has a shape that depends on data"
    severity = "warning"
    gb = ("GB0036",)
    events = (Subscript,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the statement that reads and stores by the same mask."""
        if not isinstance(event, Subscript) or not reads_by_mask(event) or captures_shapes(project, event.function):
            return
        target = target_of(event)
        if target is not None:
            shown = quote(event.function.file, target)
            yield Violation(
                event.statement,
                f"{shown} gets what is read by the same mask, as many elements as the data says, which ends the graph",
                help="compute the value for all elements and choose: `x = torch.where(mask, value, x)`",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compute the value for all elements, and choose."""
        if not isinstance(event, Subscript):
            return None
        try:
            return stored(Scope.of(event, project), event)
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="from-another-tensor",
            code=forward("""
                out = self.fc(x)
                mask = x > 0
                out[mask] = x[mask]  # DYN302
                return out
            """),
            fixed=forward("""
                out = self.fc(x)
                mask = x > 0
                out = torch.where(mask, x, out)
                return out
            """),
        ),
        Example(
            name="computed",
            code=forward("""
                delta = (self.fc(x) - x).abs()
                delta[delta > 0.5] = torch.pow(delta[delta > 0.5], 2.0) / 2 + 0.1  # DYN302
                return delta
            """),
            fixed=forward("""
                delta = (self.fc(x) - x).abs()
                delta = torch.where(delta > 0.5, torch.pow(torch.where(delta > 0.5, delta, 1), 2.0) / 2 + 0.1, delta)
                return delta
            """),
        ),
        Example(
            name="harmless-where-nothing-is-selected",
            code=forward("""
                h = self.fc(x).abs()
                big = h > 0.1
                out = h.clone()
                out[big] = torch.log(1 + h[big] / 2) / h[big]  # DYN302
                return out
            """),
            fixed=forward("""
                h = self.fc(x).abs()
                big = h > 0.1
                out = h.clone()
                out = torch.where(big, torch.log(torch.where(big, 1 + h / 2, 1.0)) / torch.where(big, h, 1.0), out)
                return out
            """),
        ),
        Example(
            name="of-several-tensors",
            code=forward("""
                out = torch.zeros_like(x)
                inside = x.abs() < 1
                out[inside] = (self.fc(x)[inside] - x[inside]) * x[inside]  # DYN302
                return out
            """),
            fixed=forward("""
                out = torch.zeros_like(x)
                inside = x.abs() < 1
                out = torch.where(
                    inside,
                    (torch.where(inside, self.fc(x), 1) - torch.where(inside, x, 1)) * torch.where(inside, x, 1),
                    out,
                )
                return out
            """),
        ),
        Example(
            name="augmented",
            code=forward("""
                h = self.fc(x) + 0
                h[h > 0] *= 2  # DYN302
                return h
            """),
            fixed=forward("""
                h = self.fc(x) + 0
                h = torch.where(h > 0, h * 2, h)
                return h
            """),
        ),
        Example(
            name="sign",
            code=forward("""
                h = self.fc(x).detach()
                h[x < 0] *= -1  # DYN302
                return h
            """),
            fixed=forward("""
                h = self.fc(x).detach()
                h[...] = torch.where(x < 0, h * -1, h)
                return h
            """),
        ),
        Example(
            name="of-the-caller",
            code=forward("""
                h = self.fc(x).detach()
                mask = x > 0
                x[mask] = h[mask]  # DYN302
                return x + h
            """),
            fixed=forward("""
                h = self.fc(x).detach()
                mask = x > 0
                x[...] = torch.where(mask, h, x)
                return x + h
            """),
        ),
        Example(
            name="of-the-caller-from-itself",
            code=forward("""
                x[x < 0] = x[x < 0].exp()  # DYN302
                return self.fc(x)
            """),
            declined="comes from elsewhere",
        ),
        Example(
            name="not-elementwise",
            code=forward("""
                out = self.fc(x)
                mask = x > -9
                out[mask] = x[mask].softmax(0)  # DYN302
                return out
            """),
            declined="is not elementwise",
        ),
        Example(
            name="values-for-what-is-selected",
            code=forward("""
                out = torch.zeros_like(x)
                mask = x > -9
                values = self.fc(x).flatten()
                out[mask] += values  # DYN302
                return out
            """),
            fixed=forward("""
                out = torch.zeros_like(x)
                mask = x > -9
                values = self.fc(x).flatten()
                out = torch.where(mask, out + torch.zeros_like(out).masked_scatter(mask, values), out)
                return out
            """),
        ),
        Example(
            name="rows-for-what-is-selected",
            code=forward("""
                h = self.fc(x).clone()
                rows = torch.arange(4) < 2
                extra = x[:2] * 3
                h[rows, :] = h[rows, :] - 2 * extra  # DYN302
                return h
            """),
            fixed=forward("""
                h = self.fc(x).clone()
                rows = torch.arange(4) < 2
                extra = x[:2] * 3
                h = torch.where(rows[..., None], h - torch.zeros_like(h).masked_scatter(rows[..., None], 2 * extra), h)
                return h
            """),
        ),
        Example(
            name="divided-by-values",
            code=forward("""
                out = self.fc(x)
                mask = x > -9
                values = x.flatten()
                out[mask] /= values  # DYN302
                return out
            """),
            declined="is not known to be a number",
        ),
        Example(
            name="stores-alone",
            code=forward("""
                out = self.fc(x).detach()
                mask = x > 0
                out[mask] = 0.0
                out[x[:, 0] > 0] = torch.ones(8)
                out[x > 1] = out.max()
                return out
            """),
        ),
        Example(
            name="chosen",
            code=forward("""
                out = self.fc(x)
                return torch.where(x > 0, x, out)
            """),
        ),
    )

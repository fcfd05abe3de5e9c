"""DYN302: elements that a mask selects, computed from the elements that it selects."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Subscript
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.names import changed_in_place, is_own
from dynalint_rules._shared.scope import Refusal, Scope, as_tensor
from dynalint_rules._shared.selection import reads_by_mask, target_of
from dynalint_rules._shared.settings import captures_shapes
from dynalint_rules._shared.sides import FINITE
from dynalint_rules._shared.text import atom

_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
# By a number these keep nothing of their operand for the gradient, so it may be written to afterwards.
_FORGETFUL = (ast.Add, ast.Sub, ast.Mult, ast.Div)


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
        out[large] = x[large] / scale
        return out
    ```

    Use instead:
    ```python
    def forward(self, x, scale):
        out = x.clone()
        large = x.abs() > 1
        out = torch.where(large, x / scale, out)
        return out
    ```

    ## How it is rewritten
    The new value is computed for all elements, and `torch.where` chooses. A tensor that the function has made itself
    is bound anew, any other is written to as a whole (`x[...] = torch.where(mask, y, x)`), so that everything else
    that holds it sees the change. Declined where the value is made by anything but elementwise operations, numbers and
    reads by the same mask, and where a tensor from elsewhere would be overwritten whose old value the gradient needs.

    ## When the rewrite is not exact
    The fix is `conditional`: the mask must have as many dimensions as the tensors, whose dtypes must be equal (with
    others the original raises an error), and where something is computed, its gradient must be finite for the
    elements that are not selected, too (`torch.sqrt` of zero is the usual trap).

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
        if not isinstance(event, Subscript) or not reads_by_mask(event) or captures_shapes(project):
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
            return _Store(Scope.of(event, project), event).rewrite()
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
                delta = torch.where(delta > 0.5, torch.pow(delta, 2.0) / 2 + 0.1, delta)
                return delta
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
                out = torch.where(inside, (self.fc(x) - x) * x, out)
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
            name="value-of-unknown-shape",
            code=forward("""
                out = torch.zeros_like(x)
                mask = x > -9
                values = self.fc(x).flatten()
                out[mask] += values  # DYN302
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


class _Store:
    """The rewrite of one statement that stores `value` into `target` by a mask."""

    def __init__(self, scope: Scope, event: Subscript) -> None:
        target = target_of(event)
        statement = event.statement
        assert target is not None
        assert isinstance(statement, ast.Assign | ast.AugAssign)
        self.scope, self.statement, self.target, self.mask = scope, statement, target, target.slice
        self.value = statement.value
        self.reads = list(self._reads(self.value))
        self.computed = isinstance(statement, ast.AugAssign)

    def rewrite(self) -> Rewrite:
        """Return the rewrite.

        Raises:
            Refusal: it would not do the same.
        """
        scope, target, file = self.scope, self.target, self.scope.file
        if not isinstance(target.value, ast.Name):
            raise Refusal(f"give {scope.quote(target.value)} a name first, to choose between its old and new value")
        if not is_pure(scope, self.mask) or isinstance(self.mask, ast.Tuple):
            raise Refusal(f"{scope.quote(self.mask)} is more than a mask; choose by `torch.where` by hand")
        self._require_elementwise(self.value)
        name = target.value.id
        own = is_own(scope, name, self.statement)
        if not own and self._keeps_old_value(name):
            raise Refusal(
                f"`{name}` comes from elsewhere and its old value is needed for the gradient; make a copy first "
                f"(`{name} = {name}.clone()`), if nothing else relies on the change"
            )
        start, end = file.span(self.statement)
        head = f"{name if own else f'{name}[...]'} = {scope.torch}.where({scope.text(self.mask)}, "
        text = self._value()
        if isinstance(self.statement, ast.AugAssign):
            sign = _OPERATORS[type(self.statement.op)]
            plain = k.is_number(scope.kind(self.value)) and isinstance(self.value, ast.Constant | ast.UnaryOp)
            text = f"{name} {sign} {text if plain else atom(self.value, text)}"
        replacements = (Replacement(file, start, end, f"{head}{text}, {name})"),)
        conditions = [f"the mask has as many dimensions as `{name}`, and dtypes are equal"]
        if self.computed:
            conditions.append(FINITE)
            conditions += [
                f"nothing changes `{read}` in place before the gradient is taken"
                for read in dict.fromkeys(one.value.id for one in self.reads if isinstance(one.value, ast.Name))
                if read != name and changed_in_place(scope, read, self.statement) is not None
            ]
        title = "Compute the value for all elements and choose with `torch.where`"
        return Rewrite(title, "conditional", replacements, tuple(conditions), scope.imports)

    def _reads(self, node: ast.AST) -> Iterator[ast.Subscript]:
        """Yield the outermost reads by the mask."""
        if isinstance(node, ast.Subscript) and ast.dump(node.slice) == ast.dump(self.mask):
            yield node
            return
        for child in ast.iter_child_nodes(node):
            yield from self._reads(child)

    def _value(self) -> str:
        """The text of the value, with whole tensors in the place of reads by the mask."""
        file = self.scope.file
        start, end = file.span(self.value)
        text, position = "", start
        for read in self.reads:
            own_start, own_end = file.span(read)
            text += file.text[position:own_start] + file.segment(read.value)
            position = own_end
        return text + file.text[position:end]

    def _require_elementwise(self, node: ast.expr) -> None:
        scope = self.scope
        if node in self.reads:
            return
        kind = scope.kind(node)
        tensor = scope.tensor(node)
        if k.is_number(kind) or (tensor is not None and tensor.rank == 0):
            if not is_pure(scope, node):
                raise Refusal(f"{scope.quote(node)} may do more than give a value; compute it before")
            return
        self.computed = True
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            parts: list[ast.expr] = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            parts = [node.operand]
        elif isinstance(node, ast.Call):
            parts = self._operands(node)
        else:
            raise Refusal(
                f"{scope.quote(node)} is not known to be a number and may have as many elements as the mask selects; "
                "compute it in the full shape first"
            )
        for part in parts:
            self._require_elementwise(part)

    def _operands(self, node: ast.Call) -> list[ast.expr]:
        """The operands of a call that works on each element by itself."""
        scope, callee = self.scope, self.scope.kind(node.func)
        api = scope.project.api
        entry = None
        operands = list(node.args)
        if isinstance(callee, k.Method) and as_tensor(callee.receiver) and isinstance(node.func, ast.Attribute):
            entry = api.method(callee.name)
            operands.insert(0, node.func.value)
        elif isinstance(callee, k.External) and callee.name.startswith("torch."):
            entry = api.function(callee.name)
        plain = not node.keywords and not any(isinstance(one, ast.Starred) for one in operands)
        if entry is None or not plain or any("elementwise" not in one.flags for one in entry.overloads):
            raise Refusal(f"{scope.quote(node)} is not elementwise, so that it matters which elements it is given")
        return operands

    def _keeps_old_value(self, name: str) -> bool:
        """Whether computing the value may keep the tensor under `name` for the gradient."""
        if isinstance(self.statement, ast.AugAssign):
            return not isinstance(self.statement.op, _FORGETFUL) or not k.is_number(self.scope.kind(self.value))
        return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(self.value))

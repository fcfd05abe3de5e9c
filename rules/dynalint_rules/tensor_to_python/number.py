"""DYN202: `int()`, `float()`, `bool()` and the like of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.detached import detached, is_folded, is_stored_number
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.known_numbers import multiplied
from dynalint_rules._shared.numbers import flow_of, with_conditions
from dynalint_rules._shared.numpy_numbers import computed_by_math
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.settings import captures_scalars
from dynalint_rules._shared.text import held_together
from dynalint_rules._shared.truth import operand_text

_DEFAULT = ("builtins.int", "builtins.float", "builtins.bool", "operator.index")
_UNTRACED = ("builtins.complex", "builtins.hex", "builtins.bin", "builtins.oct", "builtins.chr")
_TESTS = (ast.If, ast.IfExp, ast.Assert)
_METHODS = ("Tensor.__int__", "Tensor.__float__", "Tensor.__bool__", "Tensor.__index__", "Tensor.__complex__")


class NumberOfTensor(Rule):
    """Turn a tensor into a Python number with `int()`, `float()`, `bool()` and the like.

    ## What it flags
    `int(t)`, `float(t)`, `bool(t)`, `complex(t)`, `operator.index(t)`, `hex(t)`, `bin(t)`, `oct(t)` and `chr(t)` of a
    tensor or NumPy array in code that is compiled. Not flagged: the same of a shape (`int(x.shape[0] / 2)`), of a
    Python number, of a value of which nothing is known, and, for those that
    `torch._dynamo.config.capture_scalar_outputs = True` covers, in a project that sets it.

    ## Why
    The call reads the tensor's element, as `.item()` does: Dynamo ends the graph, waits for the value and begins a new
    graph after it. NumPy functions bring this about where no tensor is in sight: `np.prod(shape)` is an array while
    Dynamo traces, and `int(np.prod(shape))` reads it.

    ## Example
    ```python
    def forward(self, x):
        scale = float(x.abs().max())
        return x / scale
    ```

    Use instead:
    ```python
    def forward(self, x):
        scale = x.abs().max().detach()
        return x / scale
    ```

    ## How it is rewritten
    As `.item()` is (DYN201): `float(t)`, and `int(t)` of a tensor of whole numbers, become `t.detach()` where every
    use takes a 0-dim tensor. `int(t)` of a floating tensor becomes `t.detach().long()`, which cuts off the fraction in
    the same way. `bool(t)` becomes `t` where it is tested, together with the branch that it decides. What is read out
    of a NumPy array becomes `torch.as_tensor(a.max())`. `int(np.prod(s))` becomes `math.prod(s)`, which Dynamo computes
    while it traces; where running shows that `s` is a number, it becomes `s if isinstance(s, int) else math.prod(s)`.
    Declined for the others, and where DYN201 would decline.

    ## When the rewrite is not exact
    As for DYN201: `conditional` on dtypes that stay the same, and `unsafe` where Python would go on computing in
    double precision or where the number is returned. It is `unsafe` for floating tensors too, because torch warns when
    one that requires a gradient is converted, and no longer does after the rewrite. `int()` raises for NaN and
    infinity, `.long()` gives an arbitrary number. `math.prod` is exact for whole numbers that fit into 64 bits; NumPy
    wraps around beyond that.

    ## How Dynamo words it
    GB0124: `Unsupported Tensor.item() call with capture_scalar_outputs=False`. `complex`, `hex`, `bin`, `oct`, `chr`
    give GB0059: `Failed to trace builtin operator`. Arrays give GB0033: `Data dependent operator`, or GB0208: `torch.*
    op returned non-Tensor`.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    """

    code = "DYN202"
    name = "number-of-tensor"
    summary = "`int()`, `float()` or `bool()` of a tensor reads its element and ends the graph"
    gb = ("GB0124", "GB0059", "GB0033", "GB0208")
    events = (Call,)
    calls = frozenset({*_DEFAULT, *_UNTRACED, *_METHODS})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the conversion of what is certainly a tensor."""
        if not isinstance(event, Call):
            return
        subject = event.receiver if event.callee in _METHODS else event.args[0] if len(event.args) == 1 else None
        tensor = k.only_tensor(subject) if subject is not None else None
        if tensor is None or leads_to_raise(event, project) or is_folded(tensor):
            return
        if event.callee in _DEFAULT and is_stored_number(tensor):
            return
        if event.callee not in _UNTRACED and captures_scalars(project, event.function):
            return
        name = event.callee.rpartition(".")[2]
        yield Violation(
            event.node,
            f"`{name}()` reads the element of {'an array' if tensor.array else 'a tensor'}, which ends the graph",
            help="keep the value as a 0-dim tensor, and read it outside of the compiled code",
        )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep the value as a 0-dim tensor without gradient."""
        if not isinstance(event, Call):
            return None
        try:
            scope = Scope.of(event, project)
            made = event.node.args[0] if event.callee == "builtins.int" and len(event.node.args) == 1 else None
            known = multiplied(scope, event.node, made) if made is not None else None
            if known is None and event.callee == "builtins.int" and made is not None:
                known = computed_by_math(scope, event.node, made)
            return known or _kept(scope, event)
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="product-under-a-name",
            code=forward(
                """
                count = np.prod(x.shape)
                return self.fc(x).flatten()[: int(count // 3)]  # DYN202
                """,
                head="import numpy as np",
            ),
            fixed=forward(
                """
                count = math.prod(x.shape)
                return self.fc(x).flatten()[: int(count // 3)]
                """,
                head="import numpy as np",
            ).replace("import nn\n", "import nn\nimport math\n", 1),
        ),
        Example(
            name="float-scale",
            code=forward("""
                h = self.fc(x)
                scale = float(h.abs().max())  # DYN202 DYN804
                return h / scale
            """),
            fixed=forward("""
                h = self.fc(x)
                scale = h.abs().max().detach()
                return h / scale
            """),
        ),
        Example(
            name="float-of-an-array",
            code=forward("""
                h = self.fc(x)
                values = h.detach().cpu().numpy()
                return h / float(values.max()) * int(values.argmax())  # DYN202 DYN804
            """),
            fixed=forward("""
                h = self.fc(x)
                values = h.detach().cpu().numpy()
                return h / torch.as_tensor(values.max()) * torch.as_tensor(values.argmax())
            """),
        ),
        Example(
            name="bool-of-an-array",
            code=forward("""
                h = self.fc(x)
                values = h.detach().cpu().numpy()
                return h * 2 if bool(values.max() > 0) else h  # DYN202
            """),
            fixed=forward("""
                h = self.fc(x)
                values = h.detach().cpu().numpy()
                return torch.where(torch.as_tensor(values.max() > 0).reshape(()), h * 2, h)
            """),
        ),
        Example(
            name="int-count",
            code=forward("""
                h = self.fc(x)
                count = int((h > 0).sum())  # DYN202 DYN804
                return h * count
            """),
            fixed=forward("""
                h = self.fc(x)
                count = (h > 0).sum().detach()
                return h * count
            """),
        ),
        Example(
            name="int-cuts-off",
            code=forward("""
                h = self.fc(x)
                steps = int(h.abs().sum())  # DYN202 DYN804
                return h * steps
            """),
            fixed=forward("""
                h = self.fc(x)
                steps = h.abs().sum().detach().long()
                return h * steps
            """),
        ),
        Example(
            name="bool",
            code=forward("""
                h = self.fc(x)
                positive = bool(h.sum() > 0)  # DYN202
                return h * 2 if positive else h + 1
            """),
            fixed=forward("""
                h = self.fc(x)
                positive = h.sum() > 0
                return torch.where(positive, h * 2, h + 1)
            """),
        ),
        Example(
            name="bool-in-a-test",
            code=forward("""
                h = self.fc(x)
                if bool((h > 1).any()):  # DYN202
                    h = h * 0.5
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                h = torch.where((h > 1).any(), h * 0.5, h)
                return h
            """),
        ),
        Example(
            name="builtins-without-a-trace",
            code=forward("""
                best = x.sum(1).argmax()
                return self.fc(x), hex(best)  # DYN202
            """),
            declined="there is no tensor that stands for",
        ),
        Example(
            name="index",
            code=forward("""
                best = int(x.sum(1).argmax())  # DYN202 DYN804
                return self.fc(x)[best]
            """),
            fixed=forward("""
                best = x.sum(1).argmax().detach()
                return self.fc(x)[best.reshape(1)].squeeze(0)
            """),
        ),
        Example(
            name="product-of-sizes-from-elsewhere",
            code=forward(
                "return self.fc(x).reshape(-1, int(np.prod(self.sizes)))  # DYN202",
                init="self.fc, self.sizes = nn.Linear(8, 8), sizes()",
                head="""
                    import json
                    import numpy as np


                    def sizes():
                        return json.loads("[2, 4]")
                """,
            ),
            fixed=forward(
                "return self.fc(x).reshape(-1, math.prod(self.sizes))",
                init="self.fc, self.sizes = nn.Linear(8, 8), sizes()",
                head="""
                    import json
                    import numpy as np
                    import math


                    def sizes():
                        return json.loads("[2, 4]")
                """,
            ),
        ),
        Example(
            name="product-of-a-shape",
            code=forward(
                "return self.fc(x).reshape(-1, int(np.prod(x.shape[1:])))  # DYN202",
                head="import numpy as np",
            ),
            fixed=forward(
                "return self.fc(x).reshape(-1, math.prod(x.shape[1:]))",
                head="import numpy as np",
            ).replace("import nn\n", "import nn\nimport math\n"),
        ),
        Example(
            name="quotient-of-a-product",
            code=forward(
                """
                shape = [-1, 8]
                shape[0] = int(x.numel() / -np.prod(shape))  # DYN202
                return self.fc(x).view(shape)
                """,
                head="import numpy as np",
            ),
            fixed=forward(
                """
                shape = [-1, 8]
                shape[0] = int(x.numel() / -math.prod(shape))
                return self.fc(x).view(shape)
                """,
                head="import numpy as np",
            ).replace("import nn\n", "import nn\nimport math\n"),
        ),
        Example(
            name="shapes-and-numbers",
            code=forward("""
                half = int(x.shape[1] / 2) + int(3.7)
                return self.fc(x) * float(x.size(0)) * half * bool(x.dim())
            """),
        ),
        Example(
            name="ufunc-of-a-number",
            code=forward("return self.fc(x) * int(np.sqrt(16)) * int(np.ceil(3.5))", head="import numpy as np"),
        ),
    )


def _kept(scope: Scope, event: Call) -> Rewrite:
    """Replace the conversion by `.detach()` where every use of the number takes a 0-dim tensor as well."""
    name = event.callee.rpartition(".")[2]
    if event.callee == "builtins.bool":
        return _truth(scope, event.node)
    if event.callee not in ("builtins.int", "builtins.float"):
        raise Refusal(f"there is no tensor that stands for what `{name}()` gives; compute it from shapes, or eagerly")
    source = event.node.args[0]
    shown = scope.quote(source)
    found = detached(scope, source)
    tensor = k.only_tensor(scope.kind(source))
    dtype = tensor.dtype if tensor else None
    flow, text = flow_of(scope, event.node, "int" if name == "int" else "float", doubles=name == "int"), found.text
    flow.conditions.update(dict.fromkeys(found.conditions))
    if name == "int":
        text += "" if dtype == "int" else ".long()"
        if dtype in ("float", None):
            flow.conditions[f"{shown} is finite"] = None
    elif dtype in ("bool", "complex"):
        raise Refusal(f"`float()` changes what kind of number {shown} is; convert it with `.to()` by hand")
    elif dtype is None:
        flow.conditions[f"{shown} holds real numbers"] = None
    is_array = tensor is not None and tensor.array
    imports = scope.imports if is_array else flow.imports
    if dtype in ("float", None) and not is_array:
        flow.changes[f"Python no longer warns if {shown} requires a gradient"] = None
    start, end = scope.file.span(event.node)
    instead = "`torch.as_tensor(...)`" if is_array else "`.detach()`"
    title = f"Keep the 0-dim tensor: {instead} instead of `{name}()`"
    replacements = (Replacement(scope.file, start, end, text), *flow.edits)
    return Rewrite(title, flow.safety, replacements, flow.clauses, imports=imports, leaves=flow.leaves)


def _truth(scope: Scope, node: ast.Call) -> Rewrite:
    """Replace `bool(t)` by a tensor that is true or false."""
    source, parent = node.args[0], scope.parents[node]
    tensor, found = k.only_tensor(scope.kind(source)), detached(scope, source)
    flow = with_conditions(flow_of(scope, node, "bool"), found)
    # Nothing flows back through a tensor of bools, which therefore need not be detached.
    text = found.text.replace(".detach()", "")
    if tensor is not None and tensor.array:
        text = text if tensor.dtype == "bool" else f"({text} != 0)"
    elif tensor is None or tensor.dtype != "bool":
        text = f"({operand_text(scope, source)} != 0)"
    elif isinstance(parent, _TESTS) or (isinstance(parent, ast.Assign) and found.text.endswith(".detach()")):
        text = held_together(scope.text(source))
    edits = (Replacement(scope.file, *scope.file.span(node), text), *flow.edits)
    title = "Keep the tensor: leave `bool()` out"
    return Rewrite(title, flow.safety, edits, flow.clauses, imports=flow.imports, leaves=flow.leaves)

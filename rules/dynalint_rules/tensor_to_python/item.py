"""DYN201: `.item()` of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from textwrap import dedent

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.detached import detached, is_folded, is_stored_number, tail
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.known_numbers import read_back
from dynalint_rules._shared.numbers import flow_of, with_conditions
from dynalint_rules._shared.numpy_numbers import computed_by_math
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.settings import captures_scalars


class ItemOfTensor(Rule):
    """Read a number out of a tensor with `.item()`.

    ## What it flags
    `.item()` called on a tensor or a NumPy array in code that is compiled: in a module's `forward`, and in everything
    that it calls. Not flagged: `.item()` of a value that is no tensor, or of which nothing is known; `.item()` in
    training loops and other code that is not compiled; a project that sets
    `torch._dynamo.config.capture_scalar_outputs = True`.

    ## Why
    The number exists only when the kernels have run, so Dynamo ends the graph there, runs it, reads the number and
    begins a second graph after it. On a GPU the read also waits for the device. With `fullgraph=True` Dynamo captures
    the read instead, so a test with `fullgraph=True` does not show this break.

    ## Example
    ```python
    def forward(self, x):
        scale = x.abs().max().item()
        return x / scale
    ```

    Use instead:
    ```python
    def forward(self, x):
        scale = x.abs().max().detach()
        return x / scale
    ```

    ## How it is rewritten
    `t.item()` becomes `t.detach()`: a 0-dim tensor of the same value, without the gradient that the number did not have
    either. It is followed through the variable that it is assigned to, and every use must be one that takes a 0-dim
    tensor: arithmetic and comparison with tensors, functions of `math` that torch has too, `max(n, 1)`, `torch.full`,
    `torch.where`, `masked_fill`, a `clamp` with one bound, an f-string, an `assert`, a function that asks whether it
    was given a tensor. Where the number decides a branch, the two are one fix with that of the branch (DYN101, DYN105):
    what is compared with a number that not every precision holds is compared as a double. `x[i]` becomes
    `x[i.reshape(1)].squeeze(0)`; for the sum, the mean or a window of `x[:n]` see DYN203. `torch.tensor(t.item())`
    becomes `t.detach()`, and `torch.tensor(x.shape[0]).item()` becomes `x.shape[0]`. A tensor that is not fresh from a
    computation is cloned as well, because the number would not follow later changes in place. Declined where the number
    decides how many rounds a loop runs or what has no form in tensor operations, where it slices, gives a size, is
    stored, is passed to other code, or is set at more than one place, unless it is a plain number at the others.

    ## When the rewrite is not exact
    It is offered as `conditional`: a number never changes the dtype of a tensor it meets, a 0-dim tensor may (a
    float64 one makes a float64 result of whole numbers, or of another 0-dim tensor), and a tensor on another device
    raises. Where the number is first combined with other numbers, which Python does in double precision, the tensor is
    converted with `.double()`, and back to the dtype of what the result meets; a divisor must not be zero, and what is
    met must be of float32 or float64. Torch divides a number by a tensor by multiplying with the tensor's reciprocal,
    so that is written out. (On a GPU it divides by a number in the same way, so that a quotient may differ in its last
    bit there.) The rewrite is `unsafe` where there is no such form, or where the number is returned: the caller then
    receives a tensor.

    ## How Dynamo words it
    GB0124: `Unsupported Tensor.item() call with capture_scalar_outputs=False`, "Dynamo does not support tracing
    `Tensor.item()` with config.capture_scalar_outputs=False". For a NumPy array GB0033: `Data dependent operator`.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html
    """

    code = "DYN201"
    name = "item-of-tensor"
    summary = "`.item()` reads a number out of a tensor and ends the graph"
    gb = ("GB0124", "GB0033", "GB0208")
    events = (Call,)
    calls = frozenset({"Tensor.item", "numpy.ndarray.item"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag `.item()` without arguments of what is certainly a tensor."""
        if not isinstance(event, Call) or event.receiver is None or event.node.args:
            return
        tensor = k.only_tensor(event.receiver)
        if tensor is None or captures_scalars(project, event.function) or leads_to_raise(event, project):
            return
        if is_folded(tensor) or is_stored_number(tensor):
            return
        yield Violation(
            event.node,
            "`.item()` reads a number out of a tensor, which ends the graph",
            help="keep the value as a 0-dim tensor (`.detach()`), and read it outside of the compiled code",
        )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep the value as a 0-dim tensor without gradient."""
        if not isinstance(event, Call) or not isinstance(event.node.func, ast.Attribute):
            return None
        try:
            scope, source = Scope.of(event, project), event.node.func.value
            known = read_back(scope, event.node, source, listed=False)
            known = known or computed_by_math(scope, event.node, source)
            return known or _round_trip(scope, event.node, source) or _kept(scope, event.node, source)
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="scale",
            code=forward("""
                h = self.fc(x)
                scale = h.abs().max().item()  # DYN201 DYN804
                return h / scale
            """),
            fixed=forward("""
                h = self.fc(x)
                scale = h.abs().max().detach()
                return h / scale
            """),
        ),
        Example(
            name="inline-mean",
            code=forward("return x - x.mean().item()  # DYN201 DYN804"),
            fixed=forward("return x - x.mean().detach()"),
        ),
        Example(
            name="count-of-a-mask",
            code=forward("""
                mask = x > 0
                count = max(mask.sum().item(), 1)  # DYN201 DYN804
                return (x * mask).sum(1) / count
            """),
            fixed=forward("""
                mask = x > 0
                count = max(mask.sum().detach(), 1)
                return (x * mask).sum(1) / count
            """),
        ),
        Example(
            name="precision-of-python",
            code=forward("""
                weight = x.abs().sum().item() + 1e-6  # DYN201 DYN804
                return x / weight
            """),
            fixed=forward("""
                weight = x.abs().sum().detach().double() + 1e-6
                return x / weight.to(x.dtype)
            """),
        ),
        Example(
            name="quotient-of-two",
            code=forward("""
                h = self.fc(x)
                total = max(h.detach().square().sum().item(), 1.0)  # DYN201 DYN804
                share = total / 3
                count = max(1, x.abs().sum().item())  # DYN201 DYN804
                return h.sum() / (x.shape[1] * count), x * share
            """),
            fixed=forward("""
                h = self.fc(x)
                total = h.detach().square().sum().detach().clamp(min=1.0)
                share = total.double() / 3
                count = x.abs().sum().detach().double().clamp(min=1).nan_to_num(1, torch.inf)
                return h.sum() / (x.shape[1] * count).to(h.dtype), x * share.to(x.dtype)
            """),
        ),
        Example(
            name="divided-by-a-tensor",
            code=forward("""
                h = self.fc(x).sigmoid() + 1
                total = x.abs().sum().item()  # DYN201 DYN804
                return total / h, (total + 0.1) / (h + 1)
            """),
            fixed=forward("""
                h = self.fc(x).sigmoid() + 1
                total = x.abs().sum().detach()
                return h.reciprocal() * total, (h + 1).reciprocal() * (total.double() + 0.1).to(h.dtype)
            """),
        ),
        Example(
            name="two-at-once",
            code=forward("""
                low, high = x.min().item(), x.max().item()  # DYN201 DYN804
                return (x - low) / high
            """),
            fixed=forward("""
                low, high = x.min().detach(), x.max().detach()
                return (x - low) / high
            """),
        ),
        Example(
            name="round-trip",
            code=forward("""
                threshold = torch.tensor(x.mean().item())  # DYN201
                return torch.where(x > threshold, x, threshold)
            """),
            fixed=forward("""
                threshold = x.mean().detach()
                return torch.where(x > threshold, x, threshold)
            """),
        ),
        Example(
            name="product-of-a-shape",
            code=forward("""
                width = torch.prod(torch.tensor(x.shape[1:])).item()  # DYN201
                return self.fc(x).view(-1, width)
            """),
            fixed=forward("""
                width = math.prod(x.shape[1:])
                return self.fc(x).view(-1, width)
            """).replace("import nn\n", "import nn\nimport math\n", 1),
        ),
        Example(
            name="worked-out-by-numpy",
            code=forward(
                """
                count = 2 * np.ceil(np.log(x.shape[1])).astype("int").item()  # DYN201
                return self.fc(x)[:, :count]
                """,
                head="import numpy as np",
            ),
            fixed=forward(
                """
                count = 2 * math.ceil(math.log(x.shape[1]))
                return self.fc(x)[:, :count]
                """,
                head="import numpy as np",
            ).replace("import nn\n", "import nn\nimport math\n", 1),
        ),
        Example(
            name="buffer-is-cloned",
            code=forward(
                """
                gain = self.gain.item()  # DYN201
                return x * gain
                """,
                init='self.register_buffer("gain", torch.tensor(2.0))',
            ),
            fixed=forward(
                """
                gain = self.gain.detach().clone()
                return x * gain
                """,
                init='self.register_buffer("gain", torch.tensor(2.0))',
            ),
        ),
        Example(
            name="metric-for-the-caller",
            code=forward("""
                h = self.fc(x)
                loss = h.pow(2).mean()
                return loss, {"loss": loss.item()}  # DYN201
            """),
            fixed=forward("""
                h = self.fc(x)
                loss = h.pow(2).mean()
                return loss, {"loss": loss.detach().clone()}
            """),
        ),
        Example(
            name="decides-a-branch",
            code=forward("""
                if x.sum().item() > 0:  # DYN201
                    return x * 2
                return x - 1
            """),
            fixed=forward("""
                return torch.where(x.sum() > 0, x * 2, x - 1)
            """),
        ),
        Example(
            name="decides-under-a-name",
            code=forward("""
                h = self.fc(x)
                peak = h.abs().max().item()  # DYN201 DYN804
                if peak > 1.1:
                    h = h / peak
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                peak = h.abs().max().detach()
                condition = peak.double() > 1.1
                h = torch.where(condition, h / torch.where(condition, peak, 1.0), h)
                return h
            """),
        ),
        Example(
            name="index",
            code=forward("""
                best = x.sum(1).argmax().item()  # DYN201 DYN804
                return self.fc(x)[best]
            """),
            fixed=forward("""
                best = x.sum(1).argmax().detach()
                return self.fc(x)[best.reshape(1)].squeeze(0)
            """),
        ),
        Example(
            name="index-of-a-store",
            code=forward("""
                h = self.fc(x)
                out = torch.zeros_like(h)
                out[x.sum(1).argmax().item()] = h[0]  # DYN201
                return out + h
            """),
            fixed=forward("""
                h = self.fc(x)
                out = torch.zeros_like(h)
                out[x.sum(1).argmax().detach().reshape(1)] = h[0]
                return out + h
            """),
        ),
        Example(
            name="stored-to-elements",
            code=forward("""
                h = self.fc(x)
                weights = torch.zeros_like(h)
                weights[h > 0] = (h > 0).sum().item()  # DYN201
                return h * weights
            """),
            fixed=forward("""
                h = self.fc(x)
                weights = torch.zeros_like(h)
                weights[h > 0] = (h > 0).sum().detach()
                return h * weights
            """),
        ),
        Example(
            name="asserted",
            code=forward("""
                lengths = (x > 0).sum(1)
                assert lengths.max().item() <= x.shape[1]  # DYN201
                return self.fc(x)
            """),
            fixed=forward("""
                lengths = (x > 0).sum(1)
                assert lengths.max().detach().long() <= x.shape[1]
                return self.fc(x)
            """),
        ),
        Example(
            name="slice-bound",
            code=forward("""
                count = (x[:, 0] > 0).sum().item()  # DYN201 DYN804
                return self.fc(x)[:count]
            """),
            declined="is an index or a slice bound",
        ),
        Example(
            name="exponent",
            code=forward("""
                level = x.abs().max().item()  # DYN201 DYN804
                return self.fc(x) * 2**level
            """),
            fixed=forward("""
                level = x.abs().max().detach()
                return self.fc(x) * 2**level
            """),
            exact=False,
        ),
        Example(
            name="bound-of-a-sum",
            code=forward("""
                count = (x[:, 0].abs() > -1).sum().item()  # DYN201 DYN804
                rows = torch.relu(x).sum(1)
                return self.fc(x) + rows[:count].sum() / count
            """),
            fixed=forward("""
                count = (x[:, 0].abs() > -1).sum().detach()
                rows = torch.relu(x).sum(1)
                return self.fc(x) + torch.where(
                    (torch.arange(rows.size(0), device=rows.device) < count).view(-1, *[1] * (rows.dim() - 1)),
                    rows,
                    0,
                ).sum() / count
            """),
            exact=False,
        ),
        Example(
            name="size",
            code=forward("""
                length = (x[0] > 0).sum().item()  # DYN201
                return self.fc(x).sum() + torch.zeros(length)
            """),
            inputs="[(torch.ones(4, 8),)]",
            declined="takes `length` as a number",
        ),
        Example(
            name="stored",
            code=forward(
                """
                y = x * 2
                self.last = y.sum().item()  # DYN201
                return y + 1
                """,
                init="self.last = 0.0",
            ),
            declined="keeps the number after this statement",
        ),
        Example(
            name="set-anew",
            code=forward("""
                scale = 1.0
                h = self.fc(x * scale)
                scale = h.abs().sum().item()  # DYN201 DYN804
                return h * scale
            """),
            fixed=forward("""
                scale = 1.0
                h = self.fc(x * scale)
                scale = h.abs().sum().detach()
                return h * scale
            """),
        ),
        Example(
            name="through-math",
            code=forward(
                """
                h = self.fc(x)
                gain = 10 * math.log10(1 / h.square().mean().item())  # DYN201 DYN804
                return h * gain
                """,
                head="import math",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                gain = 10 * torch.log10(1 / h.square().mean().detach())
                return h * gain
                """,
                head="import math",
            ),
            exact=False,
        ),
        Example(
            name="set-twice",
            code=forward("""
                scale = 1.0
                if x.shape[0] > 2:
                    scale = x.sum().item()  # DYN201 DYN804
                return x * scale
            """),
            fixed=forward("""
                scale = 1.0
                if x.shape[0] > 2:
                    scale = x.sum().detach()
                return x * scale
            """),
        ),
        Example(
            name="read-in-a-try",
            code=forward("""
                h = self.fc(x)
                try:
                    scale = h.sum().item()  # DYN201 DYN804
                except RuntimeError:
                    scale = 1.0
                return h * scale
            """),
            fixed=forward("""
                h = self.fc(x)
                try:
                    scale = h.sum().detach()
                except RuntimeError:
                    scale = 1.0
                return h * scale
            """),
        ),
        Example(
            name="set-twice-for-an-index",
            code=forward("""
                best = 0
                if x.shape[0] > 2:
                    best = x.sum(1).argmax().item()  # DYN201 DYN804
                return self.fc(x)[best]
            """),
            declined="is set at more than one place",
        ),
        Example(
            name="not-a-tensor",
            code=forward(
                "return self.fc(x) * self.ratio.item()",
                head="""
                class Ratio:
                    def item(self):
                        return 0.5
                """,
                init="self.fc, self.ratio = nn.Linear(8, 8), Ratio()",
            ),
        ),
        Example(
            name="behind-a-guard",
            code=forward("""
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    print("mean", h.mean().item())
                return h
            """),
        ),
        Example(
            name="training-loop",
            code=forward("return self.fc(x)")
            + dedent("""

                def train(model, batches, optimizer):
                    for batch in batches:
                        loss = model(batch).pow(2).mean()
                        loss.backward()
                        optimizer.step()
                        print("loss", loss.item())
            """),
        ),
    )


def _kept(scope: Scope, node: ast.Call, source: ast.expr) -> Rewrite:
    """Replace `.item()` by `.detach()` where every use of the number takes a 0-dim tensor as well."""
    tensor = k.only_tensor(scope.kind(source))
    is_array = tensor is not None and tensor.array
    if is_array:
        (start, end), found = scope.file.span(node), detached(scope, source)
    else:
        (start, end), found = tail(scope, node, "item"), detached(scope, source, text="")
    flow = with_conditions(flow_of(scope, node, tensor.dtype if tensor else None, doubles=True), found)
    text = found.text
    if flow.leaves and isinstance(scope.parents[node], ast.Compare | ast.BoolOp | ast.UnaryOp | ast.If | ast.IfExp):
        # It is read here and now, and nothing flows back through an outcome.
        text = text.replace(".detach()", "").replace(".clone()", "")
    replacement = Replacement(scope.file, start, end, text)
    return Rewrite(
        f"Keep the 0-dim tensor: `{'torch.as_tensor(...)' if is_array else '.detach()'}` instead of `.item()`",
        flow.safety,
        (replacement, *flow.edits),
        flow.clauses,
        imports=scope.imports if is_array else flow.imports,
        leaves=flow.leaves,
    )


def _round_trip(scope: Scope, node: ast.Call, source: ast.expr) -> Rewrite | None:
    """Replace `torch.tensor(t.item())` by the tensor itself; None if that is not what stands there."""
    outer = scope.parents[node]
    if not isinstance(outer, ast.Call) or callee(scope, outer) != "torch.tensor" or outer.args != [node]:
        return None
    keywords = {keyword.arg: scope.text(keyword.value) for keyword in outer.keywords}
    if not keywords.keys() <= {"dtype", "device"}:
        return None
    found = detached(scope, source)
    conditions = list(found.conditions)
    if "dtype" not in keywords:
        tensor = k.only_tensor(scope.kind(source))
        wanted = "torch.int64" if tensor is not None and tensor.dtype == "int" else "the default dtype"
        conditions.append(f"the dtype of {scope.quote(source)} is {wanted}")
    text = found.text
    if keywords:
        text += f".to({', '.join(f'{name}={value}' for name, value in keywords.items())})"
    start, end = scope.file.span(outer)
    title = "Keep the tensor: `.detach()` instead of `torch.tensor(....item())`"
    return Rewrite(title, "conditional", (Replacement(scope.file, start, end, text),), tuple(conditions))

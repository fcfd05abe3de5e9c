"""DYN207: `.tolist()` of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.detached import is_stored_number, rows_of, tail
from dynalint_rules._shared.examples import KEPT_INPUTS, KEPT_PIECES, forward
from dynalint_rules._shared.handover import is_passed_up
from dynalint_rules._shared.known_numbers import is_whole, read_back
from dynalint_rules._shared.numbers import flow_into, flow_of
from dynalint_rules._shared.one_piece import kept_in_one
from dynalint_rules._shared.packed_attention import in_one_call
from dynalint_rules._shared.scope import Refusal, Scope

_ATTEND = """
def attend(query, key, value, attention_mask, is_causal):
    scores = query @ key.transpose(2, 3)
    if attention_mask is not None:
        scores = scores + attention_mask
    return (scores.softmax(-1) @ value).transpose(1, 2), scores
"""


class TolistOfTensor(Rule):
    """Read the elements of a tensor into a Python list with `.tolist()`.

    ## What it flags
    `.tolist()` called on a tensor or a NumPy array in code that is compiled. Not flagged: `.tolist()` of a value that
    is no tensor or of which nothing is known, code that is not compiled, and code that only runs on the way to a
    `raise`.

    ## Why
    The numbers exist only when the kernels have run, so the graph ends there, and what is done with the list in Python
    afterwards (a loop, a split) is compiled again for other numbers.

    ## Example
    ```python
    def forward(self, x, lengths):
        return torch.stack([x[i, :n].sum() for i, n in enumerate(lengths.tolist())])
    ```

    Use instead:
    ```python
    def forward(self, x, lengths):
        keep = torch.arange(x.shape[1]) < lengths[:, None]
        return torch.where(keep, x, 0).sum(1)
    ```

    ## How it is rewritten
    What is known while tracing is taken as it is: `torch.tensor(x.shape[:2]).tolist()` becomes `list(x.shape[:2])`, and
    `torch.arange(2, n).tolist()` becomes `list(range(2, n))`. `for n in t.tolist():` becomes `for n in
    t.detach().unbind():`, with or without `enumerate`, and `t.tolist()[0]` becomes `t.detach()[0]`, if every use of the
    number takes a 0-dim tensor as well (see DYN201).

    A list that is returned becomes the tensor. Pieces of a tensor cut by such a list cannot stay, but what is done with
    them can. Attention that is called once a piece, `[attend(q, k, v, attn_mask=None) for q, k, v in zip(*pieces)]`, is
    called once with a mask that parts the pieces. Pieces that are stored in an attribute for `torch.cat` to put
    together again become one piece, `out.parts = (x,)`. Anything else is declined: which tensor operation stands for it
    is for a person to say. `torch._dynamo.config.capture_scalar_outputs = True` lets Dynamo trace
    a list of whole numbers of known length, as sizes, in arithmetic and in loops, but no branch on them.

    ## When the rewrite is not exact
    Going on with tensors is `conditional`, as it is for DYN201; known numbers are exact. To return a tensor is
    `unsafe`: the caller has to read the list. What is done instead of
    cutting is `unsafe`, and is applied only where a run has shown that nothing but rounding differs: one attention over
    the whole rounds otherwise, takes time and memory for every pair of elements, and drops others out where it drops
    some; one piece is one to whoever counts the pieces. Lengths that do not add up raise no exception any more. A
    masked sum, by hand, adds up in another order than a sum over a slice, so it may round otherwise.

    ## How Dynamo words it
    GB0033: `Data dependent operator` for whole numbers, which `fullgraph=True` can capture. GB0109: `Tensor.tolist()
    with non-integer tensor` for all others, which nothing can capture.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    """

    code = "DYN207"
    name = "tolist-of-tensor"
    summary = "`.tolist()` reads the elements of a tensor and ends the graph"
    gb = ("GB0033", "GB0109")
    events = (Call,)
    calls = frozenset({"Tensor.tolist", "numpy.ndarray.tolist"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag `.tolist()` of what is certainly a tensor."""
        if not isinstance(event, Call) or event.receiver is None:
            return
        tensor = k.only_tensor(event.receiver)
        if tensor is None or (tensor.foreseen and tensor.dtype != "float"):
            return
        if is_stored_number(tensor) and tensor.rank == 0 and tensor.dtype != "float":
            return
        if not leads_to_raise(event, project):
            yield Violation(
                event.node,
                "`.tolist()` reads the elements of a tensor into Python, which ends the graph",
                help="work on the tensor itself, and read it outside of the compiled code",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Take known numbers as they are; go on with tensors where every use of the numbers takes one."""
        if not isinstance(event, Call) or not isinstance(event.node.func, ast.Attribute):
            return None
        try:
            scope, source = Scope.of(event, project), event.node.func.value
            rewrite = read_back(scope, event.node, source, listed=True) or _unbound(scope, event.node, source)
            if rewrite is None and scope.tensor(source) is not None:
                rewrite = in_one_call(scope, event.node, source) or kept_in_one(scope, event.node)
                rewrite = rewrite or _returned(scope, event.node, source)
        except Refusal as refusal:
            return Declined(str(refusal))
        return rewrite or Declined(_nearest(scope.parents.get(event.node)) + _setting(event.receiver))

    examples = (
        Example(
            name="of one number",
            code=forward("""
                rows = torch.tensor(x.shape[0]).tolist()
                return self.fc(x).view(rows, -1)
            """),
        ),
        Example(
            name="loop",
            code=forward("""
                h = self.fc(x)
                for n in (x > 0).sum(1).tolist():  # DYN207
                    h = h + n
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                for n in (x > 0).sum(1).detach().unbind():
                    h = h + n
                return h
            """),
        ),
        Example(
            name="summed-fractions",
            code=forward("return self.fc(x) * sum(x.mean(1).tolist())  # DYN207"),
            declined="mask a tensor of fixed size",
        ),
        Example(
            name="loop-of-sizes",
            code=forward("""
                h = self.fc(x)
                for n in (x > 0).sum(1).tolist():  # DYN207
                    h = h + h[:, :n].sum()
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                for n in (x > 0).sum(1).detach().unbind():
                    h = h + torch.where(
                        (torch.arange(h.size(1), device=h.device) < n).view(-1, *[1] * (h.dim() - 2)),
                        h,
                        0,
                    ).sum()
                return h
            """),
            exact=False,
        ),
        Example(
            name="loop-of-means",
            code=forward("""
                h, means = self.fc(x), []
                for row, n in enumerate((x > 0).sum(1).tolist()):  # DYN207
                    mean = h[row, :n].mean()
                    means.append(mean)
                return torch.stack(means)
            """),
            inputs="[(torch.rand(4, 8),), (torch.rand(4, 8) - 0.2,)]",
            fixed=forward("""
                h, means = self.fc(x), []
                for row, n in enumerate((x > 0).sum(1).detach().unbind()):
                    mean = torch.where(
                        torch.arange(h[row].size(0), device=h[row].device) < n,
                        h[row],
                        0,
                    ).sum() / n.clamp(max=h[row].size(0))
                    means.append(mean)
                return torch.stack(means)
            """),
            exact=False,
        ),
        Example(
            name="loop-of-pieces",
            code=forward("""
                h, pieces = self.fc(x), []
                for n in (x > 0).sum(1).tolist():  # DYN207
                    pieces.append(h[:, :n])
                return torch.cat(pieces, 1)
            """),
            declined="is an index or a slice bound",
        ),
        Example(
            name="rows-by-number",
            code=forward("""
                h, total = self.fc(x), 0
                order = x.sum(1).argsort()
                for row in order.tolist():  # DYN207
                    total = total + h[row]
                return total
            """),
            fixed=forward("""
                h, total = self.fc(x), 0
                order = x.sum(1).argsort()
                for row in order.detach().clone().unbind():
                    total = total + h[row.reshape(1)].squeeze(0)
                return total
            """),
        ),
        Example(
            name="first",
            code=forward("return self.fc(x) * x.sum(1).tolist()[0]  # DYN207"),
            fixed=forward("return self.fc(x) * x.sum(1).detach()[0]"),
        ),
        Example(
            name="sizes-of-a-shape",
            code=forward("""
                rows, columns = torch.tensor(x.shape[:2]).tolist()  # DYN207
                axes = torch.arange(1, x.dim()).tolist()  # DYN207
                return self.fc(x).view(rows, columns).sum(axes)
            """),
            fixed=forward("""
                rows, columns = list(x.shape[:2])
                axes = list(range(1, x.dim()))
                return self.fc(x).view(rows, columns).sum(axes)
            """),
        ),
        Example(
            name="returned",
            code=forward("return self.fc(x), x.sum(1).tolist()  # DYN207"),
            fixed=forward("return self.fc(x), x.sum(1).detach()"),
        ),
        Example(
            name="split-sizes",
            code=forward("""
                sizes = torch.tensor([1, 3]) + 0 * (x > 0).sum()
                return torch.cat(self.fc(x).split(sizes.tolist())[::-1])  # DYN207
            """),
            declined="capture_scalar_outputs = True` for whole numbers",
        ),
        Example(
            name="attention-of-pieces",
            code=forward(
                """
                q, k, v = self.qkv(x)[None, None].chunk(3, dim=-1)
                lengths = ends.diff(prepend=ends.new_zeros(1))
                pieces = [torch.split(t, lengths.tolist(), dim=2) for t in (q, k, v)]  # DYN207

                outputs = [
                    functional.scaled_dot_product_attention(
                        q,
                        k,
                        v,
                        attn_mask=None,  # all of the piece
                    )
                    for q, k, v in zip(*pieces)
                ]
                out = torch.cat(outputs, dim=2)
                return out.flatten()
                """,
                head="from torch.nn import functional",
                init="self.qkv = nn.Linear(8, 12)",
                arguments="x: torch.Tensor, ends: torch.Tensor",
            ),
            fixed=forward(
                """
                q, k, v = self.qkv(x)[None, None].chunk(3, dim=-1)
                lengths = ends.diff(prepend=ends.new_zeros(1))
                piece = torch.searchsorted(lengths.cumsum(0), torch.arange(q.shape[2], device=q.device), right=True)
                mask = torch.where(piece[:, None] == piece, 0.0, -torch.inf)[None, None].to(q.dtype)

                out = functional.scaled_dot_product_attention(
                    q,
                    k,
                    v,
                    attn_mask=mask,  # all of the piece
                )
                return out.flatten()
                """,
                head="from torch.nn import functional",
                init="self.qkv = nn.Linear(8, 12)",
                arguments="x: torch.Tensor, ends: torch.Tensor",
            ),
            inputs="[(torch.randn(6, 8), torch.tensor(ends)) for ends in ([1, 4, 6], [2, 2, 6], [3, 4, 6])]",
            exact=False,
        ),
        Example(
            name="own-attention-of-pieces",
            code=forward(
                """
                q, k, v = self.qkv(x)[None, None].chunk(3, dim=-1)
                sizes = (ends[1:] - ends[:-1]).tolist()  # DYN207
                pieces = [t.split(sizes, dim=2) for t in (q, k, v)]
                return torch.cat(
                    [attend(q, k, v, attention_mask=None, is_causal=False)[0] for q, k, v in zip(*pieces)], dim=1
                )
                """,
                head=_ATTEND,
                init="self.qkv = nn.Linear(8, 12)",
                arguments="x: torch.Tensor, ends: torch.Tensor",
            ),
            inputs="[(torch.randn(6, 8), torch.tensor(ends)) for ends in ([0, 1, 4, 6], [0, 2, 2, 6])]",
            fixed=forward(
                """
                q, k, v = self.qkv(x)[None, None].chunk(3, dim=-1)
                sizes = (ends[1:] - ends[:-1])
                piece = torch.searchsorted(sizes.cumsum(0), torch.arange(q.shape[2], device=q.device), right=True)
                mask = torch.where(piece[:, None] == piece, 0.0, -torch.inf)[None, None].to(q.dtype)
                return attend(q, k, v, attention_mask=mask, is_causal=False)[0]
                """,
                head=_ATTEND,
                init="self.qkv = nn.Linear(8, 12)",
                arguments="x: torch.Tensor, ends: torch.Tensor",
            ),
            exact=False,
        ),
        Example(
            name="causal-attention-of-pieces",
            code=forward(
                """
                q, k, v = self.qkv(x)[None, None].chunk(3, dim=-1)
                sizes = (ends[1:] - ends[:-1]).tolist()  # DYN207
                pieces = [t.split(sizes, dim=2) for t in (q, k, v)]
                outputs = [
                    functional.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=True)
                    for q, k, v in zip(*pieces)
                ]
                return torch.cat(outputs, dim=2)
                """,
                head="from torch.nn import functional",
                init="self.qkv = nn.Linear(8, 12)",
                arguments="x: torch.Tensor, ends: torch.Tensor",
            ),
            inputs="[(torch.randn(6, 8), torch.tensor([0, 1, 4, 6]))]",
            declined="index or unbind",
        ),
        Example(
            name="pieces-put-together",
            code=KEPT_PIECES.format(
                cut="""sizes = (lengths // 2).tolist()  # DYN207
        out.parts = torch.split(out.parts, sizes)
        out.levels = [torch.split(level, sizes) for level in out.levels]""",
                read="torch.cat(out.parts, dim=0) + sum(torch.cat(level, dim=0) for level in out.levels)",
            ),
            inputs=KEPT_INPUTS,
            fixed=KEPT_PIECES.format(
                cut="""out.parts = (out.parts,)
        out.levels = [(level,) for level in out.levels]""",
                read="torch.cat(out.parts, dim=0) + sum(torch.cat(level, dim=0) for level in out.levels)",
            ),
        ),
        Example(
            name="pieces-one-by-one",
            code=KEPT_PIECES.format(
                cut="out.parts = torch.split(out.parts, (lengths // 2).tolist())  # DYN207",
                read="torch.stack([part.sum() for part in out.parts])",
            ),
            inputs=KEPT_INPUTS,
            declined="mask a tensor of fixed size",
        ),
        Example(
            name="floats",
            code=forward("""
                low, high = torch.stack([x.min(), x.max()]).tolist()  # DYN207
                return self.fc(x).clamp(low, high)
            """),
            declined="index or unbind",
        ),
        Example(
            name="unbind-instead",
            code=forward("""
                low, high = torch.stack([x.min(), x.max()]).detach().unbind()
                return torch.minimum(torch.maximum(self.fc(x), low), high)
            """),
        ),
        Example(
            name="list-of-shapes",
            code=forward(
                """
                sizes = self.sizes.tolist()
                return self.fc(x).view(sizes)
                """,
                head="""
                class Sizes(tuple):
                    def tolist(self):
                        return list(self)
                """,
                init="self.fc, self.sizes = nn.Linear(8, 8), Sizes((4, 8))",
            ),
        ),
        Example(
            name="message-of-an-exception",
            code=forward("""
                if x.dim() != 2:
                    raise ValueError(f"bad input {x.tolist()}")
                return self.fc(x)
            """),
        ),
    )


def _setting(kind: k.Kind | None) -> str:
    """Name the setting that traces whole numbers."""
    tensor = k.only_tensor(kind) if kind is not None else None
    if tensor is None or tensor.dtype == "float":
        return ""
    return ", or set `torch._dynamo.config.capture_scalar_outputs = True` for whole numbers"


def _nearest(parent: ast.AST | None) -> str:
    """Say why there is no rewrite, and what comes nearest."""
    if isinstance(parent, ast.For | ast.comprehension):
        return "a loop over the elements runs in Python; write it as one operation on the whole tensor"
    if isinstance(parent, ast.Call):
        return "the sizes come from data; mask a tensor of fixed size instead of cutting it into pieces"
    return "a list of numbers cannot stay in the graph; index or unbind the tensor and go on with tensors"


def _loop_over(scope: Scope, node: ast.Call) -> tuple[ast.For | None, ast.expr | None]:
    """Return the loop over a list, by itself or in `enumerate`, and what it puts each of its elements under."""
    iterated, target_at = node, None
    outer = scope.parents[node]
    if isinstance(outer, ast.Call) and outer.args == [node] and callee(scope, outer) == "builtins.enumerate":
        iterated, target_at = outer, 1
    loop = scope.parents[iterated]
    if not isinstance(loop, ast.For) or loop.iter is not iterated:
        return None, None
    if target_at is None:
        return loop, loop.target
    pair = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
    return loop, pair[target_at] if len(pair) == 2 else None


def _unbound(scope: Scope, node: ast.Call, source: ast.expr) -> Rewrite | None:
    """Go on with a tensor for each number: where a loop takes them, or an index that is known."""
    tensor, parent = scope.tensor(source), scope.parents[node]
    if tensor is None:
        return None
    start, end = tail(scope, node, "tolist")
    found = rows_of(scope, source)
    loop, target = _loop_over(scope, node)
    if loop is not None and target is not None:
        flow, text = flow_into(scope, target, loop, tensor.dtype), f"{found.text}.unbind()"
    elif isinstance(parent, ast.Subscript) and parent.value is node and is_whole(scope.kind(parent.slice)):
        flow, text = flow_of(scope, parent, tensor.dtype), found.text
    else:
        return None
    flow.conditions.update(dict.fromkeys(found.conditions))
    title = "Go on with tensors: `.detach()` instead of `.tolist()`"
    edits = (Replacement(scope.file, start, end, text), *flow.edits)
    return Rewrite(title, flow.safety, edits, flow.clauses, imports=flow.imports, leaves=flow.leaves)


def _returned(scope: Scope, node: ast.Call, source: ast.expr) -> Rewrite | None:
    """Return the tensor where a list is returned to code that is not compiled."""
    outer: ast.AST = node
    while isinstance(scope.parents[outer], ast.Tuple | ast.List | ast.Dict):
        outer = scope.parents[outer]
    root = scope.function.caller is None or is_passed_up(scope)
    tensor = scope.tensor(source)
    if not isinstance(scope.parents[outer], ast.Return) or not root or tensor is None or tensor.array:
        return None
    start, end = tail(scope, node, "tolist")
    replacement = Replacement(scope.file, start, end, rows_of(scope, source).text)
    title = "Return the tensor: `.detach()` instead of `.tolist()`"
    return Rewrite(title, "unsafe", (replacement,), ("the caller receives a tensor instead of a list",))

"""DYN301: the elements of a tensor that a mask selects."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Call, Event, Subscript
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.counts import count_of
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.masked_reductions import ignored_in_loss, reduced, reduced_later, selection_of
from dynalint_rules._shared.masked_stores import scattered_back, stored_next
from dynalint_rules._shared.numbers import flow_of
from dynalint_rules._shared.scattered_rows import scattered_elsewhere
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.selected_bins import counted_in_bins
from dynalint_rules._shared.selected_chains import reduced_at_last
from dynalint_rules._shared.selected_extremes import extreme_of
from dynalint_rules._shared.selection import reads_by_mask, target_of
from dynalint_rules._shared.settings import captures_shapes
from dynalint_rules._shared.sized_masks import sized_selection
from dynalint_rules._shared.text import atom

_SELECTING = frozenset({"torch.masked_select", "Tensor.masked_select"})
_DECLINED = (
    "the number of selected elements depends on data; keep the full shape and let `torch.where` put a neutral value "
    "where nothing is selected, or set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`"
)
_BEND = """
def bend(values, weight, bound):
    share = weight.softmax(-1)[..., 0]
    return values * share + bound, values + share
"""


class MaskRead(Rule):
    """Take out of a tensor the elements that a mask selects.

    ## What it flags
    `x[mask]`, `x[:, mask]`, `x[x > 0]` and the like, where the index is a tensor of bools (or a list of bools), and
    `masked_select`, in code that is compiled. Not flagged: an index of whole numbers (`x[ids]`), `torch.where` with
    three arguments, `masked_fill`, `x[mask] = 0.0`, which stores one value and is traced, masks whose dtype is not
    known, and projects that set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`. A read that is stored
    back by the same mask is DYN302.

    ## Why
    How many elements come out depends on the data, so the result has a shape that Dynamo cannot know. It ends the
    graph before the read, and what follows is compiled again as the number changes. A mask that is constant (an
    `eye`, a triangle) breaks like any other, since Dynamo does not look at its values.

    ## Example
    ```python
    def forward(self, x, mask):
        return x[mask].sum()
    ```

    Use instead:
    ```python
    def forward(self, x, mask):
        return torch.where(mask, x, 0).sum()
    ```

    ## How it is rewritten
    `x[mask].sum()` becomes `torch.where(mask, x, 0).sum()`, and `x[mask].mean()` becomes `torch.where(mask, x, 0).sum()
    / mask.sum()`, also where the selected elements have a name and go through elementwise operations first, over
    several statements if need be. `F.cross_entropy(x[mask], y[mask])` becomes `F.cross_entropy(x, torch.where(mask, y,
    -100))`, with the label that the loss ignores. Where only the number of elements is asked for, by `x[mask].numel()`,
    `x[mask].shape[0]` or `len(x[mask])`, it is `mask.sum()`, if every use takes a tensor (see DYN201). `v = x[mask] +
    y` or `v = x[mask]`, stored by the next statement by the same mask, is chosen by `torch.where` (see DYN302), and so
    is `a.masked_scatter(mask, b[mask])`. Rows that are only counted and put elsewhere, by `out.masked_scatter(places,
    x[mask])`, are put first by a stable sort of the mask, and so is all off the diagonal of `torch.eye(n)`, or on it,
    of which sizes tell how much it is. A list of bools becomes a list of positions: `x[[True, False]]` is `x[[0]]`.
    Where `torch.bincount` takes the elements, ones and zeros are added into as many bins. `x[mask].max()` is
    `torch.where(mask, x, -torch.inf).max()`, where `x` is known to hold floats; the least element of all stands for
    minus infinity elsewhere. Anything else needs a neutral value that suits what is done with the elements, which is
    for a person to say.

    ## When the rewrite is not exact
    The maximum of nothing raises, and that of the full shape does not; where it may be the least element of all, those
    share its gradient. Sums run over more elements, in another order, so the last digits may differ. The fix is
    `unsafe` for that reason, and asks for a mask with as many dimensions as the tensor. Counting is `conditional`:
    `numel()` is that of the mask only if it has as many dimensions as the tensor, and the count is a tensor of whole
    numbers.

    ## How Dynamo words it
    GB0036: `Dynamic shape operator`, "Operator `aten.nonzero.default`'s output shape depends on input Tensor data". For
    a mask without dimensions GB0033: `Data dependent operator`.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://docs.pytorch.org/docs/stable/generated/torch.where.html
    """

    code = "DYN301"
    name = "mask-read"
    summary = "as many elements as a mask selects have a shape that depends on data, which ends the graph"
    severity = "warning"
    gb = ("GB0036", "GB0033")
    events = (Subscript, Call)
    calls = _SELECTING

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag each read by a mask, unless its statement stores by the same mask."""
        if captures_shapes(project, event.function):
            return
        if isinstance(event, Subscript):
            if not reads_by_mask(event) or target_of(event) is not None:
                return
        elif not isinstance(event, Call) or event.callee not in _SELECTING:
            return
        yield Violation(
            event.node,
            f"{quote(event.function.file, event.node)} has as many elements as the mask selects, which ends the graph",
            help="keep the full shape and choose by `torch.where(mask, x, neutral)`",
        )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Sum, or average, over the full shape with zeros in the place of what is not selected."""
        if isinstance(event, Subscript | Call):
            try:
                scope, selection = Scope.of(event, project), selection_of(event.node)
                rewrite = None
                if selection is not None:
                    rewrite = reduced(scope, selection) or reduced_later(scope, selection)
                    rewrite = rewrite or extreme_of(scope, selection) or counted_in_bins(scope, selection)
                if isinstance(event, Subscript):
                    rewrite = rewrite or ignored_in_loss(scope, event.node) or stored_next(scope, event)
                    rewrite = rewrite or scattered_back(scope, event) or _counted(scope, event)
                    rewrite = rewrite or scattered_elsewhere(scope, event) or sized_selection(scope, event)
                if rewrite is None and selection is not None:
                    rewrite = reduced_at_last(scope, selection)
            except Refusal as refusal:
                return Declined(str(refusal))
            if rewrite is not None:
                return rewrite
        return Declined(_DECLINED)

    examples = (
        Example(
            name="counted-in-bins",
            code=forward(
                """
                h, mask = self.fc(x), labels >= 0
                found = labels[mask].long()  # DYN301
                return h * torch.bincount(found, minlength=8)  # DYN303
                """,
                arguments="x: torch.Tensor, labels: torch.Tensor",
            ),
            inputs="[(torch.randn(4, 8), torch.tensor(l)) for l in ([0, 2, -100, 2], [7, -1, 0, 0], [-1] * 4)]",
            fixed=forward(
                """
                h, mask = self.fc(x), labels >= 0
                found = torch.where(mask, labels, 0).flatten().long()
                return h * mask.new_zeros(8, dtype=torch.int64).scatter_add(0, found, mask.flatten().long())
                """,
                arguments="x: torch.Tensor, labels: torch.Tensor",
            ),
        ),
        Example(
            name="off-the-diagonal",
            code=forward("""
                h = self.fc(x) @ x.T
                i = torch.eye(len(h), dtype=torch.bool, device=h.device)
                return h[~i].view(4, -1)  # DYN301
            """),
            fixed=forward("""
                h = self.fc(x) @ x.T
                i = torch.eye(len(h), dtype=torch.bool, device=h.device)
                return h.flatten(0, 1)[i.flatten().argsort(stable=True)[: i.shape[0] * (i.shape[0] - 1)]].view(4, -1)
            """),
        ),
        Example(
            name="largest-of-some",
            code=forward("return self.fc(x) / x.float()[x != 0.5].max()  # DYN301"),
            fixed=forward("return self.fc(x) / torch.where(x != 0.5, x.float(), -torch.inf).max()"),
        ),
        Example(
            name="largest-number-of-some",
            code=forward(
                """
                labels = y.long()
                assert labels[labels != -1].max() < 10, "too large"  # DYN301
                return self.fc(x) * y[y < 9].min()  # DYN301
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
            inputs="[(torch.randn(4, 8), torch.tensor([[1.0], [-1.0], [9.0], [torch.nan]]))]",
            fixed=forward(
                """
                labels = y.long()
                assert torch.where(labels != -1, labels, labels.min()).max() < 10, "too large"
                return self.fc(x) * torch.where(y < 9, y, torch.inf).min()
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
        ),
        Example(
            name="largest-of-some-in-each-row",
            code=forward("return self.fc(x) / x[x != 0.5].max(0)[0]  # DYN301"),
            declined="depends on data",
        ),
        Example(
            name="listed-over-rounds",
            code=forward(
                """
                h, mask = self.fc(x), x > 0
                found = []
                for i in range(4):
                    found.append(h[i][mask[i]])  # DYN301
                return torch.cat(found)
                """
            ),
            declined="depends on data",
        ),
        Example(
            name="computed-over-several-statements",
            code=forward(
                """
                error = (self.fc(x) - 1).abs()
                near, far = 0.5, 2
                small = error[error < near]  # DYN301 DYN806
                twice = far * small
                large = error[error >= near]  # DYN301 DYN806
                rest = torch.log(large + 1) - near
                total = ((twice - small) ** 2).sum()
                total = total + torch.mean(rest)
                return total / (len(small) + rest.numel())
                """
            ),
            fixed=forward(
                """
                error = (self.fc(x) - 1).abs()
                near, far = 0.5, 2
                small = torch.where(error < near, error, 1)
                twice = far * small
                large = torch.where(error >= near, error, 1)
                rest = torch.log(large + 1) - near
                total = torch.where(error < near, (twice - small) ** 2, 0).sum()
                total = total + (torch.where(error >= near, rest, 0).sum() / (error >= near).sum())
                return total / ((error < near).sum() + (error >= near).sum())
                """
            ),
            exact=False,
        ),
        Example(
            name="selected-and-kept",
            code=forward("""
                error = (self.fc(x) - 1).abs()
                small = error[error < 0.5]  # DYN301
                twice = small * 2
                return twice.sum(), small
            """),
            declined="the number of selected elements depends on data",
        ),
        Example(
            name="changed-after-it-was-selected",
            code=forward("""
                error = (self.fc(x) - 1).abs()
                few = error < 0.5
                small = error[few] + 1  # DYN301
                error.mul_(2)
                return small.sum()
            """),
            declined="the number of selected elements depends on data",
        ),
        Example(
            name="mask-that-changes",
            code=forward("""
                error = (self.fc(x) - 1).abs()
                limit = 0.5
                small = error[error < limit] + 1  # DYN301
                limit = 2
                return small.sum() + limit
            """),
            declined="the number of selected elements depends on data",
        ),
        Example(
            name="comparison",
            code=forward("""
                h = self.fc(x)
                return h[h > 0]  # DYN301
            """),
            declined="depends on data",
        ),
        Example(
            name="sum",
            code=forward("""
                h = self.fc(x)
                return h[x > 0].sum()  # DYN301
            """),
            fixed=forward("""
                h = self.fc(x)
                return torch.where(x > 0, h, 0).sum()
            """),
            exact=False,
        ),
        Example(
            name="mean",
            code=forward("""
                h = self.fc(x)
                keep = (x > 0) | torch.eye(4, 8, dtype=torch.bool)
                return h[keep].mean()  # DYN301
            """),
            fixed=forward("""
                h = self.fc(x)
                keep = (x > 0) | torch.eye(4, 8, dtype=torch.bool)
                return torch.where(keep, h, 0).sum() / keep.sum()
            """),
            exact=False,
        ),
        Example(
            name="buffer",
            code=forward(
                "return self.fc(x)[~self.diagonal].view(4, -1)  # DYN301",
                init="""
                    self.fc = nn.Linear(8, 4)
                    self.register_buffer("diagonal", torch.eye(4, dtype=torch.bool))
                """,
            ),
            declined="depends on data",
        ),
        Example(
            name="rows-of-two-tensors",
            code=forward("""
                h = self.fc(x)
                valid = torch.isfinite(x).all(-1)
                loss = (h[valid] - x[valid]).abs()  # DYN301
                return loss.mean()
            """),
        ),
        Example(
            name="beside-other-indices",
            code=forward("""
                first = x[0].ne(0).to(x.device)
                return self.fc(x)[:, first]  # DYN301
            """),
        ),
        Example(
            name="masked-select",
            code=forward("""
                h = self.fc(x)
                return torch.masked_select(h, x > 0).sum() + h.masked_select(x < 1).sum()  # DYN301
            """),
            fixed=forward("""
                h = self.fc(x)
                return torch.where(x > 0, h, 0).sum() + torch.where(x < 1, h, 0).sum()
            """),
            exact=False,
        ),
        Example(
            name="mask-without-dimensions",
            code=forward("""
                h = self.fc(x)
                return h[x.sum() > 0]  # DYN301
            """),
        ),
        Example(
            name="list-of-bools",
            code=forward("""
                h = self.fc(x)
                return h[[True, False, True, False]]  # DYN301
            """),
            fixed=forward("""
                h = self.fc(x)
                return h[[0, 2]]
            """),
        ),
        Example(
            name="numpy",
            code=forward(
                """
                values = x.numpy()
                return self.fc(x) + torch.from_numpy(values[values > 0]).sum()  # DYN301
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="mask-of-a-helper",
            code=forward(
                """
                mask = padding(x)
                return self.fc(x)[mask]  # DYN301
                """,
                head="""
                    def padding(x):
                        return x.sum(-1) != 0
                """,
            ),
        ),
        Example(
            name="read-for-its-number",
            code=forward("""
                h = self.fc(x)
                if h[x > 100].numel() > 3:  # DYN301
                    h = h * 2
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                h = torch.where((x > 100).sum() > 3, h * 2, h)
                return h
            """),
        ),
        Example(
            name="full-shape",
            code=forward("""
                h = self.fc(x)
                mask = x > 0
                h = torch.where(mask, h, 0.0) + h.masked_fill(mask, 1.0)
                return h * mask
            """),
        ),
        Example(
            name="stored-value",
            code=forward("""
                h = self.fc(x).detach()
                h[h > 0] = 1.0
                h[x[:, 0] > 0, :2] = 0.0
                return h
            """),
        ),
        Example(
            name="mean-of-something-computed",
            code=forward("""
                delta = self.fc(x) - x
                valid = x > 0
                delta = delta[valid]  # DYN301
                return (delta**2).mean() + 1
            """),
            fixed=forward("""
                delta = self.fc(x) - x
                valid = x > 0
                return (torch.where(valid, delta**2, 0).sum() / valid.sum()) + 1
            """),
            exact=False,
        ),
        Example(
            name="reduced-twice",
            code=forward("""
                delta = self.fc(x) - x
                valid = x > 0
                chosen = delta[valid]  # DYN301
                return chosen.mean() + chosen.abs().sum()
            """),
            fixed=forward("""
                delta = self.fc(x) - x
                valid = x > 0
                chosen = torch.where(valid, delta, 1)
                return (torch.where(valid, chosen, 0).sum() / valid.sum()) + torch.where(valid, chosen.abs(), 0).sum()
            """),
            exact=False,
        ),
        Example(
            name="loss",
            code=forward(
                """
                mask = x[:, 0] > -10
                return F.cross_entropy(self.fc(x)[mask], labels[mask])  # DYN301
                """,
                head="import torch.nn.functional as F",
                arguments="x: torch.Tensor, labels: torch.Tensor",
            ),
            fixed=forward(
                """
                mask = x[:, 0] > -10
                return F.cross_entropy(self.fc(x).flatten(0, -2), torch.where(mask, labels, -100).flatten())
                """,
                head="import torch.nn.functional as F",
                arguments="x: torch.Tensor, labels: torch.Tensor",
            ),
            inputs="[(torch.randn(4, 8), torch.arange(4)), (torch.ones(4, 8), torch.zeros(4).long())]",
            exact=False,
        ),
        Example(
            name="put-elsewhere",
            code=forward(
                """
                parts = self.fc(x).view(2, 2, 8)
                mask = torch.arange(2) < lengths[:, None]
                parts = parts[mask]  # DYN301
                places = torch.arange(4) < lengths.sum()
                if parts.shape[1] != 8:
                    raise ValueError("other parts")
                torch._assert_async(places.sum() == parts.shape[0])
                parts = parts.to(x.dtype)
                return x.masked_scatter(places[:, None], parts)
                """,
                arguments="x: torch.Tensor, lengths: torch.Tensor",
            ),
            inputs="[(torch.randn(4, 8), torch.tensor(lengths)) for lengths in ([1, 2], [0, 1], [2, 2])]",
            fixed=forward(
                """
                parts = self.fc(x).view(2, 2, 8)
                mask = torch.arange(2) < lengths[:, None]
                order = (~mask).flatten().argsort(stable=True)
                parts = parts.flatten(0, mask.dim() - 1)[order]
                places = torch.arange(4) < lengths.sum()
                if parts.shape[1] != 8:
                    raise ValueError("other parts")
                torch._assert_async(places.sum() == mask.sum())
                parts = parts.to(x.dtype)
                return x.masked_scatter(places[:, None], parts)
                """,
                arguments="x: torch.Tensor, lengths: torch.Tensor",
            ),
        ),
        Example(
            name="put-elsewhere-and-returned",
            code=forward(
                """
                parts = self.fc(x)
                parts = parts[x[:, 0] > 0]  # DYN301
                return x.masked_scatter(x[:, :1] > 0, parts), parts
                """,
            ),
            declined="depends on data",
        ),
        Example(
            name="called-with-their-number",
            code=forward(
                """
                out, inside = torch.zeros_like(x), x.abs() < 1
                out[inside], out[inside] = bend(x[inside], torch.ones(2)[None], inside.sum())  # DYN301
                return out
                """,
                head=_BEND,
            ),
            declined="depends on data",
        ),
        Example(
            name="number-of-elements",
            code=forward("""
                h = self.fc(x)
                mask = x > 0
                return h / (h[mask].numel() + 1)  # DYN301
            """),
            fixed=forward("""
                h = self.fc(x)
                mask = x > 0
                return h / (mask.sum() + 1)
            """),
        ),
        Example(
            name="number-of-rows",
            code=forward("""
                h = self.fc(x)
                return h * h[x[:, 0] > 0].shape[0]  # DYN301
            """),
            fixed=forward("""
                h = self.fc(x)
                return h * (x[:, 0] > 0).sum()
            """),
        ),
        Example(
            name="checked-by-a-function-that-takes-tensors",
            code=forward(
                """
                h = self.fc(x)
                mask = x > -100
                check(h[mask].numel() == x.numel())  # DYN301
                return h
                """,
                head="""
                    def check(condition):
                        if isinstance(condition, torch.Tensor):
                            torch._assert_async(condition.all())
                        elif not condition:
                            raise RuntimeError
                """,
            ),
            fixed=forward(
                """
                h = self.fc(x)
                mask = x > -100
                check(mask.sum() == x.numel())
                return h
                """,
                head="""
                    def check(condition):
                        if isinstance(condition, torch.Tensor):
                            torch._assert_async(condition.all())
                        elif not condition:
                            raise RuntimeError
                """,
            ),
        ),
        Example(
            name="stored-back",
            code=forward("""
                rows = x[:, 0] > -9
                extra = x * 3
                h = self.fc(x).clone()
                added = h[rows, :] + extra  # DYN301
                h[rows, :] = added
                return h
            """),
            fixed=forward("""
                rows = x[:, 0] > -9
                extra = x * 3
                h = self.fc(x).clone()
                h = torch.where(rows[..., None], h + torch.zeros_like(h).masked_scatter(rows[..., None], extra), h)
                return h
            """),
        ),
        Example(
            name="stored-back-into-a-copy",
            code=forward(
                """
                return add(x, x[:, 0] > -9, self.fc(x))
                """,
                head="""
                def add(h, rows, extra):
                    h = h.clone()
                    added = h[rows, :] + extra  # DYN301
                    h[rows, :] = added
                    return h
                """,
            ),
            fixed=forward(
                """
                return add(x, x[:, 0] > -9, self.fc(x))
                """,
                head="""
                def add(h, rows, extra):
                    h = h.clone()
                    h = torch.where(rows[..., None], h + torch.zeros_like(h).masked_scatter(rows[..., None], extra), h)
                    return h
                """,
            ),
        ),
        Example(
            name="read-and-stored-back",
            code=forward("""
                cosine = torch.mm(x, self.fc.weight)
                gain = cosine[torch.arange(4), 0].view(-1, 1)
                hard = cosine > gain
                chosen = cosine[hard]  # DYN301
                cosine[hard] = 1.2 * chosen + 1.2 - 1.0
                return cosine
            """),
            fixed=forward("""
                cosine = torch.mm(x, self.fc.weight)
                gain = cosine[torch.arange(4), 0].view(-1, 1)
                hard = cosine > gain
                cosine = torch.where(hard, 1.2 * cosine + 1.2 - 1.0, cosine)
                return cosine
            """),
        ),
        Example(
            name="read-and-stored-back-elsewhere",
            code=forward("""
                h = self.fc(x).clone()
                keep = x > 0
                chosen = x[keep]  # DYN301
                h[keep] = chosen * 2
                return h
            """),
            fixed=forward("""
                h = self.fc(x).clone()
                keep = x > 0
                h = torch.where(keep, x * 2, h)
                return h
            """),
        ),
        Example(
            name="read-by-one-mask-and-stored-by-another",
            code=forward("""
                h = self.fc(x).clone()
                keep, other = x > 0, x.flip(0) > 0
                chosen = x[keep]  # DYN301
                h[other.flip(0)] = chosen * 2
                return h
            """),
            declined="depends on data",
        ),
        Example(
            name="scattered-back",
            code=forward("""
                h = self.fc(x)
                keep = x > 0
                return h.masked_scatter(keep, x[keep])  # DYN301
            """),
            fixed=forward("""
                h = self.fc(x)
                keep = x > 0
                return torch.where(keep, x, h)
            """),
        ),
        Example(
            name="scattered-back-in-place",
            code=forward("""
                keep = x.ne(0)
                positions = self.fc(x) + keep.sum(1).unsqueeze(1)
                new = x.clone()
                return new.masked_scatter_(keep, positions[keep]).double()  # DYN301
            """),
            fixed=forward("""
                keep = x.ne(0)
                positions = self.fc(x) + keep.sum(1).unsqueeze(1)
                new = x.clone()
                return torch.where(keep, positions, new).double()
            """),
        ),
        Example(
            name="scattered-into-the-argument",
            code=forward("""
                keep = x.ne(0)
                h = self.fc(x).detach()
                return x.masked_scatter_(keep, h[keep])  # DYN301
            """),
            declined="depends on data",
        ),
        Example(
            name="scattered-by-another-mask",
            code=forward("""
                h = self.fc(x)
                keep = x > 0
                return h.masked_scatter(x > -9, x[keep.logical_not()])  # DYN301
            """),
            inputs="[(torch.zeros(4, 8),)]",
            declined="depends on data",
        ),
        Example(
            name="stored-back-and-read-again",
            code=forward("""
                rows = x[:, 0] > -9
                h = self.fc(x).clone()
                added = h[rows, :] + 1  # DYN301
                h[rows, :] = added
                return h, added
            """),
            declined="depends on data",
        ),
        Example(
            name="whole-numbers",
            code=forward("""
                h = self.fc(x)
                order = (x > 0).sum(-1).argsort()
                return h[order] + h[(x[:, 0] > 0).long()]
            """),
        ),
    )


def _counted(scope: Scope, event: Subscript) -> Rewrite | None:
    """The rewrite of `x[mask].numel()` and its like, None where more than the number of elements is asked for."""
    node, mask = event.node, scope.tensor(event.node.slice)
    if isinstance(node.slice, ast.List):
        return _positions(scope, node.slice)
    asked = count_of(scope, node)
    if asked is None or mask is None:
        return None
    for part in (node.value, node.slice):
        if not is_pure(scope, part):
            raise Refusal(f"{scope.quote(part)} does more than give a value; give the value a name first")
    flow = flow_of(scope, asked.node, "int", wide=True)
    tensor = scope.tensor(node.value)
    if asked.elements and (tensor is None or mask.rank is None or mask.rank != tensor.rank):
        flow.conditions[f"the mask {scope.quote(node.slice)} has as many dimensions as {scope.quote(node.value)}"] = (
            None
        )
    start, end = scope.file.span(asked.node)
    text = f"{atom(node.slice, scope.text(node.slice))}.sum()"
    edits = (Replacement(scope.file, start, end, text), *flow.edits)
    title = "Count what the mask selects"
    return Rewrite(title, flow.safety, edits, flow.clauses, imports=flow.imports, leaves=flow.leaves)


def _positions(scope: Scope, mask: ast.List) -> Rewrite | None:
    """The rewrite of a mask that is written as a list of bools."""
    if not all(isinstance(one, ast.Constant) and isinstance(one.value, bool) for one in mask.elts):
        return None
    chosen = [str(place) for place, one in enumerate(mask.elts) if isinstance(one, ast.Constant) and one.value]
    if not chosen:
        return None
    start, end = scope.file.span(mask)
    replacement = Replacement(scope.file, start, end, f"[{', '.join(chosen)}]")
    condition = "the list is as long as the dimension that it selects from"
    return Rewrite("Index by positions", "conditional", (replacement,), (condition,))

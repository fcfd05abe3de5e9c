"""DYN201: calling `.item()` on a tensor."""

from __future__ import annotations

import ast

from dynalint.rulekit import Call, Declined, Project, Refusal, Rewrite, Rule, Violation, k, leads_to_raise, rw, walk
from dynalint_rules._code.calls import callee, reads_among
from dynalint_rules._code.known_numbers import is_folded, is_stored_number
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.settings import captures_number
from dynalint_rules._shared.branch.checks import rewrite_checking_call
from dynalint_rules._shared.guard.statements import shown_in_eager
from dynalint_rules._shared.number.detached import detached
from dynalint_rules._shared.number.flow import NumberFlow
from dynalint_rules._shared.number.listed import row_at_mask, rows_at_once
from dynalint_rules._shared.number.numbers import flow_of, with_conditions
from dynalint_rules._shared.number.python_numbers import rewrite_in_python
from dynalint_rules._shared.number.range_loops import over_range
from dynalint_rules._shared.number.row_stores import filled_at_once
from dynalint_rules._shared.number.takers import EXTREMES

_AROUND = (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.BinOp, ast.Call, ast.List)


class ItemOfTensor(Rule):
    code = "DYN201"
    name = "item-of-tensor"
    summary = "`.item()` reads a number from a tensor and breaks the graph"
    gb = ("GB0124", "GB0033", "GB0208")
    reads_data = True
    events = (Call,)
    calls = frozenset({"Tensor.item", "numpy.ndarray.item"})
    message = "`.item()` reads a number from a tensor, which breaks the graph"
    help = "keep the value as a 0-dim tensor (`.detach()`), and read it outside the compiled code"

    def flags(self, event: Call, project: Project) -> bool:
        """Flag `.item()` without arguments on a value that is known to be a tensor."""
        tensor = None if event.receiver is None or event.node.args else k.only_tensor(event.receiver)
        if tensor is None or captures_number(project, event.function, event.node) or leads_to_raise(event, project):
            return False
        return not is_folded(tensor) and not is_stored_number(tensor)

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep the value as a 0-dim tensor without a gradient."""
        if not isinstance(event.node.func, ast.Attribute):
            return None
        scope, source = Scope.of(event, project), event.node.func.value
        found = rewrite_in_python(scope, event.node) or rewrite_checking_call(scope, event.node)
        found = found or shown_in_eager(scope, event.node) or rows_at_once(scope, event.node)
        found = found or row_at_mask(scope, event.node) or filled_at_once(scope, scope.parents.get(event.statement))
        return found or over_range(scope, source) or _kept(scope, event.node, source)


def _kept(scope: Scope, node: ast.Call, source: ast.expr) -> Rewrite:
    """Replace `.item()` with `.detach()` if every use of the number accepts a 0-dim tensor.

    Other reads in the same test, `min`, `max` or list are replaced, too, because it can only be rewritten without any.
    """
    tensor = k.only_tensor(scope.kind(source))
    is_array = tensor is not None and tensor.array
    text, flow = _tensor_of(scope, node, source)
    changes: list[rw.Change] = []
    together = NumberFlow()
    for read, its_source in sorted([(node, source), *_others_beside(scope, node)], key=_position):
        try:
            its_text, its_flow = (text, flow) if read is node else _tensor_of(scope, read, its_source)
        except Refusal:
            continue
        changes.append((read, its_text))
        together.add(its_flow)
    kept = "Use `torch.as_tensor(...)`" if is_array else "Use `.detach()`" if ".detach()" in text else "Use the tensor"
    return Rewrite(
        f"{kept} instead of `.item()` to keep the 0-dim tensor",
        together.safety,
        rw.written(scope.file, *changes, *together.edits),
        together.clauses,
        imports=scope.imports if is_array else together.imports,
        # A buffer that is changed in place may now be a factor in a product.
        leaves=(*together.leaves, *(("DYN505",) if tensor is not None and tensor.origin == "buffer" else ())),
    )


def _tensor_of(scope: Scope, node: ast.Call, source: ast.expr) -> tuple[str, NumberFlow]:
    """Return the text of the tensor that a read is replaced with, and what follows for the uses of the number."""
    tensor = k.only_tensor(scope.kind(source))
    found = detached(scope, source, read=node)
    flow = with_conditions(flow_of(scope, node, tensor.dtype if tensor else None), found)
    text = found.text
    if flow.recorded and tensor is not None and tensor.origin is not None and not text.endswith(".clone()"):
        text += ".clone()"  # the optimizer changes parameters in place
    if flow.leaves and isinstance(scope.parents[node], ast.BoolOp | ast.UnaryOp | ast.If | ast.IfExp):
        # The test reads the value immediately and passes no gradient, so it does not need these calls.
        text = text.replace(".detach()", "").replace(".clone()", "")
    return text, flow


def _position(read: tuple[ast.Call, ast.expr]) -> tuple[int, int]:
    return read[0].end_lineno or 0, read[0].end_col_offset or 0


def _others_beside(scope: Scope, node: ast.Call) -> list[tuple[ast.Call, ast.expr]]:
    """Return the other calls of `.item()` in the same test, `min`, `max` or list, each with its tensor."""
    top: ast.expr = node
    reads: list[ast.Call] = []
    while isinstance(parent := scope.parents[top], _AROUND):
        if isinstance(parent, ast.Call):
            if callee(scope, parent) not in EXTREMES or len(parent.args) != 2:
                break
            reads += [read for argument in parent.args for read in reads_among(scope, argument) if read not in reads]
        elif isinstance(parent, ast.List):
            reads += [read for one in parent.elts for read in reads_among(scope, one) if read not in reads]
        top = parent
    if isinstance(parent, ast.If) and parent.test is top:
        reads = [one for one in walk(top) if isinstance(one, ast.Call) and callee(scope, one) == "Tensor.item"]
    return [(one, one.func.value) for one in reads if isinstance(one.func, ast.Attribute) and one is not node]

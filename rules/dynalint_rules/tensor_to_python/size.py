"""DYN204: a tensor used as a size, a count, a dimension or the end of a range."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.rulekit import (
    Branch,
    Call,
    Event,
    Operation,
    Project,
    Rule,
    Subscript,
    Violation,
    k,
    quote,
    walk,
)
from dynalint_rules._code.integer_arguments import TAKING_INTEGERS, integers
from dynalint_rules._code.known_numbers import is_stored_number
from dynalint_rules._code.order import always_before
from dynalint_rules._code.passed_values import is_root_argument
from dynalint_rules._code.selection import reads_by_mask
from dynalint_rules._code.settings import SCALARS
from dynalint_rules._code.size_arguments import SIZES, sizes

_RANGE = "builtins.range"
# These run in Python or NumPy, so they always read the size.
_IN_PYTHON = (_RANGE, "numpy.arange")
# These only read a tensor if it is unpacked into dimensions with `*`.
_PERMUTING = ("Tensor.permute", "torch.permute")
# The results of these have a size that depends on data, even if the number is known.
_COUNTING = ("repeat_interleave", "bincount")
# These fail for a data-dependent size even if Dynamo captures scalars. All of them were run with Dynamo.
_NEVER_TRACED = frozenset(
    "split chunk permute roll tril triu select pad unflatten kthvalue "
    "hann_window hamming_window blackman_window bartlett_window".split()
)


class TensorAsSize(Rule):
    code = "DYN204"
    name = "tensor-as-size"
    summary = "Using a tensor as a size, count, dimension or range reads its value and breaks the graph"
    gb = ("GB0033", "GB0059")
    reads_data = True
    events = (Call, Operation)
    calls = frozenset({*SIZES, *_PERMUTING, *TAKING_INTEGERS})
    refusal = (
        "the shape of the result depends on data; use a bound that no input exceeds and mask the extra elements, "
        "or set `torch._dynamo.config.capture_scalar_outputs = True`"
    )

    def check(self, event: Call | Operation, project: Project) -> Iterable[Violation]:
        """Flag the call if a size is known to be a tensor, or a tuple or list that contains a tensor."""
        if isinstance(event, Operation):
            yield from _repetition(event)
        if not isinstance(event, Call) or event.callee not in self.calls:
            return
        if event.callee not in SIZES and event.callee not in _PERMUTING and not _takes_tensors(event):
            return
        given = [node for node, kind in _given(event, sizes(event.callee, event.node)) if _is_size_read(event, kind)]
        given = [node for node in given if not _is_number_given(event, node, project)]
        if event.callee in SIZES or event.callee in _PERMUTING:
            given += _unpacked(event, project)
        if any(event.callee == _RANGE or not _is_input(event, node, project) for node in given):
            yield _read(event, "a size", given[0], project)
            return
        for parameter, node in () if given else integers(event.callee, event.node):
            if not any(_holds_tensor(kind) for _, kind in _given(event, [node])):
                continue
            if not _is_number_given(event, node, project) and not _is_input(event, node, project):
                yield _read(event, f"`{parameter}`", node, project)
                return


def _repetition(event: Operation) -> Iterator[Violation]:
    """Flag `[0] * t`."""
    sides = (event.left, event.right or k.UNKNOWN)
    if event.operator is ast.Mult and any(isinstance(side, k.Sequence) for side in sides):
        for side in sides:
            tensor = k.only_tensor(side)
            if tensor is not None and not tensor.foreseen and not is_stored_number(tensor):
                yield Violation(
                    event.node,
                    "multiplying a list by a tensor reads the tensor's value, which breaks the graph",
                    help="create a tensor of the maximum length, and mask the extra elements",
                )


def _takes_tensors(event: Call) -> bool:
    return any(_holds_tensor(kind) for kind in (*event.args, *event.keywords.values()))


def _read(event: Call, what: str, node: ast.expr, project: Project) -> Violation:
    """Return the violation for a call that reads a number from the tensor in an argument."""
    name, message = event.callee.rpartition(".")[2], f"reads {what} from {_shown(event, node, project)}"
    if what == "a size":
        help_ = "use a bound that no input exceeds, such as a shape, and mask the extra elements"
        traced = event.callee.startswith(("torch.", "Tensor.")) and name not in _NEVER_TRACED
    else:
        help_, traced = "use a number that Python knows, such as a constant or a setting", False
    return Violation(
        event.node,
        f"`{name}()` {message}, which breaks the graph",
        help=help_,
        setting=SCALARS if traced else "",
    )


def _given(event: Call, nodes: Iterable[ast.expr]) -> Iterator[tuple[ast.expr, k.Kind]]:
    """Yield those arguments whose kinds are known, each with its kind."""
    kinds: dict[ast.expr, k.Kind] = dict(zip(event.node.args, event.args, strict=False))
    for keyword in event.node.keywords:
        if keyword.arg in event.keywords:
            kinds[keyword.value] = event.keywords[keyword.arg]
    yield from ((node, kinds[node]) for node in nodes if node in kinds)


def _unpacked(event: Call, project: Project) -> list[ast.expr]:
    """Return the tensors that are unpacked into sizes with `*`."""
    starred = [one.value for one in event.node.args if isinstance(one, ast.Starred)]
    starred = [one for one in starred if project.may_unpack_tensor(one)]
    kinds = project.kinds(event.function) if starred else {}
    tensors = ((node, k.only_tensor(kinds.get(node, k.UNKNOWN))) for node in starred)
    return [node for node, tensor in tensors if tensor is not None and not tensor.foreseen]


def _shown(event: Call, size: ast.expr, project: Project) -> str:
    """Return a description of the tensor in a size, which can be an item of a tuple or list."""
    kinds, file = project.kinds(event.function), event.function.file
    if isinstance(size, ast.Tuple | ast.List):
        items = [item for item in size.elts if _holds_tensor(kinds.get(item, k.UNKNOWN))]
        if items:
            return f"the tensor {quote(file, items[0])}"
    holder = isinstance(kinds.get(size), k.Sequence)
    return f"{'a tensor in' if holder else 'the tensor'} {quote(file, size)}"


def _is_size_read(event: Call, kind: k.Kind) -> bool:
    """Return whether a call reads a size. Dynamo cannot trace `range` of a tensor, even if it knows the number."""
    if event.callee == _RANGE:
        return k.only_tensor(kind) is not None
    return _holds_tensor(kind, event.callee in _IN_PYTHON)


def _holds_tensor(kind: k.Kind, stored: bool = False) -> bool:
    if isinstance(kind, k.Sequence) and kind.type in ("list", "tuple"):
        return any(_is_read(item, stored) for item in kind.items or (kind.element,))
    return _is_read(kind, stored)


def _is_read(kind: k.Kind, stored: bool) -> bool:
    """Return whether a size is a tensor that Dynamo does not know, or one kept in the module if `stored` is true."""
    tensor = k.only_tensor(kind)
    return tensor is not None and not tensor.foreseen and (stored or not is_stored_number(tensor))


def _is_number_given(event: Call, node: ast.expr, project: Project) -> bool:
    """Return whether each tensor in a size exists before the call of the compiled code, and may be an int on a CPU.

    Dynamo specialises on the value of such a tensor when torch asks for it, so the graph does not break.
    """
    if not event.callee.startswith(("torch.", "Tensor.")) or event.callee.endswith(_COUNTING):
        return False
    kinds = project.kinds(event.function)
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    held = [(one, tensor) for one in parts if (tensor := k.only_tensor(kinds.get(one, k.UNKNOWN))) is not None]
    return bool(held) and all(
        tensor.rank in (0, None)
        and tensor.dtype in ("int", None)
        and not tensor.array
        and (tensor.origin is not None or is_root_argument(one, event.function))
        for one, tensor in held
    )


def _is_input(event: Call, node: ast.expr, project: Project) -> bool:
    """Return whether the graph breaks between the creation of each tensor in a size and the call."""
    inside = list(walk(node))
    # A value computed here is new, even if its operands are not.
    if any(isinstance(one, ast.Call | ast.Subscript | ast.Attribute | ast.BinOp) for one in inside):
        return False
    parents = project.parents(event.function)
    ends = [end.node for end in _ends(event, project) if always_before(end.node, event.node, parents)]
    if not ends:
        return False
    kinds = project.kinds(event.function)
    names = {one.id for one in inside if isinstance(one, ast.Name) and k.only_tensor(kinds.get(one, k.UNKNOWN))}
    if isinstance(node, ast.Name) and _holds_tensor(kinds.get(node, k.UNKNOWN)):
        names.add(node.id)
    if not names:
        return False
    for one in walk(event.function.node):
        if isinstance(one, ast.Name) and one.id in names and isinstance(one.ctx, ast.Store):
            ends = [end for end in ends if (one.lineno, one.col_offset) < (end.lineno, end.col_offset)]
    return bool(ends)


def _ends(event: Call, project: Project) -> Iterator[Event]:
    """Yield the other events in the function that break the graph: sizes, branches, masks and numbers."""
    interpreter = project.interpreter
    contexts = interpreter.contexts.get(event.function, ()) if interpreter is not None else ()
    for other in (one for context in contexts for one in context.events.values() if one.node is not event.node):
        if isinstance(other, Branch):
            ends = k.only_tensor(other.kind) is not None
        elif isinstance(other, Subscript):
            ends = reads_by_mask(other)
        elif isinstance(other, Call):
            numbers = [*sizes(other.callee, other.node), *(node for _, node in integers(other.callee, other.node))]
            sized = any(_holds_tensor(kind) for _, kind in _given(other, numbers))
            ends = sized or other.callee in ("Tensor.item", "Tensor.tolist") or "dynamic_shape" in other.flags
        else:
            ends = False
        if ends:
            yield other

"""DYN212: passing a tensor where torch requires a Python number."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from dynalint.rulekit import Call, Project, Rule, Violation, k, leads_to_raise, quote
from dynalint_rules._code.settings import captures_scalars

_F = "torch.nn.functional."
# The parameters whose values are read, with their positions, or None for keyword-only parameters.
_PARAMETERS: Mapping[str, Mapping[str, int | None]] = {
    "torch.full_like": {"fill_value": 1},
    "Tensor.new_full": {"fill_value": 1},
    "Tensor.fill_diagonal_": {"fill_value": 0},
    "Tensor.uniform_": {"from": 0, "to": 1},
    "Tensor.normal_": {"mean": 0, "std": 1},
    "torch.nan_to_num": {"nan": 1, "posinf": 2, "neginf": 3},
    "Tensor.nan_to_num": {"nan": 0, "posinf": 1, "neginf": 2},
    "torch.add": {"alpha": None},
    "torch.sub": {"alpha": None},
    "torch.addcmul": {"value": None},
    "torch.cdist": {"p": 2},
    "torch.norm": {"p": 1},
    "Tensor.norm": {"p": 0},
    "torch.histc": {"min": 2, "max": 3},
    "torch.isclose": {"rtol": 2, "atol": 3},
    f"{_F}pad": {"value": 3},
    f"{_F}leaky_relu": {"negative_slope": 1},
    f"{_F}elu": {"alpha": 1},
    f"{_F}softplus": {"beta": 1, "threshold": 2},
    f"{_F}threshold": {"threshold": 1, "value": 2},
    f"{_F}dropout": {"p": 1},
    f"{_F}layer_norm": {"eps": 4},
    f"{_F}celu": {"alpha": 1},
    f"{_F}hardtanh": {"min_val": 1, "max_val": 2},
    f"{_F}normalize": {"p": 1},
    f"{_F}huber_loss": {"delta": None},
    f"{_F}smooth_l1_loss": {"beta": 5},
    f"{_F}cosine_embedding_loss": {"margin": 3},
    f"{_F}cross_entropy": {"ignore_index": 4, "label_smoothing": None},
    f"{_F}margin_ranking_loss": {"margin": 3},
    f"{_F}triplet_margin_loss": {"margin": 3},
    f"{_F}scaled_dot_product_attention": {"dropout_p": 4, "scale": None},
}
# The bounds can be tensors if both are.
_BOUNDS = {
    f"{owner}.{name}{end}": {"min": first, "max": first + 1}
    for owner, first, ends in (("torch", 1, ("",)), ("Tensor", 0, ("", "_")))
    for name in ("clamp", "clip")
    for end in ends
}
_INSTEAD = {
    "full_like": "fill an empty tensor, as in `torch.empty_like(x).fill_(value)`",
    "new_full": "fill an empty tensor, as in `x.new_empty(size).fill_(value)`",
}


class TensorAsNumber(Rule):
    code = "DYN212"
    name = "tensor-as-number"
    summary = "Passing a tensor where torch requires a Python number breaks the graph"
    gb = ("GB0033",)
    reads_data = True
    events = (Call,)
    calls = frozenset({*_PARAMETERS, *_BOUNDS})

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call if one of these arguments is known to be a tensor with a value that Dynamo does not know."""
        if captures_scalars(project, event.function) or leads_to_raise(event, project):
            return
        given = _given(event, _PARAMETERS.get(event.callee) or _BOUNDS[event.callee])
        tensors = [node for node, kind in given if _is_read(kind)]
        if event.callee in _BOUNDS and not any(k.is_number(kind) for _, kind in given):
            return
        if tensors:
            name = event.callee.rpartition(".")[2]
            bounds = "pass both bounds as tensors, or use `torch.maximum` and `torch.minimum`"
            yield Violation(
                event.node,
                f"`{name}()` requires a number and reads the tensor {quote(event.function.file, tensors[0])}, "
                "which breaks the graph",
                help=_INSTEAD.get(name, bounds if event.callee in _BOUNDS else "use tensor operations instead"),
            )


def _given(event: Call, places: Mapping[str, int | None]) -> list[tuple[ast.expr, k.Kind]]:
    """Return the arguments for these parameters, each with its kind."""
    if any(isinstance(one, ast.Starred) for one in event.node.args):
        return []
    nodes = {keyword.arg: keyword.value for keyword in event.node.keywords}
    found = [(nodes[name], event.keywords[name]) for name in places if name in nodes and name in event.keywords]
    by_place = [place for place in places.values() if place is not None and place < len(event.args)]
    return found + [(event.node.args[place], event.args[place]) for place in by_place if place < len(event.node.args)]


def _is_read(kind: k.Kind) -> bool:
    tensor = k.only_tensor(kind)
    return tensor is not None and not tensor.array and not tensor.foreseen

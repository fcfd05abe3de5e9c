"""Losses of two tensors, elementwise or for rows of scores with labels, and code for their unreduced values."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynalint.rulekit import k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import Scope

if TYPE_CHECKING:
    import libcst as cst

_IGNORED = "-100"
_FUNCTIONS = "torch.nn.functional."
_LAYERS = {
    "torch.nn.CrossEntropyLoss": "cross_entropy",
    "torch.nn.L1Loss": "l1_loss",
    "torch.nn.MSELoss": "mse_loss",
    "torch.nn.SmoothL1Loss": "smooth_l1_loss",
    "torch.nn.HuberLoss": "huber_loss",
    "torch.nn.BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
}
_OPTIONS = {"cross_entropy": ("reduction", "weight", "label_smoothing")}
_ELEMENTWISE_OPTIONS = ("reduction", "beta", "delta")


@dataclass
class Loss:
    """A loss of two `operands`, with its function's name and its reduction. `layer` is set if a module computes it.

    `keeps_mask` is true if the replacement still uses the mask.
    """

    function: str
    reduction: str
    operands: tuple[ast.expr, ast.expr]
    layer: bool = False
    keeps_mask: bool = field(default=True)

    def of_each(self, scope: Scope, call: ast.Call) -> cst.BaseExpression:
        """Return the loss of each element."""
        file = scope.file
        function = rw.name(f"{scope.torch}.nn.functional.{self.function}") if self.layer else rw.kept(file, call.func)
        options = {one.arg: rw.kept(file, one.value) for one in call.keywords if one.arg and one.arg != "reduction"}
        given = [rw.kept(file, one) for one in self.operands]
        return rw.call(function, *given, **options, reduction=rw.expression('"none"'))

    def with_ignored(self, scope: Scope, call: ast.Call, mask: ast.expr, made: ast.expr | None) -> list[rw.Change]:
        """Return the changes that make a loss ignore labels that the mask does not select.

        `made` is the mask's value.
        """
        (scores, labels), file = self.operands, scope.file
        known = scope.tensor(mask)
        flat = known is None or known.rank != 1
        given = labels.value if isinstance(labels, ast.Subscript) else labels
        ignored = _ignored_by(scope, made, given)
        kept = rw.kept(file, given)
        if ignored != _IGNORED:
            kept = rw.call(f"{scope.torch}.where", rw.kept(file, mask), kept, rw.expression(_IGNORED))
        else:
            self.keeps_mask = False
        changes: list[rw.Change] = [(scores, rw.calling("flatten", rw.number(0), rw.number(-2)))] if flat else []
        changes.append((labels, rw.method(kept, "flatten") if flat else kept))
        return changes


def loss_of(scope: Scope, call: ast.Call) -> Loss | None:
    """Return the loss that a call computes, or None if it is not supported."""
    name = callee(scope, call)
    kind = scope.kind(call.func)
    if isinstance(kind, k.Object) and kind.type in _LAYERS and len(call.args) == 2 and not call.keywords:
        plain = _is_made_plain(scope, call.func)
        return Loss(_LAYERS[kind.type], "mean", (call.args[0], call.args[1]), layer=True) if plain else None
    function = name.removeprefix(_FUNCTIONS)
    if not name.startswith(_FUNCTIONS) or function not in _LAYERS.values() or len(call.args) != 2:
        return None
    options = {one.arg: one.value for one in call.keywords}
    if not set(options) <= set(_OPTIONS.get(function, _ELEMENTWISE_OPTIONS)):
        return None
    reduction = options.get("reduction", ast.Constant("mean"))
    if not isinstance(reduction, ast.Constant) or reduction.value not in ("mean", "sum"):
        return None
    return Loss(function, str(reduction.value), (call.args[0], call.args[1]))


def _is_made_plain(scope: Scope, layer: ast.expr) -> bool:
    """Return whether a layer is created by a constructor without any arguments."""
    owner = scope.function.owner
    if not isinstance(layer, ast.Attribute) or owner is None:
        return False
    made = [one for cls in scope.project.mro(owner) for _, one in cls.stores.get(layer.attr, ())]
    calls = [one.value for one in made if isinstance(one, ast.Assign)]
    return len(calls) == len(made) == 1 and isinstance(calls[0], ast.Call) and not (calls[0].args or calls[0].keywords)


def _ignored_by(scope: Scope, mask: ast.expr | None, labels: ast.expr) -> str | None:
    """Return the source text of the only label that a mask such as `labels != 0` excludes, or None for other masks."""
    if not isinstance(mask, ast.Compare) or len(mask.ops) != 1 or not isinstance(mask.ops[0], ast.NotEq):
        return None
    wanted = mask.comparators[0]
    plain = k.is_number(scope.kind(wanted)) and not any(isinstance(one, ast.Call) for one in walk(wanted))
    same = ast.dump(mask.left) == ast.dump(labels)
    return scope.text(wanted) if same and plain else None

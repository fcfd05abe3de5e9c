"""Losses of two tensors, elementwise or for rows of scores with labels, and code for their unreduced values."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynalint.rulekit import k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import has_one_value, only_value
from dynalint_rules._code.raising import is_plain
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.mask.trailing_dimensions import rank_of

if TYPE_CHECKING:
    import libcst as cst

_IGNORED = "-100"
_FUNCTIONS = "torch.nn.functional."
_LAYERS = {
    "torch.nn.BCELoss": "binary_cross_entropy",
    "torch.nn.BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "torch.nn.CrossEntropyLoss": "cross_entropy",
    "torch.nn.HuberLoss": "huber_loss",
    "torch.nn.L1Loss": "l1_loss",
    "torch.nn.MSELoss": "mse_loss",
    "torch.nn.NLLLoss": "nll_loss",
    "torch.nn.SmoothL1Loss": "smooth_l1_loss",
}
_NAMES = frozenset(name.rpartition(".")[2] for name in _LAYERS)
_OF_LABELS = frozenset({"cross_entropy", "nll_loss"})
_OPTIONS = {
    "binary_cross_entropy_with_logits": ("reduction", "pos_weight"),
    "cross_entropy": ("reduction", "weight", "label_smoothing", "ignore_index"),
    "nll_loss": ("reduction", "weight", "ignore_index"),
}
_OPTIONS_OF_NUMBERS = ("reduction", "beta", "delta")


@dataclass
class Loss:
    """A loss of selected `operands`, with the name of its function and its reduction. `layer` is true for a module.

    `options` are a layer's numbers. `ignored` is the source text of the label that the loss ignores. `keeps_mask` is
    true if the replacement still uses the mask.
    """

    function: str
    reduction: str
    operands: tuple[ast.expr, ...]
    layer: bool = False
    options: dict[str, ast.expr] = field(default_factory=dict)
    ignored: str = _IGNORED
    keeps_mask: bool = field(default=True)

    @property
    def takes_labels(self) -> bool:
        """Whether the second operand contains labels, one of which may be ignored."""
        return self.function in _OF_LABELS

    def of_each(self, scope: Scope, call: ast.Call) -> cst.BaseExpression:
        """Return the loss of each element."""
        file = scope.file
        function = rw.name(f"{scope.torch}.nn.functional.{self.function}") if self.layer else rw.kept(file, call.func)
        given = {one.arg: one.value for one in call.keywords if one.arg and one.arg != "reduction"} | self.options
        options = {name: rw.kept(file, value) for name, value in given.items()}
        return rw.call(
            function, *(rw.kept(file, one) for one in call.args), **options, reduction=rw.expression('"none"')
        )

    def with_ignored(self, scope: Scope, mask: ast.expr, made: ast.expr | None, given: ast.expr) -> list[rw.Change]:
        """Return the changes that make a loss ignore labels that the mask does not select.

        `made` is the mask's value, and `given` are all labels.
        """
        scores, labels, file = *self.operands, scope.file
        flat = rank_of(scope, mask) != 1
        kept = rw.kept(file, given)
        if _ignored_by(scope, made, given) != self.ignored:
            kept = rw.call(f"{scope.torch}.where", rw.kept(file, mask), kept, rw.expression(self.ignored))
        else:
            self.keeps_mask = False
        changes: list[rw.Change] = [(scores, rw.calling("flatten", rw.number(0), rw.number(-2)))] if flat else []
        changes.append((labels, rw.method(kept, "flatten") if flat else kept))
        return changes


def loss_of(scope: Scope, call: ast.Call) -> Loss | None:
    """Return the loss that a call computes, or None if it is not supported."""
    name = callee(scope, call)
    kind = scope.kind(call.func)
    if isinstance(kind, k.Object) and kind.type in _LAYERS:
        return _of_layer(scope, call, _LAYERS[kind.type])
    function = name.removeprefix(_FUNCTIONS)
    if not name.startswith(_FUNCTIONS) or function not in _LAYERS.values() or len(call.args) != 2:
        return None
    options = {one.arg: one.value for one in call.keywords}
    reduction = _reduction(call.keywords, "mean")
    if reduction is None or not options.keys() <= {*_OPTIONS.get(function, _OPTIONS_OF_NUMBERS)}:
        return None
    ignored = options.get("ignore_index")
    if ignored is not None and not is_plain(ignored):
        return None
    shown = _IGNORED if ignored is None else scope.text(ignored)
    return Loss(function, reduction, (call.args[0], call.args[1]), ignored=shown)


def _of_layer(scope: Scope, call: ast.Call, function: str) -> Loss | None:
    """Return the loss of a layer that its constructor creates with a reduction and with numbers, or None for others."""
    made = _made(scope, call.func)
    if made is None or made.args or len(call.args) != 2 or call.keywords:
        return None
    operands = (call.args[0], call.args[1])
    if function in _OF_LABELS:
        if not made.keywords:
            return Loss(function, "mean", operands, layer=True)
        only = [one.arg for one in made.keywords] == ["ignore_index"]
        return Loss(function, "mean", operands, ignored=f"{scope.text(call.func)}.ignore_index") if only else None
    options = {one.arg: one.value for one in made.keywords if one.arg is not None and one.arg != "reduction"}
    reduction = _reduction(made.keywords, "mean")
    numbers = all(isinstance(one, ast.Constant) for one in options.values())
    if reduction is None or not numbers or not options.keys() <= {*_OPTIONS_OF_NUMBERS}:
        return None
    return Loss(function, reduction, operands, layer=True, options=options)


def _made(scope: Scope, layer: ast.expr) -> ast.Call | None:
    """Return the only call that creates the layer of an attribute or a variable, unless another function makes it."""
    owner = scope.function.owner
    value = only_value(scope, layer.id, layer) if isinstance(layer, ast.Name) else layer
    if isinstance(layer, ast.Attribute) and owner is not None:
        made = [one for cls in scope.project.mro(owner) for _, one in cls.stores.get(layer.attr, ())]
        values = [one.value for one in made if isinstance(one, ast.Assign)]
        value = values[0] if len(values) == len(made) == 1 else None
    if not isinstance(value, ast.Call) or ast.unparse(value.func).rpartition(".")[2] not in _NAMES:
        return None
    return value


def _reduction(keywords: list[ast.keyword], default: object) -> str | None:
    """Return the reduction that keywords name, or None if it is not certain."""
    options = {one.arg: one.value for one in keywords}
    value = options.get("reduction")
    name = default if value is None else value.value if isinstance(value, ast.Constant) else None
    return name if name in ("mean", "sum", "none") else None


def _ignored_by(scope: Scope, mask: ast.expr | None, labels: ast.expr) -> str | None:
    """Return the source text of the only label that a mask such as `labels != 0` excludes, or None for other masks."""
    if not isinstance(mask, ast.Compare) or len(mask.ops) != 1 or not isinstance(mask.ops[0], ast.NotEq):
        return None
    wanted = mask.comparators[0]
    plain = k.is_number(scope.kind(wanted)) and not any(isinstance(one, ast.Call) for one in walk(wanted))
    read = {one.id for one in walk(labels) if isinstance(one, ast.Name)}
    kept = all(has_one_value(scope, name) and not may_change_in_place(scope, name) for name in read)
    same = kept and ast.dump(mask.left) == ast.dump(labels)
    return scope.text(wanted) if same and plain else None

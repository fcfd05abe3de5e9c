"""DYN708: values that are put in order by tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Declined, Ordering, Project, Refusal, Rewrite, Rule, Violation, k, rw
from dynalint_rules._code.names import loads, only_value
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._shared.number.known_numbers import is_whole


class SortByTensor(Rule):
    code = "DYN708"
    name = "sort-by-tensor"
    summary = "Sorting by tensors breaks the graph"
    gb = ("GB0207", "GB0193", "GB0059")
    events = (Ordering,)

    def check(self, event: Ordering, project: Project) -> Iterable[Violation]:
        """Flag an order that tensors decide, or that Dynamo takes them to decide."""
        called = event.callee.removeprefix("builtins.")
        if event.callee in ("builtins.min", "builtins.max"):
            if event.has_key and _is_tensor_or_holds_one(event.elements, project, modules=True):
                yield Violation(event.node, f"`{called}` with a `key` cannot choose among tensors or modules")
        elif _is_array(event.values):
            yield Violation(
                event.node,
                f"Dynamo does not trace `{called}` of an array",
                help="sort with `np.sort`, or give a list of Python numbers",
            )
        elif k.only_tensor(event.key) is not None and not event.has_key:
            return  # DYN106
        elif _is_tensor_or_holds_one(event.key, project, modules=False):
            yield Violation(
                event.node,
                f"`{called}` sorts by tensors, which depends on data",
                help="use `torch.sort` or `torch.topk`, or a `key` that returns a number",
            )

    def fix(self, event: Ordering, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Stack the tensors and put the rows in order, where single ones of them are asked for."""
        try:
            if not isinstance(event.node, ast.Call):
                raise Refusal("the values have to be stacked")
            return _rows_in_order(Scope.of(event, project), event, event.node)
        except Refusal as refusal:
            return Declined(f"{refusal}, for `torch.sort` or `torch.topk`, with the code around them")


def _is_array(kind: k.Kind) -> bool:
    tensor = k.only_tensor(kind)
    return tensor is not None and tensor.array


def _is_tensor_or_holds_one(kind: k.Kind, project: Project, *, modules: bool) -> bool:
    """Whether values of this kind certainly are tensors, hold them, or are modules where those count."""
    if isinstance(kind, k.Union):
        return all(_is_tensor_or_holds_one(one, project, modules=modules) for one in kind.alternatives)
    if isinstance(kind, k.Sequence) and kind.type in ("list", "tuple"):
        items = kind.items if kind.items is not None else (kind.element,)
        return any(_is_tensor_or_holds_one(item, project, modules=modules) for item in items)
    if isinstance(kind, k.Instance):
        return modules and project.is_module_class(kind.cls)
    if isinstance(kind, k.Object):
        cls = project.api.torch_class(kind.type)
        return modules and cls is not None and cls.is_module
    return isinstance(kind, k.Tensor)


def _rows_in_order(scope: Scope, event: Ordering, call: ast.Call) -> Rewrite:
    """Put the rows of a stack in the order of their keys, where the list only serves to take single tensors from it.

    Raises:
        Refusal: the list itself may be asked for.
    """
    stacked = Refusal("the values have to be stacked")
    statement = scope.parents.get(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    key, values = options.pop("key", None), call.args[0] if len(call.args) == 1 else None
    if event.callee != "builtins.sorted" or not isinstance(target, ast.Name) or options.keys() - {"reverse"}:
        raise stacked
    listed = scope.kind(values) if values is not None else k.UNKNOWN
    if not isinstance(listed, k.Sequence) or listed.type not in ("list", "tuple"):
        raise stacked
    if as_tensor(listed.element) is None and not isinstance(listed.element, k.Unknown):
        raise stacked
    if not isinstance(key, ast.Lambda) or len(key.args.args) != 1:
        raise stacked
    asked = as_tensor(event.key)
    if (
        asked is None
        or asked.rank not in (0, None)
        or not all(_takes_one(scope, one) for one in loads(scope, target.id))
    ):
        raise stacked
    if only_value(scope, target.id, scope.function.node.args) is not call or isinstance(values, ast.GeneratorExp):
        raise stacked
    assert values is not None
    assert isinstance(statement, ast.Assign)
    name, part = scope.text(values), key.args.args[0].arg
    before: list[str] = []
    if not isinstance(values, ast.Name):
        name = scope.fresh_name("unsorted")
        before = [f"{name} = {scope.text(values)}"]
    descending = "".join(f", descending={scope.text(value)}" for value in options.values())
    order = f"{scope.torch}.stack([{scope.text(key.body)} for {part} in {name}]).argsort(stable=True{descending})"
    edits = rw.written(scope.file, (statement, [*before, f"{target.id} = {scope.torch}.stack({name})[{order}]"]))
    conditions = (
        f"{scope.quote(values)} contains tensors of the same shape and dtype",
        f"{scope.quote(key.body)} has no dimensions, and is never NaN",
        "no code relies on receiving the tensors themselves rather than equal copies",
    )
    return Rewrite("Sort the rows of a stack", "conditional", edits, conditions, scope.imports)


def _takes_one(scope: Scope, use: ast.Name) -> bool:
    """Whether a list is only asked for one of its values, which does not stay under a name to be changed."""
    item = scope.parents.get(use)
    taken = isinstance(item, ast.Subscript) and item.value is use and isinstance(item.ctx, ast.Load)
    if not taken or not isinstance(item, ast.Subscript) or not is_whole(scope.kind(item.slice)):
        return False
    return isinstance(scope.parents.get(item), ast.BinOp | ast.Compare | ast.Return | ast.UnaryOp)

"""Numbers that are known while tracing, but are worked out by torch or NumPy, whose results Dynamo takes for data."""

from __future__ import annotations

import ast

from dynalint.rulekit import Import, Refusal, Rewrite, k, rw
from dynalint_rules._code.scope import Scope


def multiplied(scope: Scope, node: ast.Call, product: ast.expr) -> Rewrite | None:
    """Replace `node` by `math.prod(sizes)` where `product` is `np.prod(sizes)`; None if it is not."""
    if not isinstance(product, ast.Call) or len(product.args) != 1 or product.keywords:
        return None
    if scope.kind(product.func) != k.External("numpy.prod") or isinstance(product.args[0], ast.Starred):
        return None
    sizes, text = scope.kind(product.args[0]), scope.text(product.args[0])
    title = "Multiply with `math.prod()`, which Dynamo evaluates while tracing"
    if isinstance(sizes, k.Sequence) and is_whole(sizes.element):
        conditions = () if node is not product else _filled(scope, product.args[0])
        return _replaced(scope, node, f"math.prod({text})", title, conditions)
    if k.may_be_tensor(sizes) and not isinstance(sizes, k.Unknown):
        return None
    numbers = "a non-empty sequence of integers"
    shown = scope.quote(product.args[0])
    return _replaced(scope, node, f"math.prod({text})", title, (f"{shown} is {numbers}",))


def read_back(scope: Scope, node: ast.Call, source: ast.expr, *, listed: bool) -> Rewrite | None:
    """Replace `torch.tensor(numbers).tolist()` and its like by the numbers; None if that is not what stands there.

    `node` reads the elements of `source`, as a list if `listed`.
    """
    if not isinstance(source, ast.Call) or source.keywords or any(isinstance(one, ast.Starred) for one in source.args):
        return None
    function = scope.kind(source.func)
    title = "Use the numbers directly, without a tensor"
    if function == k.External("torch.arange") and listed and all(is_whole(scope.kind(one)) for one in source.args):
        bounds = ", ".join(scope.text(one) for one in source.args)
        ordered = len(source.args) == 1 and scope.kind(source.args[0]) == k.SIZE
        conditions = () if ordered else (f"the bounds of {scope.quote(source)} are in ascending order",)
        return _replaced(scope, node, f"list(range({bounds}))", title, conditions)
    if function == k.External("torch.prod") and not listed and len(source.args) == 1:
        numbers = _made_of(scope, source.args[0])
        if numbers is not None and _are_whole(scope, numbers):
            return _replaced(scope, node, f"math.prod({scope.text(numbers)})", title, _filled(scope, numbers))
    numbers = _made_of(scope, source)
    if numbers is None:
        return None
    if is_whole(scope.kind(numbers)):
        return _replaced(scope, node, scope.text(numbers), title)
    if listed and _are_whole(scope, numbers):
        return _replaced(scope, node, f"list({scope.text(numbers)})", title)
    return None


def _filled(scope: Scope, numbers: ast.expr) -> tuple[str, ...]:
    """The condition that a sequence holds numbers: the product of none is a float to torch and NumPy."""
    kind = scope.kind(numbers)
    if isinstance(kind, k.Sequence) and kind.items:
        return ()
    return (f"{scope.quote(numbers)} is not empty",)


def is_whole(kind: k.Kind) -> bool:
    """Whether a value is certainly a whole number of Python, known while tracing."""
    return all(isinstance(one, k.Value) and one.type == "int" and one.source != "data" for one in kind.members)


def _are_whole(scope: Scope, node: ast.expr) -> bool:
    """Whether all that a sequence holds are whole numbers."""
    kind = scope.kind(node)
    return isinstance(kind, k.Sequence) and kind.type in ("list", "tuple", "torch.Size") and is_whole(kind.element)


def _made_of(scope: Scope, node: ast.expr) -> ast.expr | None:
    """Return what a tensor is made of by `torch.tensor(numbers)`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        return node.args[0] if scope.kind(node.func) == k.External("torch.tensor") else None
    return None


def _replaced(scope: Scope, node: ast.Call, text: str, title: str, conditions: tuple[str, ...] = ()) -> Rewrite:
    imports = ("import math",) if "math.prod(" in text else ()
    module = Import("math", None)
    if imports and ("math" in scope.function.locals or scope.function.module.bindings.get("math", module) != module):
        raise Refusal("the name `math` has another meaning here; multiply with `math.prod` by hand")
    edits = rw.written(scope.file, (node, text))
    return Rewrite(title, "conditional" if conditions else "safe", edits, conditions, imports=imports)

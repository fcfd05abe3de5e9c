"""Compute with `math` what NumPy or torch computes from Python numbers. Dynamo evaluates `math` during tracing.

n = np.ceil(np.log(length)).astype(int).item()          n = math.ceil(math.log(length))
n = torch.prod(torch.tensor(x.shape[1:])).item()        n = math.prod(x.shape[1:])
"""

from __future__ import annotations

import ast

from dynalint.rulekit import FunctionInfo, Import, Refusal, Rewrite, k, rw
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import Scope

_FUNCTIONS = frozenset("sqrt exp log log2 log10 log1p sin cos tan tanh".split())
# These return floats in NumPy but ints in Python.
_WHOLE = frozenset({"ceil", "floor"})
_QUESTIONS = frozenset({"isnan", "isinf", "isfinite"})
_WHOLE_MAKERS = frozenset({"torch.tensor", "torch.LongTensor", "torch.IntTensor"})
_MAKERS = _WHOLE_MAKERS | {"torch.Tensor", "torch.FloatTensor"}
_ASKING = tuple(f"math.{name}(" for name in _QUESTIONS)
_KNOWN = _FUNCTIONS | _WHOLE | _QUESTIONS
_MODULE = Import("math", None)
_TITLE = "Use `math`, because Dynamo evaluates it during tracing"
_INTEGERS = frozenset({"int", "np.int32", "np.int64", "numpy.int32", "numpy.int64", "'int'", "'int32'", "'int64'"})


def rewrite_in_python(scope: Scope, node: ast.Call) -> Rewrite | None:
    """Return the rewrite of a conversion of what NumPy computed from Python numbers, or None for any other code.

    Raises:
        Refusal: If the name `math` has another meaning.
    """
    text = _text(scope, node)
    if text is None or "math." not in text:
        return None
    _require_math(scope)
    conditions = (f"{scope.quote(node)} has the same value up to rounding, and its arguments are in the domain",)
    edits = rw.written(scope.file, (node, text))
    return Rewrite(_TITLE, "conditional", edits, conditions, imports=("import math",))


def asked_in_python(scope: Scope, node: ast.expr) -> Rewrite | None:
    """Return the rewrite of `np.isnan(number)`, or None for any other test.

    Raises:
        Refusal: If the name `math` has another meaning.
    """
    module, _, name = callee(scope, node).rpartition(".") if isinstance(node, ast.Call) else ("", "", "")
    if not isinstance(node, ast.Call) or module != "numpy" or name not in _QUESTIONS:
        return None
    parent = scope.parents[node]
    if not isinstance(parent, ast.If | ast.IfExp | ast.BoolOp) and not _is_not(parent):
        return None  # `~` does something else to a bool than to an array
    argument = _text(scope, node.args[0]) if len(node.args) == 1 and not node.keywords else None
    if argument is None:
        return None
    _require_math(scope)
    edits = rw.written(scope.file, (node, f"math.{name}({argument})"))
    return Rewrite(_TITLE, "safe", edits, imports=("import math",))


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _require_math(scope: Scope) -> None:
    taken = False
    function: FunctionInfo | None = scope.function
    while function is not None and function.name != "<module>":
        taken, function = taken or "math" in function.locals, function.parent
    if taken or scope.function.module.bindings.get("math", _MODULE) != _MODULE:
        raise Refusal("the name `math` has a different meaning here; import the module under another name")


def _text(scope: Scope, node: ast.expr) -> str | None:
    """Return the text of a Python number with the same value, or None if there is none."""
    if isinstance(node, ast.Call):
        return _call(scope, node)
    kinds = scope.kind(node).members
    if kinds and all(
        isinstance(one, k.Value) and one.type in ("int", "float") and one.source != "data" for one in kinds
    ):
        return scope.text(node)
    if isinstance(node, ast.BinOp):
        parts = {part: _text(scope, part) for part in (node.left, node.right)}
        known = {part: text for part, text in parts.items() if text is not None}
        return rw.spliced(scope.file, node, known) if len(known) == len(parts) else None
    return None


def _call(scope: Scope, call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("astype", "item") and not call.keywords:
        inner = call.func.value
        if call.func.attr == "item" and not call.args and (product := _product(scope, inner)) is not None:
            return product
        if call.func.attr == "item":
            return _text(scope, inner) if not call.args and not _is_whole(scope, inner) else None
        asked = len(call.args) == 1 and ast.unparse(call.args[0]) in _INTEGERS
        return _integer(scope, inner) if asked else None
    if len(call.args) != 1 or call.keywords:
        return None
    if callee(scope, call) == "builtins.int":
        return _integer(scope, call.args[0])
    if callee(scope, call) == "builtins.bool":
        answer = _text(scope, call.args[0])
        return answer if answer is not None and answer.startswith(_ASKING) else None
    module, _, name = callee(scope, call).rpartition(".")
    argument = _text(scope, call.args[0]) if module == "numpy" and name in _KNOWN else None
    return f"math.{name}({argument})" if argument is not None else None


def _product(scope: Scope, call: ast.expr) -> str | None:
    """Return the text of the product of a sequence of Python numbers that `torch.prod` computes, or None."""
    if not isinstance(call, ast.Call) or call.keywords:
        return None
    name = callee(scope, call)
    tensors = call.args if name == "torch.prod" else [call.func.value] if isinstance(call.func, ast.Attribute) else []
    if name not in ("torch.prod", "Tensor.prod") or len(tensors) != 1 or (name == "Tensor.prod" and call.args):
        return None
    (made,) = tensors
    if not isinstance(made, ast.Call) or len(made.args) != 1 or made.keywords:
        return None
    numbers, maker = made.args[0], callee(scope, made)
    if isinstance(numbers, ast.Call) and callee(scope, numbers) in ("builtins.list", "builtins.tuple"):
        (numbers,) = numbers.args or (numbers,)
    if maker not in _MAKERS or not all(map(_is_of_ints, scope.kind(numbers).members)):
        return None
    product = f"math.prod({scope.text(numbers)})"
    return product if maker in _WHOLE_MAKERS else f"float({product})"


def _is_of_ints(kind: k.Kind) -> bool:
    """Return whether a kind is a sequence of ints that Dynamo knows."""
    elements = kind.element.members if isinstance(kind, k.Sequence) else ()
    known = (isinstance(one, k.Value) and one.type == "int" and one.source != "data" for one in elements)
    return bool(elements) and all(known)


def _integer(scope: Scope, node: ast.expr) -> str | None:
    text = _product(scope, node) or _text(scope, node)
    return text if text is None or text.startswith("math.prod(") or _is_whole(scope, node) else f"int({text})"


def _is_whole(scope: Scope, node: ast.expr) -> bool:
    name = callee(scope, node) if isinstance(node, ast.Call) else ""
    return name.rpartition(".")[2] in _WHOLE

"""DYN202: converting a tensor with `int()`, `float()`, `bool()` and similar functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Import, Project, Refusal, Rewrite, Rule, Violation, k, leads_to_raise, rw
from dynalint_rules._code.known_numbers import is_folded, is_stored_number
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.settings import captures_number
from dynalint_rules._shared.branch.checks import rewrite_checking_call
from dynalint_rules._shared.branch.truth import operand_text
from dynalint_rules._shared.guard.statements import shown_in_eager
from dynalint_rules._shared.number.detached import detached
from dynalint_rules._shared.number.flow import is_whole
from dynalint_rules._shared.number.listed import row_at_mask, rows_at_once
from dynalint_rules._shared.number.numbers import flow_of, with_conditions
from dynalint_rules._shared.number.python_numbers import rewrite_in_python
from dynalint_rules._shared.number.row_stores import filled_at_once
from dynalint_rules._shared.text import held_together

_DEFAULT = ("builtins.int", "builtins.float", "builtins.bool", "operator.index")
_UNTRACED = ("builtins.complex", "builtins.hex", "builtins.bin", "builtins.oct", "builtins.chr")
_TESTS = (ast.If, ast.IfExp, ast.Assert)
_METHODS = ("Tensor.__int__", "Tensor.__float__", "Tensor.__bool__", "Tensor.__index__", "Tensor.__complex__")


class NumberOfTensor(Rule):
    code = "DYN202"
    name = "number-of-tensor"
    summary = "Calling `int()`, `float()` or `bool()` on a tensor reads its value and breaks the graph"
    gb = ("GB0124", "GB0059", "GB0033", "GB0208")
    reads_data = True
    events = (Call,)
    calls = frozenset({*_DEFAULT, *_UNTRACED, *_METHODS})

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag converting a value that is known to be a tensor."""
        subject = event.receiver if event.callee in _METHODS else event.args[0] if len(event.args) == 1 else None
        tensor = k.only_tensor(subject) if subject is not None else None
        if tensor is None or leads_to_raise(event, project) or is_folded(tensor):
            return
        if event.callee in _DEFAULT and is_stored_number(tensor):
            return
        if event.callee not in _UNTRACED and captures_number(project, event.function, event.node):
            return
        name = event.callee.rpartition(".")[2]
        yield Violation(
            event.node,
            f"`{name}()` reads a number from {'an array' if tensor.array else 'a tensor'}, which breaks the graph",
            help="keep the value as a 0-dim tensor, and read it outside the compiled code",
        )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep the value as a 0-dim tensor without a gradient."""
        scope = Scope.of(event, project)
        found = _multiplied(scope, event) or rewrite_in_python(scope, event.node)
        found = found or rewrite_checking_call(scope, event.node)
        found = found or shown_in_eager(scope, event.node) or rows_at_once(scope, event.node)
        found = found or row_at_mask(scope, event.node) or filled_at_once(scope, scope.parents.get(event.statement))
        return found or _kept(scope, event)


def _multiplied(scope: Scope, event: Call) -> Rewrite | None:
    """Replace `int(np.prod(sizes))` with `math.prod(sizes)`, or return None for any other code."""
    product = event.node.args[0] if event.callee == "builtins.int" and len(event.node.args) == 1 else None
    if not isinstance(product, ast.Call) or len(product.args) != 1 or product.keywords:
        return None
    if scope.kind(product.func) != k.External("numpy.prod") or isinstance(product.args[0], ast.Starred):
        return None
    sizes, shown = scope.kind(product.args[0]), scope.quote(product.args[0])
    known = isinstance(sizes, k.Sequence) and is_whole(sizes.element)
    if not known and k.may_be_tensor(sizes) and not isinstance(sizes, k.Unknown):
        return None
    module = Import("math", None)
    if "math" in scope.function.locals or scope.function.module.bindings.get("math", module) != module:
        raise Refusal("the name `math` has a different meaning here; import the module under another name")
    edits = rw.written(scope.file, (event.node, f"math.prod({scope.text(product.args[0])})"))
    title = "Use `math.prod()`, which Dynamo evaluates during tracing"
    conditions = () if known else (f"{shown} is a non-empty sequence of integers",)
    return Rewrite(title, "conditional" if conditions else "safe", edits, conditions, imports=("import math",))


def _kept(scope: Scope, event: Call) -> Rewrite:
    """Replace the conversion with `.detach()` if every use of the number accepts a 0-dim tensor."""
    name = event.callee.rpartition(".")[2]
    if event.callee == "builtins.bool":
        return _truth(scope, event.node)
    if event.callee not in ("builtins.int", "builtins.float"):
        raise Refusal(f"no tensor can represent the result of `{name}()`; compute it from shapes, or in eager code")
    source = event.node.args[0]
    shown = scope.quote(source)
    found = detached(scope, source, read=event.node, whole=name == "int")
    tensor = k.only_tensor(scope.kind(source))
    dtype = tensor.dtype if tensor else None
    wide = name == "int" and dtype != "int"  # `.long()` follows
    flow, text = flow_of(scope, event.node, "int" if name == "int" else "float", wide=wide), found.text
    flow.conditions.update(dict.fromkeys(found.conditions))
    if name == "int":
        text += "" if dtype == "int" else ".long()"
        if dtype in ("float", None):
            flow.conditions[f"{shown} is finite"] = None
    elif dtype in ("bool", "complex"):
        raise Refusal(f"`float()` changes the type of {shown}; convert it with `.to()` by hand")
    elif dtype is None:
        flow.conditions[f"{shown} holds real numbers"] = None
    is_array = tensor is not None and tensor.array
    imports = scope.imports if is_array else flow.imports
    instead = "`torch.as_tensor(...)`" if is_array else "`.detach()`" if text.endswith(".detach()") else "a tensor"
    title = f"Use {instead} instead of `{name}()` to keep the 0-dim tensor"
    replacements = rw.written(scope.file, (event.node, text), *flow.edits)
    return Rewrite(title, flow.safety, replacements, flow.clauses, imports=imports, leaves=flow.leaves)


def _truth(scope: Scope, node: ast.Call) -> Rewrite:
    """Replace `bool(t)` with a bool tensor."""
    source, parent = node.args[0], scope.parents[node]
    tensor, found = k.only_tensor(scope.kind(source)), detached(scope, source)
    flow = with_conditions(flow_of(scope, node, "bool"), found)
    # A bool tensor has no gradient, so `detach` is not needed.
    text = found.text.replace(".detach()", "")
    if tensor is not None and tensor.array:
        text = text if tensor.dtype == "bool" else f"{text} != 0"
    elif tensor is None or tensor.dtype != "bool":
        text = f"{operand_text(scope, source)} != 0"
    elif isinstance(parent, _TESTS) or (isinstance(parent, ast.Assign) and found.text.endswith(".detach()")):
        text = held_together(scope.text(source))
    edits = rw.written(scope.file, (node, text), *flow.edits)
    title = "Remove `bool()` to keep the tensor"
    return Rewrite(title, flow.safety, edits, flow.clauses, imports=flow.imports, leaves=flow.leaves)

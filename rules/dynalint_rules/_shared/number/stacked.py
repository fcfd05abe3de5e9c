"""Rewrite tensors of numbers that are read from other tensors, so that the other tensors are stacked instead.

weights = torch.tensor([one.item() for one in losses])     weights = torch.stack(losses).detach().float()
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Rewrite, k, rw
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._shared.branch.choice import finished
from dynalint_rules._shared.number.detached import is_detached

_TITLE = "Stack the tensors instead of their numbers"
_CONVERTED = {"float": ".float()", "int": ".long()", "bool": ""}


def stacked(scope: Scope, read: ast.Call) -> Rewrite | None:
    """Return the rewrite of `torch.tensor([a.item(), b.item()])` that contains `read`, or None for any other code."""
    numbers = scope.parents[read]
    call = scope.parents.get(numbers)
    if (
        not isinstance(numbers, ast.expr)
        or not isinstance(call, ast.Call)
        or callee(scope, call) not in ("torch.tensor", "torch.as_tensor")
    ):
        return None
    reads = _reads(numbers)
    sources = [_source(scope, one) for one in reads]
    tensors = [one for one in sources if one is not None]
    known = {tensor.dtype for one in tensors if (tensor := scope.tensor(one)) is not None}
    dtypes = known - {None} if "float" in known else known  # Python also makes floats of integers beside a float
    given = {one.arg: one.value for one in call.keywords}
    if not reads or call.args != [numbers] or None in sources or len(dtypes) > 1 or not given.keys() <= {"device"}:
        return None
    dtype = next(iter(dtypes))
    if dtype not in _CONVERTED:
        return None
    gradient = dtype == "float" and not all(is_detached(scope, one) for one in tensors)
    whole = _iterated(scope, numbers, tensors)
    text = (
        scope.text(whole)
        if whole is not None
        else rw.spliced(
            scope.file, numbers, {read: scope.text(source) for read, source in zip(reads, tensors, strict=True)}
        )
    )
    new = f"{scope.torch}.stack({text}){'.detach()' if gradient else ''}{_CONVERTED[dtype]}"
    conditions = [f"{scope.quote(one)} has no dimensions" for one in tensors if _rank(scope, one) is None]
    if "device" in given:
        conditions.append(f"{scope.quote(numbers)} reads from tensors on {scope.quote(given['device'])}")
    else:
        conditions.append(f"the tensors in {scope.quote(numbers)} are on the CPU, like the new one")
    return finished(scope, _TITLE, rw.written(scope.file, (call, new)), conditions)


def _reads(numbers: ast.AST) -> list[ast.Call]:
    """Return the reads that a list consists of, or nothing if it contains anything else."""
    items: list[ast.expr] = []
    if isinstance(numbers, ast.List | ast.Tuple):
        items = numbers.elts
    elif isinstance(numbers, ast.ListComp) and len(numbers.generators) == 1 and not numbers.generators[0].ifs:
        items = [numbers.elt]
    reads = [one for one in items if isinstance(one, ast.Call)]
    return reads if len(reads) == len(items) else []


def _source(scope: Scope, read: ast.Call) -> ast.expr | None:
    """Return the tensor without dimensions that `.item()` reads, or None if this is another call."""
    if callee(scope, read) != "Tensor.item" or not isinstance(read.func, ast.Attribute) or read.args:
        return None
    source = read.func.value
    return source if as_tensor(scope.kind(source)) is not None and not _rank(scope, source) else None


def _rank(scope: Scope, source: ast.expr) -> int | None:
    tensor = scope.tensor(source)
    return None if tensor is None else tensor.rank


def _iterated(scope: Scope, numbers: ast.AST, sources: list[ast.expr]) -> ast.expr | None:
    """Return the list whose items a comprehension reads as they are, or None."""
    if not isinstance(numbers, ast.ListComp):
        return None
    target, iterated = numbers.generators[0].target, numbers.generators[0].iter
    same = isinstance(target, ast.Name) and isinstance(sources[0], ast.Name) and target.id == sources[0].id
    return iterated if same and isinstance(scope.kind(iterated), k.Sequence) else None

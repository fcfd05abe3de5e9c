"""Attention within pieces of a sequence, one call a piece: a mask that parts the pieces makes it one call."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dynalint.rulekit import Rewrite, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import around, loads, only_value, statement_of
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.loop.pieces import Cut, cuts_by, join_of, maker_of
from dynalint_rules._shared.text import atom, indentation

_MASKS = ("attn_mask", "attention_mask")
_TORCHS_OWN = "torch.nn.functional.scaled_dot_product_attention"


@dataclass(frozen=True)
class _Pieces:
    """What is to be known of the code: `whole` has the tensor for each name of a piece, `attention` is the call."""

    cut: ast.stmt
    whole: Mapping[str, Cut]
    results: ast.ListComp
    attention: ast.Call
    mask: ast.keyword
    join: ast.Call


def in_one_call(scope: Scope, numbers: ast.Call, lengths: ast.expr) -> Rewrite | None:
    """The rewrite of attention that is called for pieces of lengths `numbers`; None where something else is done."""
    found = _pieces(scope, numbers)
    if found is None:
        return None
    query = next(iter(found.whole.values()))
    like, axis = scope.text(query.source), query.axis
    piece = scope.fresh_name("piece")
    mask = scope.fresh_name("mask", [piece])
    torch = scope.torch
    made = maker_of(scope, numbers)
    name = lengths if made is None else made.targets[0]
    ends = f"{atom(name, scope.text(name))}.cumsum(0)"
    positions = f"{torch}.arange({like}.shape[{axis}], device={like}.device)"
    batched = "[None, None]" if axis == 2 else ""
    parted = f"{torch}.where({piece}[:, None] == {piece}, 0.0, -{torch}.inf)"
    lines = [
        f"{piece} = {torch}.searchsorted({ends}, {positions}, right=True)",
        f"{mask} = {parted}{batched}.to({like}.dtype)",
    ]
    title = "Call the attention once, with a mask that separates the pieces"
    conditions = (
        "the results are equal up to rounding, but the work grows with the square of the total length",
        f"{scope.quote(found.attention.func)} adds its mask to its scores",
        "the lengths add up to the total length",
        *(("dropout uses different random numbers",) if _drops_out(found.attention) else ()),
    )
    changes: list[rw.Change] = [(found.cut, lines), *_called_once(scope, found, mask)]
    if name is not lengths:
        changes.append((numbers, rw.kept(scope.file, lengths)))
    return Rewrite(title, "unsafe", rw.written(scope.file, *changes), conditions, scope.imports, shown=True)


def _pieces(scope: Scope, numbers: ast.Call) -> _Pieces | None:
    cuts = cuts_by(scope, numbers)
    outer = scope.parents[cuts[0].call] if cuts is not None and len(cuts) == 1 else None
    if cuts is None or not isinstance(outer, ast.ListComp):
        return None
    statement, wholes = scope.parents[outer], _sources(cuts[0], outer)
    if not isinstance(statement, ast.Assign) or wholes is None:
        return None
    results = _loop_over(scope, statement)
    names = [] if results is None else _names(results.generators[0].target)
    if results is None or len(names) != len(wholes):
        return None
    whole = {name: Cut(cuts[0].call, source, cuts[0].axis) for name, source in zip(names, wholes, strict=True)}
    called = results.elt.value if isinstance(results.elt, ast.Subscript) else results.elt
    mask = _open_mask(scope, called, whole) if isinstance(called, ast.Call) else None
    join = _joined(scope, results)
    if not isinstance(called, ast.Call) or mask is None or join is None:
        return None
    joined, axis = join
    if axis == 0 or (callee(scope, called) == _TORCHS_OWN and axis != cuts[0].axis):
        return None
    return _Pieces(statement, whole, results, called, mask, joined)


def _sources(cut: Cut, comprehension: ast.ListComp) -> list[ast.expr] | None:
    """Return the names that `[cut(t) for t in (a, b, c)]` goes through."""
    if len(comprehension.generators) != 1:
        return None
    generator = comprehension.generators[0]
    every = generator.iter.elts if isinstance(generator.iter, ast.Tuple | ast.List) else []
    if generator.ifs or ast.dump(cut.source) != ast.dump(generator.target).replace("Store()", "Load()"):
        return None
    return every if every and all(isinstance(one, ast.Name) for one in every) else None


def _loop_over(scope: Scope, statement: ast.Assign) -> ast.ListComp | None:
    """Return the one comprehension that goes through `zip(*pieces)`, for the pieces that a statement names."""
    use = _only_use(scope, statement)
    if use is None:
        return None
    starred = scope.parents[use]
    zipped = scope.parents[starred]
    if not isinstance(starred, ast.Starred) or not isinstance(zipped, ast.Call) or len(zipped.args) != 1:
        return None
    generator = scope.parents[zipped]
    comprehension = scope.parents[generator]
    is_zip = isinstance(zipped.func, ast.Name) and zipped.func.id == "zip"
    if not is_zip or not isinstance(generator, ast.comprehension) or not isinstance(comprehension, ast.ListComp):
        return None
    return comprehension if len(comprehension.generators) == 1 and not generator.ifs else None


def _only_use(scope: Scope, statement: ast.Assign) -> ast.Name | None:
    """Return the one use of the name that a statement gives a value, the only one that it has."""
    target = statement.targets[0]
    if len(statement.targets) != 1 or not isinstance(target, ast.Name):
        return None
    uses = list(loads(scope, target.id))
    return uses[0] if len(uses) == 1 and only_value(scope, target.id, scope.function.node.args) is not None else None


def _names(target: ast.expr) -> list[str]:
    elements = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    return [one.id for one in elements if isinstance(one, ast.Name)]


def _open_mask(scope: Scope, attention: ast.Call, whole: Mapping[str, Cut]) -> ast.keyword | None:
    """Return the keyword by which a call says that it has no mask, if it takes each piece once and is not causal."""
    named = {keyword.arg: keyword for keyword in attention.keywords}
    every = [*attention.args, *(keyword.value for keyword in attention.keywords)]
    given = [one.id for one in every if isinstance(one, ast.Name)]
    read = [node.id for node in walk(attention) if isinstance(node, ast.Name)]
    if any(given.count(name) != 1 or read.count(name) != 1 for name in whole):
        return None
    causal = named.get("is_causal")
    if causal is None and callee(scope, attention) != _TORCHS_OWN:
        return None
    if causal is not None and not _says(causal, False):
        return None
    open_ones = [named[name] for name in _MASKS if name in named and _says(named[name], None)]
    return open_ones[0] if len(open_ones) == 1 else None


def _says(keyword: ast.keyword, value: bool | None) -> bool:
    return isinstance(keyword.value, ast.Constant) and keyword.value.value is value


def _drops_out(attention: ast.Call) -> bool:
    """Whether a call may be told to leave something out at random."""
    return any(
        keyword.arg is not None
        and keyword.arg.startswith("dropout")
        and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
        for keyword in attention.keywords
    )


def _joined(scope: Scope, results: ast.ListComp) -> tuple[ast.Call, int] | None:
    """Return the call that puts the results together, at once or in the next statement, and along which axis."""
    statement = scope.parents[results]
    if not isinstance(statement, ast.Assign):
        return join_of(scope, results)
    use = _only_use(scope, statement)
    found = None if use is None else join_of(scope, use)
    return (
        found
        if found is not None and around(scope.parents, statement)[1][:1] == [statement_of(scope, found[0])]
        else None
    )


def _called_once(scope: Scope, found: _Pieces, mask: str) -> Iterator[rw.Change]:
    """Put the call itself, of whole tensors and with the mask, where its results were put together."""
    results, outer, last = found.results, scope.parents[found.results], statement_of(scope, found.join)
    whole = {
        node: found.whole[node.id]
        for node in walk(results.elt)
        if isinstance(node, ast.Name) and node.id in found.whole
    }
    parts: dict[ast.expr, str] = {node: scope.text(cut.source) for node, cut in whole.items()}
    text = rw.spliced(scope.file, results.elt, {**parts, found.mask.value: mask})
    inner, own = (indentation(scope.file, node.lineno) for node in (results.elt, statement_of(scope, results)))
    if isinstance(outer, ast.Assign):
        yield [outer, last], [last]
    yield found.join, text.replace(f"{scope.file.newline}{inner}", f"{scope.file.newline}{own}")

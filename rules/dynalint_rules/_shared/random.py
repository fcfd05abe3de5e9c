"""Numbers that torch draws in the place of Python's `random` and of NumPy: as many, from the same distribution.

The numbers are others, since torch has a generator of its own; what is drawn is a 0-dim tensor and stays one.
"""

from __future__ import annotations

import ast
from typing import Any

from dynalint.rulekit import Call, Refusal, Rewrite, k, rw
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.number.known_numbers import is_whole
from dynalint_rules._shared.number.numbers import flow_of
from dynalint_rules._shared.text import atom

OTHER_NUMBERS = "different numbers are drawn, from torch's generator, which `torch.manual_seed` seeds"
_TITLE = "Draw with torch, in the graph"
_RAND, _RANDN, _UNIFORM, _NORMAL, _RANDINT = (
    "rand(())",
    "randn(())",
    "empty(()).uniform_({}, {})",
    "normal({}, {}, ())",
    "randint({}, ())",
)
# The parameters of what gives a single number, each with the default ("" where there is none, None where it may be
# left out), and what torch has for it.
_DRAWS: dict[str, tuple[dict[str, str | None], str]] = {
    "random.random": ({}, _RAND),
    "random.uniform": ({"a": "", "b": ""}, _UNIFORM),
    "random.gauss": ({"mu": "0.0", "sigma": "1.0"}, _NORMAL),
    "random.normalvariate": ({"mu": "0.0", "sigma": "1.0"}, _NORMAL),
    "random.randint": ({"a": "", "b": ""}, _RANDINT),
    "random.randrange": ({"start": "", "stop": None}, _RANDINT),
    **{f"numpy.random.{name}": ({}, _RAND) for name in ("rand", "random", "random_sample", "ranf", "sample")},
    **{f"numpy.random.{name}": ({}, _RANDN) for name in ("randn", "standard_normal")},
    "numpy.random.uniform": ({"low": "0.0", "high": "1.0"}, _UNIFORM),
    "numpy.random.normal": ({"loc": "0.0", "scale": "1.0"}, _NORMAL),
    "numpy.random.randint": ({"low": "", "high": None}, _RANDINT),
    "numpy.random.choice": ({"a": ""}, _RANDINT),
}


def drawn_by_torch(scope: Scope, event: Call) -> Rewrite:
    """Replace a call that draws a single number by one of torch that draws from the same distribution.

    Raises:
        Refusal: torch has none such, or the number is needed as one of Python.
    """
    several = len(event.node.args) > 1 or event.node.keywords
    if event.callee not in _DRAWS or (event.callee == "numpy.random.choice" and several):
        raise Refusal(
            f"torch has no function like {scope.quote(event.node)}; draw outside the compiled code and pass the "
            f"result as an argument, or draw indices with `{scope.torch}.randperm`"
        )
    given, template = _arguments(scope, event), _DRAWS[event.callee][1]
    texts, terms = [_text(scope, one) for one in given], []
    if template is _UNIFORM and [_value(one) for one in given] == [0, 1]:
        template = _RAND
    elif template is _UNIFORM and not all(isinstance(one, ast.Constant) for one in given):
        terms = [f"`{texts[0]}` is not above `{texts[1]}`"]
    elif event.callee == "random.randint":
        last = _value(given[1])
        texts[1] = f"{atom(given[1], texts[1])} + 1" if last is None else str(last + 1)
    if template is _RANDINT:
        texts = [", ".join(texts)]
    dtype: k.DType = "int" if template is _RANDINT else "float"
    try:
        flow = flow_of(scope, event.node, dtype, wide=True, drawn=True)
    except Refusal as refusal:
        reason = str(refusal).partition("; ")[0]
        raise Refusal(f"{reason}; draw it outside the compiled code and pass it as an argument") from refusal
    edits = rw.written(scope.file, (event.node, f"{scope.torch}.{template.format(*texts)}"), *flow.edits)
    conditions = (OTHER_NUMBERS, *terms, *flow.clauses)
    imports = tuple(dict.fromkeys([*scope.imports, *flow.imports]))
    return Rewrite(_TITLE, "unsafe", edits, conditions, imports, leaves=flow.leaves)


def _arguments(scope: Scope, event: Call) -> list[ast.expr]:
    """Return the arguments of a call in the order of the parameters, defaults among them.

    Raises:
        Refusal: others are given, or they may be arrays.
    """
    node, (parameters, template) = event.node, _DRAWS[event.callee]
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    names = [*parameters][len(node.args) :]
    starred = any(isinstance(one, ast.Starred) for one in node.args)
    if starred or len(node.args) > len(parameters) or not keywords.keys() <= set(names):
        raise Refusal(f"torch has no function that draws like {scope.quote(node)}; draw outside")
    given = list(node.args)
    for name in names:
        default = parameters[name]
        if name in keywords:
            given.append(keywords[name])
        elif default:
            given.append(ast.parse(default, mode="eval").body)
    for one in given:
        kind = k.constant(one.value) if isinstance(one, ast.Constant) else scope.kind(one)
        fits = is_whole(kind) if template is _RANDINT else k.is_number(kind)
        if event.callee.startswith("numpy.") and not fits:
            raise Refusal(f"{scope.quote(one)} may be an array, which draws several numbers; draw them outside")
    return given


def _text(scope: Scope, node: ast.expr) -> str:
    """The text of an argument, or of a default, which stands nowhere in the file."""
    return ast.unparse(node) if isinstance(node, ast.Constant) else scope.text(node)


def _value(node: ast.expr | None) -> Any:
    return node.value if isinstance(node, ast.Constant) else None

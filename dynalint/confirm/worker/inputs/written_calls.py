"""Calls in the project's source: in `if __name__ == "__main__":`, in test functions, in docstrings and READMEs.

Only the code that such a call needs is run: the assignments before it that its arguments and the constructor's depend
on, if they only create numbers, tensors and instances. Calls that raise, are large or take long are skipped.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import itertools
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..dynamo.runs import Call, call_once
from ..source.nearby_files import mentions, near_texts

# Size limits of a tensor and of a model. Larger ones take too long, and smaller ones show as much.
_MOST_ELEMENTS = 1 << 21
_MOST_PARAMETERS = 1 << 24
_QUICK = 2.0
_FUNCTION = re.compile(r"_*(test|main|demo|example|run|check)(_\w*)?|\w+_(test|demo|example)")
_PLAIN = frozenset(
    "torch np numpy math random nn F range len list tuple dict set int float str bool min max sum zip sorted".split()
)
_DEVICES = ("cuda", "cpu", "half")
_FENCED = re.compile(
    r"^ {0,3}```+ *(?:python|py|pycon)\b[^\n]*\n(.*?)^ {0,3}```", re.MULTILINE | re.DOTALL | re.IGNORECASE
)


@dataclass(frozen=True)
class Written:
    """A maker of the instance, a call to it, and where both are written."""

    make: Callable[[], Any]
    call: Call
    text: str


# Cached because every class of a module reads the same files.
texts_near = cache(near_texts)


def written_calls(cls: type, folder: str | None = None) -> Iterator[Written]:
    """Yield one call for each place that creates and calls an instance: first in the class's file, then elsewhere.

    The other places are READMEs and tests, from the folder of its file up to `folder`.
    """
    module = sys.modules.get(cls.__module__)
    if module is None:
        return
    try:
        text = inspect.getsource(module)
        # Most files never call their own classes, and parsing a large one takes as long as running a small model.
        is_called = re.search(rf"(?<!class )(?<!\w){cls.__name__}\s*\(", text) is not None
        tree = ast.parse(text if is_called else "")
    except (OSError, TypeError, SyntaxError):
        return
    own = getattr(module, "__file__", None)
    texts = texts_near(str(Path(own).parent), folder) if own is not None and folder is not None else {}
    elsewhere = mentions(texts, cls.__name__)
    for where, block in itertools.chain(_blocks(tree, cls), *itertools.starmap(_in_file, elsewhere.items())):
        found = _call_in(block, cls.__name__)
        if found is None or not _is_plain(found):
            continue
        made = _made(found, vars(module))
        if made is not None:
            yield Written(*made, f"{ast.unparse(found.constructor)}, called as {where} does")


@dataclass(frozen=True)
class _Found:
    """A constructor call, a call to the instance, and the assignments that both need, in order."""

    constructor: ast.Call
    call: ast.Call
    before: Sequence[ast.stmt]


def _blocks(tree: ast.Module, cls: type) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield the simple statements of each place that may contain examples, with the name of the place."""
    for node in tree.body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            yield 'the block `if __name__ == "__main__"`', list(_simple(node.body))
        elif isinstance(node, ast.FunctionDef) and _FUNCTION.fullmatch(node.name):
            yield f"`{node.name}`", list(_simple(node.body))
    for owner in (cls, getattr(cls, "forward", None)):
        with suppress(ValueError, SyntaxError):
            examples = doctest.DocTestParser().get_examples(inspect.getdoc(owner) or "")
            yield "its docstring", list(_simple(ast.parse("".join(one.source for one in examples)).body))


def _in_file(path: str, text: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield the Python blocks of a README with its imports, or the tests of a file with its top-level bindings."""
    name = f"`{Path(path).name}`"
    if path.endswith(".py"):
        with suppress(SyntaxError, ValueError):
            tree = ast.parse(text)
            bound = [one for one in _simple(tree.body) if not isinstance(one, (ast.Expr, ast.Assert))]
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef) and _FUNCTION.fullmatch(node.name):
                    yield f"`{node.name}` in {name}", [*bound, *_simple(node.body)]
        return
    imports: list[ast.stmt] = []
    for source in _FENCED.findall(text):
        with suppress(SyntaxError, ValueError):
            examples = doctest.DocTestParser().get_examples(source) if ">>>" in source else ()
            code = "".join(one.source for one in examples) or textwrap.dedent(source)
            block = list(_simple(ast.parse(code).body))
            yield name, [*imports, *block]
            imports += [one for one in block if isinstance(one, (ast.Import, ast.ImportFrom))]


def _simple(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements in order, including those inside `with` blocks."""
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _simple(statement.body)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Import, ast.ImportFrom, ast.Assert)):
            yield statement


def _call_in(block: Sequence[ast.stmt], name: str) -> _Found | None:
    """Return the first call to an instance of the class in a block."""
    instances: dict[str, ast.Call] = {}
    for at, statement in enumerate(block):
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            constructor = instances.get(called.id) if isinstance(called, ast.Name) else _constructor(called, name)
            if constructor is not None:
                needed = _needed(block[:at], [constructor, *node.args, *node.keywords])
                return _Found(constructor, node, needed)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            made = _constructor(statement.value, name)
            if made is not None:
                instances[statement.targets[0].id] = made
            else:
                instances.pop(statement.targets[0].id, None)
    return None


def _constructor(node: ast.expr, name: str) -> ast.Call | None:
    """Return the constructor call in an expression, such as `Model(3)` in `Model(3).eval()`."""
    while isinstance(node, ast.Call):
        called = node.func
        if (isinstance(called, ast.Name) and called.id == name) or (
            isinstance(called, ast.Attribute) and called.attr == name
        ):
            return node
        if not isinstance(called, ast.Attribute):
            return None
        node = called.value
    return None


def _needed(before: Sequence[ast.stmt], wanted: Sequence[ast.AST]) -> list[ast.stmt]:
    """Return the statements that bind the names in `wanted`, and the statements that these need."""
    names = {node.id for one in wanted for node in ast.walk(one) if isinstance(node, ast.Name)}
    kept: list[ast.stmt] = []
    for statement in reversed(before):
        bound = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and _is_store(node)}
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            bound = {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
        if bound & names:
            kept.insert(0, statement)
            names |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return kept


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


class _OnTheCpu(ast.NodeTransformer):
    """Removes calls that move a tensor to another device or dtype."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _DEVICES and not node.args:
            return node.func.value
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        is_gpu = isinstance(node.value, str) and re.fullmatch(r"cuda(:\d+)?", node.value)
        return ast.copy_location(ast.Constant("cpu"), node) if is_gpu else node


def _is_plain(found: _Found) -> bool:
    """Whether the code only calls constructors, functions of torch and similar packages, and their results."""
    bound = {
        node.id for one in found.before for node in ast.walk(one) if isinstance(node, ast.Name) and _is_store(node)
    }
    for node in (node for one in (*found.before, *found.call.args, *found.call.keywords) for node in ast.walk(one)):
        if isinstance(node, ast.Call):
            called: ast.expr = node.func
            last = called.attr if isinstance(called, ast.Attribute) else ""
            while isinstance(called, (ast.Attribute, ast.Call, ast.Subscript)):
                called = called.func if isinstance(called, ast.Call) else called.value
            first = called.id if isinstance(called, ast.Name) else ""
            if "load" in last or last == "from_pretrained":
                return False
            if not (first in _PLAIN or first in bound or first[:1].isupper() or last[:1].isupper()):
                return False
    return True


def _made(found: _Found, names: dict[str, Any]) -> tuple[Callable[[], Any], Call] | None:
    """Return a maker and a call, or None if they fail or are too large."""
    try:
        make, call = _evaluated(found, names)
        return (make, call) if _is_small(make, call) else None
    except Exception:  # noqa: BLE001 - user code
        return None


def _is_small(make: Callable[[], Any], call: Call) -> bool:
    """Whether the model and tensors are small and fast enough to compile many times, judged by one run."""
    sizes = [leaf.numel() for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor)]
    if any(size > _MOST_ELEMENTS for size in sizes):
        return False
    started = time.process_time()
    function = make()
    if sum(parameter.numel() for parameter in getattr(function, "parameters", list)()) > _MOST_PARAMETERS:
        return False
    return call_once(function, call).error is None and time.process_time() - started < _QUICK


def _evaluated(found: _Found, names: dict[str, Any]) -> tuple[Callable[[], Any], Call]:
    """Run the needed statements, and return a maker and a call."""
    torch.manual_seed(0)
    # Docstrings often omit these imports.
    scope = {"torch": torch, "nn": nn, "F": nn.functional, **names}
    body = [_OnTheCpu().visit(statement) for statement in found.before]
    exec(compile(ast.fix_missing_locations(ast.Module(body, [])), "<written>", "exec"), scope)  # noqa: S102
    constructor = _expression(found.constructor)
    arguments = ast.Call(ast.Name("__dynalint_call__", ast.Load()), found.call.args, found.call.keywords)
    call: Call = eval(_expression(arguments), {**scope, "__dynalint_call__": lambda *args, **kwargs: (args, kwargs)})  # noqa: S307
    return (lambda: eval(constructor, scope)), call  # noqa: S307


def _expression(node: ast.expr) -> Any:
    tree = ast.fix_missing_locations(ast.Expression(_OnTheCpu().visit(node)))
    return compile(tree, "<written>", "eval")

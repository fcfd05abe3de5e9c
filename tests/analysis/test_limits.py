"""No limit of the analysis is silent: what is cut is either found all the same, or told."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import dynalint.analysis
from tests.analysis.test_many_classes import BASE, HEIR, analysed, branches

FOLDER = Path(dynalint.analysis.__file__).parent
SOURCES = sorted(FOLDER.rglob("*.py"))

# Each limit with a value so small that the program below goes beyond it.
LIMITS = {
    "frame._MANY": 1,
    "frame._MOST_RUNS": 1,
    "interpreter._DEEPEST_CALL": 1,
    "interpreter._MOST_CONTEXTS": 1,
    "interpreter._RUNS_AFRESH": 0,
    "interpreter._RUNS_AT_ONCE": 0,
    "kinds.values.MOST_KEYS": 1,
    "kinds.values.MOST_PARTS": 5,
    "kinds.lattice._DEEPEST": 1,
    "kinds.lattice._LARGE": 1,
    "kinds.lattice._MANY": 0,
    "kinds.lattice._MANY_CLASSES": 3,
    "kinds.lattice._MOST_ITEMS": 1,
    "operators._MOST_REPEATED": 0,
    "signatures._SMALL": 0,
    "statements._MOST_ROUNDS": 1,
    "steps.MOST_STEPS": 300,
}
# What bounds no analysis: the texts of messages, the stack, cells and headers that are told of elsewhere, aliases of
# annotations (which name no code), and rewrites, whose findings stay.
OTHERS = {
    "annotations._DEEPEST_ALIAS",
    "installed._MOST_STEPS",  # told of, see test_installed.py
    "notebook._LONGEST_NUMBER",
    "namespaces._MOST_LEVELS",  # folders above a package that may be part of its name
    "notebook._MOST_CODE",
    "notebook._MOST_PARSED",
    "registries._MOST",  # told of, see test_registries.py
    "run._RECURSION_LIMIT",
    "run._STACK_BYTES",
    "source._LONGEST_QUOTE",
    "source._LONGEST_REASON",
    "source._TOP",
    "steps.MOST_REWRITE_STEPS",
}

MODEL = """\
    import torch
    from torch import nn
    from base import Base
    {imports}

    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.ones(())

        def forward(self, x: torch.Tensor):
            if (x * self.scale).sum() > 0:
                x = -x
            return x

    class Two(nn.Module):
        def forward(self, x: torch.Tensor):
            if x.sum() > 1:
                x = -x
            return x

    class Three(nn.Module):
        def forward(self, x: torch.Tensor):
            if x.sum() > 2:
                x = -x
            return x

    def clipped(x):
        if x:
            return x
        return -x

    def nested(x):
        return clipped(clipped(clipped(x.sum())))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.list = nn.ModuleList([One(), Two(), Three()])
            self.deep = [[[[Two()]]], [[[Three()]]]]
            self.same = [Two()] * 3
            self.table = {{}}
            self.table["one"] = One()
            self.table["two"] = Two()
            self.table["three"] = Three()
            self.heirs = [{heirs}]
            self.chosen = clipped

        def forward(self, x: torch.Tensor, name: str):
            for one in self.list:
                x = one(x)
            for one in self.same:
                x = one(x)
            for one in self.heirs:
                x = one(x)
            x = self.deep[0][0][0][0](x) + self.table[name](x)
            y = z = None
            for one in range(3):
                z = y
                y = x
            return self.chosen(nested(x) + clipped(1) + clipped(x > 0) + clipped(None)) + z
"""


def program() -> dict[str, str]:
    heirs = {f"heir{n}.py": HEIR.format(n=n) for n in range(5)}
    imports = "; ".join(f"from heir{n} import Heir{n}" for n in range(5))
    model = MODEL.format(imports=imports, heirs=", ".join(f"Heir{n}()" for n in range(5)))
    return {"base.py": BASE, **heirs, "model.py": model}


def limits() -> set[str]:
    """The numbers that modules of the analysis name, but for those in tables."""
    return {
        f"{'.'.join(path.relative_to(FOLDER).with_suffix('').parts)}.{target.id}"
        for path in SOURCES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and _is_number(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) is int


def test_every_limit_is_listed() -> None:
    assert limits() == LIMITS.keys() | OTHERS


def test_no_limit_goes_without_a_name() -> None:
    """`[:20]` and `range(8)`: more than one of something is bounded by a name, which the test above sees."""
    nameless = [
        f"{path.name}:{node.lineno}: {ast.unparse(node)}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for bound in _bounds(node)
        if isinstance(bound, ast.Constant) and isinstance(bound.value, int) and bound.value > 1
    ]
    assert nameless == ["torch_kinds.py:54: get_args(KindName)[:12]"]


def _bounds(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.upper is not None:
        return [node.slice.upper]
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
    return node.args if isinstance(node, ast.Call) and called in ("range", "islice") else []


@pytest.mark.parametrize("limit", LIMITS)
def test_what_is_cut_is_found_or_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    whole = analysed(tmp_path, program())
    assert not _told(whole)
    everything = branches(whole)
    module, _, name = limit.rpartition(".")
    monkeypatch.setattr(import_module(f"dynalint.analysis.{module}"), name, LIMITS[limit])
    cut = analysed(tmp_path, program())
    assert _told(cut) or branches(cut) == everything


def _told(analysis: dynalint.analysis.Analysis) -> list[str]:
    return [
        *(failure.fault for failure in analysis.failures),
        *analysis.budgets.failures([one.path for one in analysis.files], lambda path: path.name),
        *analysis.budgets.notes([one.path for one in analysis.files], lambda path: path.name),
    ]


def test_functions_in_containers_nested_ever_deeper_are_called(tmp_path: Path) -> None:
    code = """\
        import torch
        from torch import nn

        def positive(x):
            return x if x.sum() > 0 else -x

        def called(tree, x):
            return [called(one, x) for one in tree] if isinstance(tree, list) else tree(x)

        class Model(nn.Module):
            def forward(self, x: torch.Tensor):
                return called([[[[[[[[positive]]]]]]]], x)
    """

    found = analysed(tmp_path, {"model.py": code})
    assert branches(found) == {("model.py", 5)}
    assert not _told(found)


def test_a_function_that_wraps_its_argument_and_calls_itself_comes_to_rest(tmp_path: Path) -> None:
    code = """\
        import torch
        from torch import nn

        def wrapped(tree, depth):
            return tree if depth == 0 else wrapped([tree], depth - 1)

        class Model(nn.Module):
            def forward(self, x: torch.Tensor):
                wrapped(x, x.dim())
                return x if x.sum() > 0 else -x
    """
    found = analysed(tmp_path, {"model.py": code})
    assert branches(found) == {("model.py", 10)}
    assert not _told(found)

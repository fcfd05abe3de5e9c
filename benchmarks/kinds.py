"""Compare what the static analysis knows about each expression with the values that it has in a package's tests.

    python benchmarks/kinds.py ROOT PACKAGE SEEN.json --python VENV/bin/python [--tests FOLDER ...]
    python benchmarks/kinds.py ROOT PACKAGE SEEN.json --score

ROOT is an unpacked source distribution, and PACKAGE is the folder of the package in it (`src/name`). The first command
runs the tests without a compiler, in an environment that has torch, pytest and the package's dependencies. The
package's functions are instrumented when they are imported, so that each expression records the type of its value while
a module is called. `--score` analyses the package together with its tests and prints

* functions that ran while a module was called but are not in the region,
* code that ran in a function in the region but was not visited,
* tensors whose kind is unknown although the kinds of all operands are known, which shows where the kind was lost,
* kinds that the values contradict, because the value is not a tensor, or has a different rank or constant.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import builtins
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_VARIABLE = "DYNALINT_KINDS"
_SEEN = "__dynalint_seen__"
_PLAIN = (bool, int, float, str, type(None))
_MOST_VALUES = 8  # different values kept for an expression
_OF_A_TEST = 4  # parameter sets kept for a test
Span = tuple[int, int, int, int]


def is_test(path: Path) -> bool:
    """Return whether a file is one of the tests that some packages include."""
    return "tests" in path.parts or path.name.startswith("test_") or path.name == "conftest.py"


def span_of(node: ast.expr) -> Span:
    """Return an expression's position, as the first line and column and the last line and column."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


# The plugin. Everything up to the score runs in the package's environment with pytest.


def pytest_configure(config: Any) -> None:
    """Start watching."""
    if _VARIABLE in os.environ and not hasattr(builtins, _SEEN):
        settings = json.loads(os.environ[_VARIABLE])
        Watch(Path(settings["seen"])).begin(Path(settings["package"]))


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep a few parameter sets for each test, because the others mostly make the same calls."""
    alike: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for item in items:
        alike[str(item.path), item.nodeid.partition("[")[0]].append(item)
    kept = {id(one) for same in alike.values() for one in same[:: -(-len(same) // _OF_A_TEST)]}
    items[:] = [item for item in items if id(item) in kept]


class Instrument(ast.NodeTransformer):
    """Passes the value of each expression in a file's functions to the watch."""

    def __init__(self, path: Path, places: list[tuple[str, Span]]) -> None:
        self.path, self.places = str(path), places
        self.inside = False

    def visit_FunctionDef(self, node: Any) -> Any:
        """Only instrument the body, because decorators, defaults and annotations run when the function is defined."""
        before, self.inside = self.inside, True
        node.body = [self.visit(statement) for statement in node.body]
        self.inside = before
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_match_case(self, node: ast.match_case) -> Any:
        """Leave the pattern unchanged, because it contains no expressions that run."""
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Leave the annotation unchanged."""
        node.value = self.visit(node.value) if node.value is not None else None
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        """Leave f-strings unchanged, because their parts have no positions before Python 3.12."""
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        """Leave the callee unchanged, but not the object that it is an attribute of."""
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return self._noted(node)

    def generic_visit(self, node: ast.AST) -> Any:
        """Instrument an expression after its parts."""
        super().generic_visit(node)
        loads = isinstance(getattr(node, "ctx", None), ast.Load) or isinstance(
            node, (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.UnaryOp)
        )
        return self._noted(node) if isinstance(node, ast.expr) and loads and not isinstance(node, ast.Starred) else node

    def _noted(self, node: Any) -> Any:
        if not self.inside or (isinstance(node, ast.Name) and node.id in {"super", "__class__"}):
            return node
        self.places.append((self.path, span_of(node)))
        name, place = ast.Name(_SEEN, ast.Load()), ast.Constant(len(self.places) - 1)
        return ast.fix_missing_locations(ast.copy_location(ast.Call(name, [place, node], []), node))


class Watch:
    """Records the values that expressions have while modules are called."""

    def __init__(self, seen: Path) -> None:
        self.file = seen
        self.places: list[tuple[str, Span]] = []
        self.values: defaultdict[int, set[tuple[Any, ...]]] = defaultdict(set)
        self.depth = 0

    def begin(self, package: Path) -> None:
        """Install the hooks in Python and torch."""
        import numpy as np
        import torch

        self.torch, self.array = torch, np.ndarray
        setattr(builtins, _SEEN, self.note)
        sys.meta_path.insert(0, _Finder(package, self.places))
        call, watch = torch.nn.Module.__call__, self

        @functools.wraps(call)
        def watched(self: Any, *args: Any, **keywords: Any) -> Any:
            watch.depth += 1
            try:
                return call(self, *args, **keywords)
            finally:
                watch.depth -= 1

        torch.nn.Module.__call__ = watched
        atexit.register(self.write)
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_: object) -> None:
        self.write()
        os._exit(0)

    def note(self, place: int, value: Any) -> Any:
        """Record the type of a value, and return the value."""
        if self.depth:
            known = self.values[place]
            if len(known) < _MOST_VALUES:
                known.add(self._described(value))
        return value

    def _described(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, self.torch.Tensor):
            return "tensor", value.dim(), str(value.dtype)
        if isinstance(value, self.array):
            return "array", value.ndim, str(value.dtype)
        if type(value) in _PLAIN:
            return "value", type(value).__name__, value if not isinstance(value, str) or len(value) < 40 else value[:40]
        return "object", type(value).__name__

    def write(self) -> None:
        """Write what was recorded."""
        found: dict[str, list[Any]] = defaultdict(list)
        for place, values in self.values.items():
            path, span = self.places[place]
            found[path].append([span, sorted(values, key=repr)])
        self.file.write_text(json.dumps(found), encoding="utf-8")


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a file from the package and instruments it."""

    places: list[tuple[str, Span]]

    def get_code(self, fullname: str) -> Any:
        tree = ast.parse(self.get_data(self.path), self.path)
        return compile(Instrument(Path(self.path), self.places).visit(tree), self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the package's files before any other finder does."""

    def __init__(self, package: Path, places: list[tuple[str, Span]]) -> None:
        self.package, self.places = package, places

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        origin = Path(spec.origin) if spec is not None and spec.origin else None
        if (
            spec is None
            or origin is None
            or origin.suffix != ".py"
            or self.package not in origin.parents
            or is_test(origin)
        ):
            return None
        loader = _Loader(fullname, str(origin))
        loader.places = self.places
        inside = spec.submodule_search_locations
        return importlib.util.spec_from_file_location(
            fullname, origin, loader=loader, submodule_search_locations=inside
        )


# The score.


def measure(options: argparse.Namespace) -> None:
    """Run a package's tests with the plugin above, in the package's environment."""
    root, package = options.root.resolve(), (options.root / options.package).resolve()
    tests = options.tests or [name for name in ("tests", "test") if (root / name).is_dir()] or [options.package]
    command = [options.python, "-m", "pytest", "-q", "-p", "kinds", "-p", "no:cacheprovider", "-o", "addopts="]
    command += ["-o", "filterwarnings=ignore", "--continue-on-collection-errors", "--tb=no", *map(str, tests)]
    added = {
        _VARIABLE: json.dumps({"seen": str(options.seen.resolve()), "package": str(package)}),
        "PYTHONPATH": os.pathsep.join([str(_HERE), str(package.parent), str(root)]),
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
    }
    running = subprocess.Popen(command, cwd=root, env={**os.environ, **added}, stdin=subprocess.DEVNULL)
    try:
        running.wait(options.seconds)
    except subprocess.TimeoutExpired:
        running.terminate()
        running.wait(30)


class Known:
    """What the analysis knows about the expressions in a file: kinds by node, for functions in the region."""

    def __init__(self, tree: ast.Module, kinds: Mapping[ast.AST, Any], reached: set[ast.AST]) -> None:
        self.kinds = kinds
        self.by_span: dict[Span, ast.expr] = {}
        self.functions: dict[ast.AST, ast.AST] = {}
        self.statements: dict[ast.AST, ast.stmt] = {}
        self.reached = reached
        self._walk(tree, None, None)
        self.visited = {self.statements[node] for node in kinds if node in self.statements}

    def _walk(self, node: ast.AST, function: ast.AST | None, statement: ast.stmt | None) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child if isinstance(child, ast.stmt) else statement
            if isinstance(child, ast.expr):
                self.by_span.setdefault(span_of(child), child)
            if function is not None and inner is not None:
                self.functions[child], self.statements[child] = function, inner
            is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            self._walk(child, child if is_function else function, inner)

    def is_parameter(self, node: ast.Name) -> bool:
        """Return whether a name is a parameter of the function around it."""
        given = getattr(self.functions[node], "args", None)
        named = [*given.posonlyargs, *given.args, *given.kwonlyargs] if given is not None else []
        return node.id in {one.arg for one in named}


class Score:
    """Counts where values and kinds differ, and keeps a few locations for each cause."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.causes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))

    def note(self, what: str, cause: str, place: str) -> None:
        """Count a location for a cause."""
        self.causes[what][cause].append(place)

    def print(self, most: int) -> None:
        """Print the counts and the most common causes."""
        print(dict(self.counts))
        for what, causes in self.causes.items():
            print(f"\n{what}: {sum(map(len, causes.values()))}")
            for cause, places in sorted(causes.items(), key=lambda item: -len(item[1]))[:most]:
                print(f"  {len(places):4} {cause}")
                for place in places[:3]:
                    print(f"         {place}")


def score(options: argparse.Namespace) -> None:
    """Analyse the package and print where kinds and values differ."""
    from dynalint import engine
    from dynalint.analysis.run import with_deep_stack
    from dynalint.config import Configuration, Overrides, parse_layer
    from dynalint.projects.workspace import open_workspace
    from dynalint.rulebook.catalogue import known_codes

    os.chdir(options.root)
    layer = parse_layer({"confirm": "never"}, options.root, lambda _: "settings")
    configuration = Configuration(Overrides((layer,), isolated=True), known_codes(), options.root)
    workspace, _ = open_workspace([options.root / options.package], configuration, options.root)
    analysis = engine.check(workspace).lint.analysis
    interpreter = analysis.project.interpreter
    assert interpreter is not None
    seen = json.loads(options.seen.read_text(encoding="utf-8"))
    result = Score()
    for file in analysis.project.checked:
        values = seen.get(str(file.path))
        if values is None or file.tree is None:
            continue
        functions = [function for function in analysis.functions if function.file is file]
        kinds: dict[ast.AST, Any] = {}
        for function in functions:
            kinds.update(with_deep_stack(functools.partial(interpreter.record_kinds, function)))
        known = Known(file.tree, kinds, {function.node for function in functions})
        hold(result, known, values, file.text.splitlines(), os.path.relpath(file.path, options.root))
    result.print(options.most)


def hold(result: Score, known: Known, values: Sequence[Any], lines: Sequence[str], path: str) -> None:
    """Compare the values in a file with what is known about it."""
    outside: set[ast.AST] = set()
    unvisited: set[ast.AST] = set()
    for span, seen in values:
        node = known.by_span.get(tuple(span))
        if node is None or node not in known.functions:
            continue
        function, place = known.functions[node], f"{path}:{node.lineno}: {lines[node.lineno - 1].strip()}"
        if function not in known.reached:
            if function not in outside:
                outside.add(function)
                result.note("functions not reached", getattr(function, "name", "lambda"), place)
            continue
        kind = known.kinds.get(node)
        result.counts["expressions"] += 1
        if kind is None:
            statement = known.statements[node]
            if statement not in known.visited and statement not in unvisited:
                unvisited.add(statement)
                result.note("statements not visited", getattr(function, "name", "lambda"), place)
            continue
        tensor = all(one[0] == "tensor" for one in seen)
        result.counts["tensors"] += tensor
        if type(kind).__name__ in ("Unknown", "Nothing"):
            if tensor:
                result.counts["unknown tensors"] += 1
                cause = origin(known, node)
                if cause is not None:
                    result.note("tensors lost", cause, place)
        else:
            fault = contradiction(kind, seen)
            if fault is not None:
                result.note("contradicted", f"{type(node).__name__}: {fault}", f"{place}  [{ast.unparse(node)}] {seen}")


def is_unknown(known: Known, node: ast.AST) -> bool:
    """Return whether nothing is known about an expression."""
    return type(known.kinds.get(node)).__name__ in ("Unknown", "Nothing", "NoneType")


def origin(known: Known, node: ast.expr) -> str | None:
    """Return where a kind was lost, if it was lost at this expression, or None."""
    if isinstance(node, ast.Name):
        return f"parameter of {getattr(known.functions[node], 'name', 'lambda')}" if known.is_parameter(node) else None
    operands = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
    if isinstance(node, ast.Call):
        operands = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    if any(is_unknown(known, one) and not isinstance(one, (ast.Constant, ast.Slice)) for one in operands):
        return None
    if isinstance(node, ast.Call):
        callee = known.kinds.get(node.func)
        return f"call of {type(callee).__name__} {ast.unparse(node.func)}"[:80]
    if isinstance(node, ast.Attribute):
        return f"attribute {node.attr} of {str(known.kinds.get(node.value))[:60]}"
    return f"{type(node).__name__} of {[type(known.kinds.get(one)).__name__ for one in operands]}"


def contradiction(kind: Any, seen: Sequence[Any]) -> str | None:
    """Return how the values contradict a kind, or None if they do not."""
    name = type(kind).__name__
    if name == "Tensor":
        wanted = "array" if kind.array else "tensor"
        others = [one for one in seen if one[0] not in ("tensor", "array")]
        if others:
            return f"{wanted} is {others[0][:2]}"
        if kind.rank is not None and any(one[1] != kind.rank for one in seen):
            return f"rank {kind.rank} is {[one[1] for one in seen]}"
        if kind.dtype is not None and any(kind.dtype not in class_of(one[2]) for one in seen):
            return f"dtype {kind.dtype} is {[one[2] for one in seen]}"
    if name == "Value":
        if any(one[0] == "tensor" for one in seen):
            return f"{kind.type} is a tensor"
        constant = kind.constant
        if isinstance(constant, (bool, int, float)) or constant is None:
            others = [one for one in seen if one[0] != "value" or one[2] != constant]
            if others:
                return f"constant is something else: {constant!r}"
    if name in ("Sequence", "Dictionary", "Instance", "Object") and any(one[0] == "tensor" for one in seen):
        return f"{name} is a tensor"
    return None


def class_of(dtype: str) -> str:
    """Return the class of a dtype."""
    name = dtype.removeprefix("torch.")
    return "bool" if name == "bool" else "complex" if "complex" in name else "float" if "float" in name else "int"


def main() -> None:
    """Measure a package, or score it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("package")
    parser.add_argument("seen", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the package's environment")
    parser.add_argument("--tests", nargs="*", help="files and folders of tests, relative to ROOT; `tests` or `test`")
    parser.add_argument("--seconds", type=int, default=240, help="for the tests")
    parser.add_argument("--score", action="store_true", help="analyse the package and compare with SEEN")
    parser.add_argument("--most", type=int, default=25, help="causes to print")
    options = parser.parse_args()
    options.root, options.seen = options.root.resolve(), options.seen.resolve()
    (score if options.score else measure)(options)


if __name__ == "__main__":
    main()

"""The context of a rewrite: a function, the kinds of its expressions, and the name that it uses for torch."""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from dynalint.rulekit import (
    Event,
    FunctionInfo,
    Import,
    ModuleInfo,
    Project,
    Refusal,
    SourceFile,
    k,
    quote,
    remembered,
    step,
    walk,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Scope:
    """A function to rewrite.

    The rewritten code begins at `line`, or anywhere if it is 0. `renamed` maps
    reads of names to their replacements in a rewrite. `composed` holds expressions that a rewrite has assembled from
    expressions in the file, and `made` has the kinds of its own nodes. `above` are the functions in the call chain that
    leads to this one. If `careful` is true, rewrites must not use short forms that only fit what most callers pass.
    """

    project: Project
    function: FunctionInfo
    line: int = 0
    renamed: dict[ast.AST, str] = field(default_factory=dict)
    composed: set[ast.AST] = field(default_factory=set)
    made: dict[ast.AST, k.Kind] = field(default_factory=dict)
    above: tuple[FunctionInfo, ...] = ()
    careful: bool = False

    @classmethod
    def of(cls, event: Event, project: Project) -> Scope:
        """Return the scope of an event."""
        function = event.function
        return cls(project, function, event.statement.lineno)

    def carefully(self) -> Scope:
        """Return this scope for a new rewrite without short forms."""
        return replace(self, renamed={}, composed=set(), made={}, careful=True)

    @cached_property
    def parents(self) -> Mapping[ast.AST, ast.AST]:
        """The parents of the function's nodes."""
        return self.project.parents(self.function)

    @property
    def torch(self) -> str:
        """The name by which the rewritten code can refer to the torch module.

        Raises:
            Refusal: If there is no such name.
        """
        return self._torch[0]

    @property
    def imports(self) -> tuple[str, ...]:
        """The imports that the name for torch requires.

        Raises:
            Refusal: If there is no such name.
        """
        return self._torch[1]

    @cached_property
    def _torch(self) -> tuple[str, tuple[str, ...]]:
        return torch_name(self.function, self.line)

    @cached_property
    def kinds(self) -> Mapping[ast.AST, k.Kind]:
        """The kinds of the function's expressions by node, computed when they are needed."""
        return self.project.kinds(self.function)

    @property
    def names(self) -> dict[str, list[ast.Name]]:
        """Every use of each name in the function, including nested functions."""
        known = self.function.known
        if Scope not in known:
            found = defaultdict[str, list[ast.Name]](list)
            for node in walk(self.function.node):
                if isinstance(node, ast.Name):
                    found[node.id].append(node)
            known[Scope] = found
        names: dict[str, list[ast.Name]] = known[Scope]
        return names

    @property
    def file(self) -> SourceFile:
        """The file that contains the function."""
        return self.function.file

    def kind(self, node: ast.AST) -> k.Kind:
        """Return the kind of an expression."""
        step()  # code that examines an expression without `walk` also needs the kind
        return self.made[node] if node in self.made else self.kinds.get(node, k.UNKNOWN)

    def tensor(self, node: ast.AST) -> k.Tensor | None:
        """Return the kind of an expression that is known to be a torch tensor, or None."""
        return as_tensor(self.kind(node))

    def dtype(self, node: ast.AST) -> k.DType | None:
        """Return the kind of dtype of an expression if it is known to be a tensor with one, or None."""
        tensor = self.tensor(node)
        return None if tensor is None else tensor.dtype

    def rank(self, node: ast.AST) -> int | None:
        """Return the number of dimensions of an expression if it is known to be a tensor with one, or None."""
        tensor = self.tensor(node)
        return None if tensor is None else tensor.rank

    def text(self, node: ast.expr | ast.stmt) -> str:
        """Return the source text of a node."""
        return self.file.segment(node)

    def quote(self, node: ast.expr | ast.stmt) -> str:
        """Return a node's text for use in a sentence: in backticks, on one line, and shortened if it is long."""
        return quote(self.file, node)

    def fresh_name(self, stem: str, others: Iterable[str] = ()) -> str:
        """Return `stem`, with a number if necessary, as a name that is neither used here nor in `others`."""
        taken = (self.names, self.function.locals, self.function.module.bindings, dir(builtins), set(others))
        name, number = stem, 2
        while any(name in some for some in taken):
            name, number = f"{stem}_{number}", number + 1
        return name


def shared(key: object, compute: Callable[[], T]) -> T:
    """Return the result of `compute` like `remembered`, or raise its `Refusal` again.

    Raises:
        Refusal: If `compute` raises one.
    """

    def result() -> T | Refusal:
        try:
            return compute()
        except Refusal as refusal:
            return Refusal(str(refusal))

    found = remembered(key, result)
    if isinstance(found, Refusal):
        raise Refusal(str(found))
    return found


def as_tensor(kind: k.Kind) -> k.Tensor | None:
    """Return the torch tensor that `kind` definitely is, or None."""
    return kind if isinstance(kind, k.Tensor) and not kind.array else None


def torch_name(function: FunctionInfo, line: int = 0) -> tuple[str, tuple[str, ...]]:
    """Return the name of the torch module in `function` from a line on, and the imports that this name requires.

    Raises:
        Refusal: If the file does not import torch, and the name `torch` is taken, or is only bound for type checkers.
    """
    if _imports_torch(function, line):
        return "torch", ()
    for name, binding in function.module.bindings.items():
        if binding == Import("torch", None) and not _shadowed(name, function):
            if name in function.module.for_checkers:
                raise Refusal("torch is imported only for type checkers here; import it in the function first")
            if _is_given_up(name, function.module):
                raise Refusal(
                    f"`{name}` is reassigned and may not be the torch module; import torch in the function first"
                )
            return name, ()
    if _is_taken("torch", function.module) or _shadowed("torch", function):
        raise Refusal("the name `torch` refers to something else here; import torch under a different name first")
    return "torch", ("import torch",)


def _imports_torch(function: FunctionInfo, line: int) -> bool:
    """Return whether a function itself imports torch before a line."""
    return any(
        isinstance(statement, ast.Import) and statement.lineno < line and ast.unparse(statement) == "import torch"
        for statement in function.statements
    )


def _shadowed(name: str, function: FunctionInfo) -> bool:
    inner: FunctionInfo | None = function
    while inner is not None and inner.name != "<module>":
        if name in inner.locals:
            return True
        inner = inner.parent
    return False


def _is_given_up(name: str, module: ModuleInfo) -> bool:
    """Return whether a function, or the top level outside an import's handler, deletes or rebinds a name."""
    targets = [
        target
        for statement in module.tree.body
        if isinstance(statement, ast.Assign | ast.Delete)
        for target in statement.targets
    ]
    return any(isinstance(one, ast.Name) and one.id == name for one in targets) or name in _set_by_functions(module)


def _set_by_functions(module: ModuleInfo) -> set[str]:
    """Return the module-level names that functions in the module set or delete."""

    def found() -> set[str]:
        nodes = walk(module.tree) if "global" in module.file.text else ()
        return {name for node in nodes if isinstance(node, ast.Global) for name in node.names}

    return remembered((_set_by_functions, module), found)


def _is_taken(name: str, module: ModuleInfo) -> bool:
    return name in module.bindings and module.bindings[name] != Import("torch", None)

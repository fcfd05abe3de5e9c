"""The index, which has a record for each module, class and function in the project.

It is built only from `ast`. `resolve` looks up names later, when they are needed, and the interpreter computes kinds.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol

from dynalint.analysis.kinds.base import NOTHING, Kind
from dynalint.analysis.source import SourceFile
from dynalint.analysis.steps import CHILD_FIELDS, remembered, step

# Matches `self.name = value`, `self.name: int = value`, `self.name += value`, and tuple targets (which look like
# arguments), but not comparisons. There is no leading `\b` because a pattern that starts with plain text is six times
# as fast.
_STORE = re.compile(
    r"self\.(\w+)(?:\[[^\n\[\]]{1,60}\])?\s*(?:,|\)|:[^=\n]{1,200}=|[-+*/%&|^@]?=(?!=)|//=|\*\*=|<<=|>>=)"
)
_QUOTED = re.compile(r"""["'](\w+)["']""")

NO_NAMES: Final = frozenset[str]()
"""An empty set that many functions share."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Inheritance(Protocol):
    """What the index needs from `dynalint.analysis.hierarchy`, which imports it."""

    def mro(self, cls: ClassInfo) -> list[ClassInfo]:
        """Return the project classes that `cls` inherits from, itself first."""
        ...


@dataclass(eq=False)
class FunctionInfo:
    """A function, method or lambda of the project.

    `owner` is the class that defines a method, and `parent` is the function around a nested function. `caller` and
    `chain` say how a compiled root reaches it. `called_by` maps its callers in the region to whether a call is in a
    loop. These are empty for code outside the region. `compiled` is true if the project compiles it or the settings
    name it as a root. `doubt` says why other code in the region is rarely compiled, if it is. `known` caches results
    that other code has computed from its text.
    """

    name: str
    qualname: str
    node: FunctionNode
    module: ModuleInfo
    owner: ClassInfo | None = None
    parent: FunctionInfo | None = None
    reached: bool = False
    caller: FunctionInfo | None = None
    called_by: dict[FunctionInfo, bool] = field(default_factory=dict)
    compiled: bool = False
    doubt: str = ""
    known: dict[object, Any] = field(default_factory=dict)
    known_public: bool | None = None

    def __repr__(self) -> str:
        return f"FunctionInfo({self.qualname})"

    @property
    def file(self) -> SourceFile:
        """The file that contains the function."""
        return self.module.file

    @property
    def text(self) -> str:
        """The source lines with the decorators. For a lambda or a module's top level, this is the whole file."""
        file, node = self.file, self.node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return file.text
        starts, end = file.line_starts, node.end_lineno or node.lineno
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return file.text[starts[first - 1] : starts[end] if end < len(starts) else None]

    @property
    def enclosing(self) -> FunctionInfo | None:
        """The function whose variables this one closes over, as the methods of a class inside a function do."""
        return self.parent or (self.owner.parent if self.owner is not None else None)

    @property
    def chain(self) -> tuple[str, ...]:
        """The qualified names of the functions on the path of calls from a root to this function, both included."""
        return tuple(function.qualname for function in self.callers)

    @property
    def callers(self) -> tuple[FunctionInfo, ...]:
        """The functions in the chain."""
        found: dict[FunctionInfo, None] = {}
        function: FunctionInfo | None = self
        while function is not None and function not in found:
            found[function] = None
            function = function.caller
        return tuple(reversed(found))

    @property
    def leading_here(self) -> tuple[FunctionInfo, ...]:
        """The function and all its direct and indirect callers in the region, nearest first."""
        found: dict[FunctionInfo, None] = {self: None}
        waiting = [self]
        for function in waiting:
            new = [one for one in function.called_by if one not in found]
            found.update(dict.fromkeys(new))
            waiting += new
        return tuple(found)

    @property
    def statements(self) -> list[ast.stmt]:
        """The statements in the body. A lambda's body is its expression in a `return`."""
        if isinstance(self.node, ast.Lambda):
            return [ast.copy_location(ast.Return(self.node.body), self.node.body)]
        return self.node.body

    @cached_property
    def decorators(self) -> frozenset[str]:
        """The last parts of the decorators' names: "property" for `@property` and `@functools.property(...)`."""
        nodes = getattr(self.node, "decorator_list", ())
        targets = (node.func if isinstance(node, ast.Call) else node for node in nodes)
        found = frozenset(
            target.id if isinstance(target, ast.Name) else target.attr
            for target in targets
            if isinstance(target, (ast.Name, ast.Attribute))
        )
        return found or NO_NAMES

    @cached_property
    def defaults(self) -> dict[str, ast.expr]:
        """The default values of parameters, by name."""
        arguments, positional = self.node.args, self.positional
        first = len(positional) - len(arguments.defaults)
        found = {one.arg: value for one, value in zip(positional[first:], arguments.defaults, strict=True)}
        keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return {**found, **{one.arg: value for one, value in keywords if value is not None}}

    @cached_property
    def positional(self) -> tuple[ast.arg, ...]:
        """The parameters that can be passed by position."""
        return (*self.node.args.posonlyargs, *self.node.args.args)

    @cached_property
    def named(self) -> tuple[ast.arg, ...]:
        """All parameters but `*args` and `**kwargs`."""
        return (*self.positional, *self.node.args.kwonlyargs)

    def assignments(self, name: str, lines: Collection[int]) -> list[ast.stmt | None]:
        """Return the statements on these lines that assign to an attribute, or None for one in a nested function."""
        found: list[ast.stmt | None] = []
        pending: list[tuple[ast.AST, ast.stmt | None]] = [(statement, statement) for statement in self.statements]
        while pending:
            node, statement = pending.pop()
            if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
                stored = node.value if isinstance(node, ast.Subscript) else node
                if isinstance(stored, ast.Attribute) and stored.attr == name:
                    found.append(statement)
            inner = statement is None or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            for child in children(node):
                if _is_on(child, lines):
                    own = child if isinstance(child, ast.stmt) else statement
                    pending.append((child, None if inner else own))
        return found

    @cached_property
    def locals(self) -> frozenset[str]:
        """Names bound in the function itself, such as parameters and targets, except `global` and `nonlocal` names."""
        names: set[str | None] = set()
        outer: set[str | None] = set()
        for node in walk_function(self.node):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                outer.update(node.names)
            elif node is not self.node:
                names.add(_bound_name(node))
        return frozenset(name for name in names - outer if name is not None) or NO_NAMES


@dataclass(eq=False)
class ClassInfo:
    """A class in the project.

    `methods` are the methods that it defines itself. `attributes` contains the join of all kinds stored in each
    attribute of `self`.
    """

    name: str
    qualname: str
    node: ast.ClassDef
    module: ModuleInfo
    parent: FunctionInfo | None = None
    methods: dict[str, FunctionInfo] = field(default_factory=dict)
    body: dict[str, ast.expr] = field(default_factory=dict)
    classes: dict[str, ClassInfo] = field(default_factory=dict)
    attributes: dict[str, Kind] = field(default_factory=dict)
    stores: dict[str, list[tuple[FunctionInfo, ast.stmt]]] = field(default_factory=dict)
    subclasses: list[ClassInfo] = field(default_factory=list)
    known_public: bool | None = None

    def __repr__(self) -> str:
        return f"ClassInfo({self.qualname})"

    @property
    def file(self) -> SourceFile:
        """The file that contains the class."""
        return self.module.file

    @property
    def above(self) -> list[ClassInfo]:
        """The project classes that it inherits from, itself first."""
        return [self] if self.module.hierarchy is None else self.module.hierarchy.mro(self)

    @cached_property
    def writers(self) -> dict[str, dict[FunctionInfo, list[int]]]:
        """The methods that may assign to each attribute, with the lines, based on the text (see `assigns`)."""
        found: dict[str, dict[FunctionInfo, list[int]]] = {}
        stores = self.module.stores
        for method in self.methods.values():
            first, last = method.node.lineno, method.node.end_lineno or method.node.lineno
            for number, name in stores[bisect_left(stores, (first, "")) : bisect_left(stores, (last + 1, ""))]:
                found.setdefault(name, {}).setdefault(method, []).append(number)
        return found

    @cached_property
    def annotated(self) -> dict[str, ast.expr]:
        """The annotations in the class body, except for `ClassVar`s."""
        found: dict[str, ast.expr] = {}
        for item in (one for one in self.node.body if isinstance(one, ast.AnnAssign)):
            if isinstance(item.target, ast.Name) and "ClassVar" not in ast.unparse(item.annotation):
                found.setdefault(item.target.id, item.annotation)
        return found

    def attribute(self, name: str) -> Kind:
        """Return the join of the kinds that this class itself stores in `self.name`, or `NOTHING` if there are none."""
        return self.attributes.get(name, NOTHING)


@dataclass(frozen=True, slots=True)
class Import:
    """A name bound by an import.

    `module` is an absolute name. `attribute` is None if the name is bound to the module itself.
    """

    module: str
    attribute: str | None


@dataclass(eq=False)
class ModuleInfo:
    """A module and the bindings at its top level, in source order. Later bindings of a name replace earlier ones.

    `name` is the dotted name under which other modules import it. `bindings` maps each name to an import, a class, a
    function, or the expressions assigned to it. `fallbacks` holds what the same name is bound to in an `except` or
    `else` block, or before an import. `for_checkers` lists names that are only bound for type checkers. `hierarchy`
    describes inheritance in the project.
    """

    name: str
    file: SourceFile
    package: bool = False
    bindings: dict[str, Import | ClassInfo | FunctionInfo | list[ast.expr]] = field(default_factory=dict)
    fallbacks: dict[str, Import | ClassInfo | FunctionInfo | ast.expr] = field(default_factory=dict)
    for_checkers: set[str] = field(default_factory=set)
    stars: list[str] = field(default_factory=list)
    classes: list[ClassInfo] = field(default_factory=list)
    functions: list[FunctionInfo] = field(default_factory=list)
    hierarchy: Inheritance | None = None
    known_public: bool | None = None

    def __repr__(self) -> str:
        return f"ModuleInfo({self.name})"

    @cached_property
    def may_disable(self) -> bool:
        """Whether the module's code may disable Dynamo, judging by its text.

        Resolving every decorator instead might require reading other files.
        """
        marks = ("disable", "compile", "assume_constant", "allow_in_graph", "custom_op", "nonstrict")
        return any(mark in self.file.text for mark in marks)

    @cached_property
    def stores(self) -> list[tuple[int, str]]:
        """The lines that may assign to an attribute of `self`, in order, each with the attribute's name."""
        return [(self.file.position(match.start())[0], match[1]) for match in _STORE.finditer(self.file.text)]

    @cached_property
    def quoted(self) -> frozenset[str]:
        """The names that appear in quotes in the text."""
        return frozenset(_QUOTED.findall(self.file.text))

    @cached_property
    def top(self) -> FunctionInfo:
        """The top level as a function without parameters. Definitions in it are still bindings of the module."""
        body = self.tree.body
        kept = [node for node in body if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))]
        arguments = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        node = ast.FunctionDef(name="<module>", args=arguments, body=kept, decorator_list=[], lineno=1, col_offset=0)
        node.end_lineno = max((getattr(child, "end_lineno", 1) or 1 for child in body), default=1)
        node.end_col_offset = 0
        return FunctionInfo(node.name, node.name, node, self)

    @property
    def tree(self) -> ast.Module:
        """The syntax tree. Only modules without syntax errors are indexed."""
        assert self.file.tree is not None
        return self.file.tree


def _bound_name(node: ast.AST) -> str | None:
    """Return the name that a node binds in its scope, if any."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.alias):
        return node.asname or node.name.partition(".")[0]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
        return node.name
    return None


def walk_function(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function that run in its own scope, without the bodies of nested functions and classes.

    Each node takes a step from the current file's budget.

    Raises:
        Exhausted: If the budget is used up.
    """
    nodes = remembered((walk_function, node), lambda: tuple(_own_nodes(node)))
    step(len(nodes))
    return iter(nodes)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    pending = [] if isinstance(node, ast.ClassDef) else children(node)
    while pending:
        current = pending.pop()
        yield current
        if CHILD_FIELDS[type(current)] and not isinstance(current, _SCOPES):
            pending += children(current)


def _is_on(node: ast.AST, lines: Collection[int]) -> bool:
    """Return whether a node has a position and is at least partly on one of these lines."""
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is None or last is None or any(first <= line <= last for line in lines)


def children(node: ast.AST) -> list[ast.AST]:
    """Return a node's children, except operators and contexts. `ast.iter_child_nodes` is much slower."""
    found: list[ast.AST] = []
    for name in CHILD_FIELDS[type(node)]:
        value = getattr(node, name, None)
        if value is None:
            continue
        if type(value) is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found

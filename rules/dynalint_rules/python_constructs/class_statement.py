"""DYN705: a class that is made while a model runs."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable
from dataclasses import replace
from symtable import SymbolTable, symtable
from textwrap import dedent

from dynalint.analysis.events import Call, ClassDefinition, Event
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Refusal, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.guard import taken_out
from dynalint_rules._shared.scope import Scope

_CHANGES_A_CLASS = ("type", "setattr", "delattr", "__class__", "__dict__")


class ClassStatement(Rule):
    code = "DYN705"
    name = "class-statement"
    summary = "a class that is defined in compiled code ends the graph"
    gb = ("GB8977", "GB0156", "GB0007")
    events = (ClassDefinition, Call)
    calls = frozenset({"dataclasses.make_dataclass", "types.new_class"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the statement or call."""
        if isinstance(event, ClassDefinition):
            yield Violation(
                event.node,
                f"the class `{event.node.name}` is made on every call, which Dynamo does not trace",
                help="define it at the top level of the module",
            )
        elif isinstance(event, Call):
            yield Violation(event.node, f"`{event.callee}()` makes a class on every call, which Dynamo does not trace")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Move the class to the top level."""
        if not isinstance(event, ClassDefinition) or not isinstance(event.node, ast.ClassDef):
            return Declined("its fields may hang on the function around it; define it at the top level")
        return _moved(Scope.of(event, project), event.node)


def _moved(scope: Scope, cls: ast.ClassDef) -> Rewrite:
    """Put a class in front of the function, or the class of the function, at the top level of the module."""
    file, module = scope.file, scope.function.module
    if cls.name in module.bindings or hasattr(builtins, cls.name):
        raise Refusal(f"`{cls.name}` means something else in the module; define it at the top level under another name")
    line_start = file.line_starts[cls.lineno - 1]
    text = dedent(file.text[line_start : file.span(cls)[1]])
    _check_body(scope, cls, text)
    uses = _uses(scope, cls)
    taken = _without_blank_lines(taken_out(scope, cls, "", "safe").replacements[0])
    place = next(one for one in module.tree.body if scope.function.node in walk(one))
    first = min([place.lineno, *(one.lineno for one in getattr(place, "decorator_list", ()))])
    start = file.line_starts[first - 1]
    above = Replacement(file, start, start, f"{text}{file.newline * 3}")
    constants = {name for statement in cls.body for name in _constants(statement)}
    if all(isinstance(use, ast.Attribute) and use.attr in constants for use in uses):
        return Rewrite("Define the class at the top level", "safe", (above, taken))
    change = f"all calls have one class `{cls.name}`, whose name does not show the function"
    return Rewrite("Define the class at the top level", "unsafe", (above, taken), (change,))


def _without_blank_lines(taken: Replacement) -> Replacement:
    """Take out the empty lines as well that follow what is taken out."""
    blank = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))*").match(taken.file.text, taken.end)
    return replace(taken, end=blank.end()) if blank is not None and not taken.content else taken


def _check_body(scope: Scope, cls: ast.ClassDef, text: str) -> None:
    """Make sure that the statement does the same at the top level of the module, once.

    Raises:
        Refusal: it does not, or may not.
    """
    around: set[str] = set()
    function: FunctionInfo | None = scope.function
    while function is not None and function.name != "<module>":
        around |= function.locals
        function = function.parent
    for name in sorted(_taken(symtable(text, "", "exec")) & around):
        raise Refusal(f"it takes `{name}` from the function around it; define it at the top level, and pass that")
    for node in walk(cls):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and node.end_lineno != node.lineno:
            raise Refusal("it holds a text of several lines, which moving would change; define it at the top level")
        word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(node, ast.Global | ast.Nonlocal) or word in (*_CHANGES_A_CLASS, cls.name):
            raise Refusal("it may change what it holds itself, which each call starts anew; define it at the top level")
    plain = all(_is_plain_function(one) or _is_plain(one) for one in cls.body)
    if cls.decorator_list or cls.keywords or cls.bases or not plain:
        raise Refusal("making it may do more than make a class; define it at the top level by hand")


def _taken(table: SymbolTable) -> set[str]:
    """Return the names that code takes from around it, or from the builtins."""
    own = {one.get_name() for one in table.get_symbols() if one.is_global() and one.is_referenced()}
    return own.union(*(_taken(child) for child in table.get_children()))


def _is_plain(statement: ast.stmt) -> bool:
    """Whether a statement of a class body does nothing, or names constants."""
    if isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    ):
        return True
    return bool(_constants(statement))


def _constants(statement: ast.stmt) -> list[str]:
    """Return the names that a statement gives constants."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Constant):
        return []
    names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return names if len(names) == len(statement.targets) else []


def _is_plain_function(statement: ast.stmt) -> bool:
    """Whether a statement defines a function with nothing around it that is worked out then but constants."""
    if not isinstance(statement, ast.FunctionDef) or statement.returns is not None:
        return False
    arguments = statement.args
    defaults = [*arguments.defaults, *(one for one in arguments.kw_defaults if one is not None)]
    noted = any(isinstance(one, ast.arg) and one.annotation is not None for one in walk(arguments))
    decorators = [one.id if isinstance(one, ast.Name) else "" for one in statement.decorator_list]
    constant = all(isinstance(one, ast.Constant) for one in defaults)
    return constant and not noted and all(one in ("staticmethod", "property") for one in decorators)


def _uses(scope: Scope, cls: ast.ClassDef) -> list[ast.AST]:
    """Return what stands around each use of the class in the function: an attribute, a call or something else.

    Raises:
        Refusal: it is given attributes, or a second meaning.
    """
    found = []
    for node in walk(scope.function.node):
        if isinstance(node, ast.Name) and node.id == cls.name:
            parent = scope.parents.get(node)
            stored = isinstance(parent, ast.Attribute) and not isinstance(parent.ctx, ast.Load)
            if not isinstance(node.ctx, ast.Load) or parent is None or stored:
                raise Refusal(f"`{cls.name}` is changed by each call; make an instance of it and change that")
            found.append(parent)
    return found

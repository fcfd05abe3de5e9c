"""Find the compiled region: the functions that a compiled root reaches, and the calls that lead to them."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Collection, Mapping, Sequence

from dynalint.analysis import kinds as k
from dynalint.analysis.decorators import wrappers_of
from dynalint.analysis.doubts import doubts_of_roots, drivers
from dynalint.analysis.frame import Context, Frame
from dynalint.analysis.functions import is_disabled
from dynalint.analysis.hooks import put_on_others
from dynalint.analysis.index import ClassInfo, FunctionInfo, ModuleInfo, walk_function
from dynalint.analysis.interpreter import Interpreter
from dynalint.analysis.named_roots import named_root
from dynalint.analysis.project import Project

_COMPILE_CALL = re.compile(r"compile\(")
_FORWARD_STORE = re.compile(r"\b(self|cls)\.(forward = (?!None\b)|register_forward_(pre_)?hook\()")
_COMPILERS = ("torch.compile", "torch._dynamo.optimize")
# Methods that run when a metric class's `forward`, which it inherits from a library, is called.
_METHODS_OF_METRICS = ("update", "compute")


def find_roots(project: Project, interpreter: Interpreter, roots: str | Sequence[str]) -> list[FunctionInfo]:
    """Return the compiled functions in a fixed order, with callers usually first.

    `roots` is "modules", "explicit" (only functions that the code itself compiles) or a list of names such as
    "package.module:Name". If it is "modules", the `forward` method of every `nn.Module` counts as compiled. This
    includes functions that replace it, as in `self.forward = self.fast`, and the methods that the `forward` of a
    torchmetrics metric calls.
    """
    found: dict[FunctionInfo, None] = {}
    modules = [
        project.modules[path] for path in sorted(project.modules) if project.is_checked(project.modules[path].file)
    ]
    for module in modules:
        for function in module.functions:
            if _is_compiled(interpreter, function):
                function.compiled = True
                found[function] = None
    if roots == "modules":
        for module in modules:
            for cls in module.classes:
                found.update(dict.fromkeys(_entered(interpreter, cls)))
    elif roots != "explicit":
        for function in filter(None, (named_root(interpreter, name) for name in roots)):
            _note_named(project, function)
            found[function] = None
    _run_with(interpreter, modules, _COMPILE_CALL)
    for function in compiled_by_calls(interpreter):
        found[function] = None
    if roots == "modules":
        found.update(dict.fromkeys(_put_in_place_of_forward(interpreter, modules)))
    wrappers = [wrapper for function in found for wrapper in wrappers_of(interpreter, function)]
    # Models are usually defined after their layers, so reverse order puts callers before their callees.
    return list(dict.fromkeys([*reversed(list(found)), *wrappers]))


def _entries(project: Project, cls: ClassInfo) -> tuple[str, ...]:
    """Return the methods that run when an instance of a module class is called. There are none for any other class.

    A class that replaces `nn.Module.__call__` is entered there, and may still call `forward`.
    """
    of_metrics = any(name.startswith("torchmetrics.") for name in project.lineage(cls)[1])
    if of_metrics and project.find_method(cls, "forward") is None:
        return _METHODS_OF_METRICS
    if not project.is_module_class(cls):
        return ()
    return ("forward",) if project.find_method(cls, "__call__") is None else ("__call__", "forward")


def _entered(interpreter: Interpreter, cls: ClassInfo) -> list[FunctionInfo]:
    """Return the compiled methods of a module class, and treat the class as instantiated."""
    names = _entries(interpreter.project, cls)
    if names:
        interpreter.project.note_built(cls)
    methods = (interpreter.project.find_method(cls, name) for name in names)
    own = (one for one in methods if one is not None and (one.owner is cls or _is_mixed_in(interpreter.project, one)))
    return [method for method in own if not _is_kept_out(interpreter, method)]


def _is_mixed_in(project: Project, method: FunctionInfo) -> bool:
    """Return whether a method is defined by a class that is not a module, for modules that inherit from it."""
    return method.owner is not None and not project.is_module_class(method.owner)


def _note_named(project: Project, function: FunctionInfo) -> None:
    function.compiled = True
    if function.owner is not None:
        project.note_built(function.owner)


def _is_kept_out(interpreter: Interpreter, function: FunctionInfo) -> bool:
    return is_disabled(Frame(interpreter, function.module), function)


def _is_compiled(interpreter: Interpreter, function: FunctionInfo) -> bool:
    """Return whether a function is decorated with `torch.compile`, a call of it, or a `functools.partial` of it."""
    for decorator in getattr(function.node, "decorator_list", ()):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if not isinstance(target, (ast.Name, ast.Attribute)):
            continue
        kind = interpreter.scopes.in_scope(target, function.module, None)
        if isinstance(kind, k.External) and kind.name in _COMPILERS:
            return True
        if isinstance(kind, k.External) and kind.name == "functools.partial" and isinstance(decorator, ast.Call):
            first = interpreter.scopes.in_scope(decorator.args[0], function.module, None) if decorator.args else None
            if isinstance(first, k.External) and first.name in _COMPILERS:
                return True
    return False


def _put_in_place_of_forward(interpreter: Interpreter, modules: list[ModuleInfo]) -> list[FunctionInfo]:
    """Return the functions that modules assign to their own `forward`, and those registered as forward hooks.

    Functions that are put on other modules are often for debugging or export.
    """
    _run_with(interpreter, modules, _FORWARD_STORE)
    others = dict(reversed([pair for module in modules for pair in put_on_others(interpreter, module)]))
    for function, told in others.items():
        interpreter.forwards.setdefault(function, told)
    around = [one for one in others if one.enclosing is not None]
    interpreter.run_scripts(list(dict.fromkeys(map(_outermost, around))))  # they bind what the functions close over
    checked = (function for function in interpreter.forwards if interpreter.project.is_checked(function.file))
    return [function for function in checked if not _is_kept_out(interpreter, function)]


def _outermost(function: FunctionInfo) -> FunctionInfo:
    while function.enclosing is not None:
        function = function.enclosing
    return function


def _run_with(interpreter: Interpreter, modules: list[ModuleInfo], spelled: re.Pattern[str]) -> None:
    """Interpret functions that contain `torch.compile(...)`, `model.compile()` or `self.forward = self.fast`."""
    found: list[FunctionInfo] = []
    for module in modules:
        lines = _lines(module, spelled)
        found += [
            function
            for function in ([*module.functions, module.top] if lines else [])
            if any(function.node.lineno <= line <= (function.node.end_lineno or 0) for line in lines)
        ]
    interpreter.run_scripts(found)


def compiled_by_calls(interpreter: Interpreter) -> list[FunctionInfo]:
    """Return the functions compiled by the code that has been interpreted so far, and mark them as compiled."""
    found: dict[FunctionInfo, None] = {}
    for kind in list(interpreter.compiled):
        for one in kind.members:
            if isinstance(one, k.Function):
                found[one.function] = None
            elif isinstance(one, k.Instance):
                method = interpreter.project.find_method(one.cls, "forward")
                if method is not None:
                    found[method] = None
    for function in found:
        function.compiled = True
    return list(found)


def run_inherited(project: Project, interpreter: Interpreter, roots: Sequence[FunctionInfo]) -> None:
    """Interpret compiled methods once for each class that inherits them and may override what they call."""
    compiled = set(roots)
    heirs: dict[FunctionInfo, list[k.Kind]] = {}
    for cls in project.all_classes:
        for name in _entries(project, cls):
            entry = project.find_method(cls, name) if name not in cls.methods else None
            if entry in compiled and (entry.compiled or project.is_checked(cls.file)):
                project.note_built(cls)
                heirs.setdefault(entry, []).append(k.Instance(cls))
    for entry, instances in heirs.items():
        interpreter.call_from_outside(entry, k.join_all(instances))
    interpreter.settle()


def run_scripts(project: Project, interpreter: Interpreter) -> None:
    """Interpret scripts and tests. Their calls to compiled code show the kinds of its parameters.

    They are interpreted last, so that a single test's constructor call does not determine the kinds of a class's
    attributes. All of them are interpreted together, so that what many of them call is interpreted again once for all
    of them, and not once for each.
    """
    found: list[FunctionInfo] = []
    for path in sorted(project.modules):
        module = project.modules[path]
        if project.is_checked(module.file):
            found += [function for function in module.functions if function.parent is None and _is_test(function)]
            found += [module.top] if _is_script(module) else []
            found += [cls.methods["__call__"] for cls in module.classes if _is_loss(project, interpreter, cls)]
    interpreter.run_scripts(found)


def _is_loss(project: Project, interpreter: Interpreter, cls: ClassInfo) -> bool:
    """Return whether a class is no module, but is called like one and creates modules, as losses of detectors do."""
    constructor = cls.methods.get("__init__")
    if constructor is None or "__call__" not in cls.methods or project.is_module_class(cls):
        return False
    for node in walk_function(constructor.node):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            made = interpreter.scopes.in_scope(node.func, cls.module, None)
            if isinstance(made, k.Class) and project.is_module_class(made.cls):
                return True
    return False


def _is_test(function: FunctionInfo) -> bool:
    """Return whether a test runner or one of the package's entry points calls a function."""
    return function.name.startswith("test_") or function.name == "main"


def compiling_places(text: str) -> int:
    """Return the number of places for which functions are interpreted because they may compile or replace code."""
    return len(_COMPILE_CALL.findall(text)) + len(_FORWARD_STORE.findall(text))


def _is_script(module: ModuleInfo) -> bool:
    """Return whether a module's top level calls the module's own definitions or runs a block."""
    for node in module.tree.body:
        if isinstance(node, (ast.For, ast.While, ast.With)):
            return True
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return True
        value = node.value if isinstance(node, (ast.Expr, ast.Assign)) else None
        if isinstance(value, ast.Call) and any(_calls_own(one, module) for one in (value, *value.args)):
            return True
    return False


def _calls_own(node: ast.expr, module: ModuleInfo) -> bool:
    """Return whether an expression calls one of the module's functions or variables, or the result of another call."""
    if not isinstance(node, ast.Call):
        return False
    binding = module.bindings.get(node.func.id) if isinstance(node.func, ast.Name) else None
    return isinstance(node.func, ast.Call) or isinstance(binding, (FunctionInfo, list))


def _lines(module: ModuleInfo, spelled: re.Pattern[str]) -> list[int]:
    """Return the lines that match a pattern, ignoring `re.compile`."""
    text = module.file.text
    if spelled is _FORWARD_STORE and "forward = " not in text and "register_forward_" not in text:
        return []  # the pattern starts with text found on nearly every line
    starts = [match.start() for match in spelled.finditer(text) if not text.endswith("re.", 0, match.start())]
    return [module.file.position(start)[0] for start in starts]


def mark_region(interpreter: Interpreter, roots: Sequence[FunctionInfo]) -> list[Context]:
    """Mark the functions that the roots reach, with the shortest chain of calls, and return the contexts in the region.

    Roots known to be compiled come first, followed by roots that no other root calls, so that a layer's chain starts at
    the model that uses it. Rarely compiled code comes last, so it is only marked as doubtful if no other root reaches
    it.
    """
    for function in interpreter.contexts:
        function.reached, function.caller, function.called_by, function.doubt = False, None, {}, ""
    root_contexts = [context for function in roots for context in interpreter.contexts.get(function, ())]
    called = {
        callee.function
        for context in root_contexts
        for callee in context.callees
        if callee.function is not context.function
    }
    outer = [context for context in root_contexts if context.function not in called]
    driving = drivers(interpreter)
    doubts = {**doubts_of_roots(interpreter, [root for root in roots if not root.compiled]), **driving}
    region: dict[Context, None] = {}
    for batch in (outer, root_contexts):
        _reach([(one, None) for one in batch if one.function.compiled], region, {}, {})
    for batch in (outer, root_contexts):
        _reach([(one, None) for one in batch if one.function not in doubts], region, {}, driving)
    _reach([(callee, one) for one in region for callee in one.callees], region, doubts, {})
    for batch in (outer, root_contexts):
        _reach([(one, None) for one in batch], region, doubts, {})
    return list(region)


def _reach(
    starts: Sequence[tuple[Context, Context | None]],
    region: dict[Context, None],
    doubts: Mapping[FunctionInfo, str],
    barred: Collection[FunctionInfo],
) -> None:
    """Add the contexts reachable from `starts` to the region, each with its caller, except for `barred` functions."""
    waiting: deque[Context] = deque()

    def enter(context: Context, caller: Context | None) -> None:
        function = context.function
        if context in region or function in barred:
            return
        region[context] = None
        waiting.append(context)
        if not function.reached:
            function.reached = True
            function.caller = None if caller is None else caller.function
            above = "" if function.caller is None else function.caller.doubt
            function.doubt = f"`{function.qualname}` {doubts[function]}" if function in doubts else above

    for context, caller in starts:
        enter(context, caller)
    while waiting:
        context = waiting.popleft()
        for callee, looped in context.callees.items():
            callers = callee.function.called_by
            callers[context.function] = looped or callers.get(context.function, False)
            enter(callee, context)

"""Run the whole static analysis, on a stack that is deep enough for any code that Python can parse."""

from __future__ import annotations

import ast
import gc
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from dynalint.analysis import Analysis, AnalysisOptions
from dynalint.analysis.callers import note_others
from dynalint.analysis.compiler_uses import compiler_uses
from dynalint.analysis.doubts import suggests_eager
from dynalint.analysis.events import Branch, Call, CompilerUse, Event, GeneratorRoot, Position, Subscript
from dynalint.analysis.frame import Context
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.installed import Installed
from dynalint.analysis.interpreter import Interpreter
from dynalint.analysis.kinds import only_tensor
from dynalint.analysis.named_roots import unknown_roots
from dynalint.analysis.project import Project
from dynalint.analysis.region import compiled_by_calls, find_roots, mark_region, run_inherited, run_scripts
from dynalint.analysis.revision import revised
from dynalint.analysis.source import Sources
from dynalint.analysis.subscripts import index_parts
from dynalint.profiling import charged, count

T = TypeVar("T")

# The interpreter follows nested calls, and each call takes about a dozen Python frames.
_STACK_BYTES = 512 * 1024 * 1024
_RECURSION_LIMIT = 20_000


def run_analysis(
    paths: Iterable[Path],
    options: AnalysisOptions,
    overrides: Mapping[Path, str],
    watched: Callable[[str], str | None],
    sources: Sources | None,
) -> Analysis:
    """Load and interpret the project, and mark the compiled region. See `dynalint.analysis.analyze`."""
    return with_deep_stack(lambda: _analyze(list(paths), options, overrides, watched, sources))


def with_deep_stack(work: Callable[[], T]) -> T:
    """Run `work` in a thread with a large stack, and return its result or raise its exception."""
    results: list[T] = []
    faults: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as fault:  # noqa: BLE001 - handed to the caller's thread
            faults.append(fault)

    limit = sys.getrecursionlimit()
    # The trees are kept until the end, so garbage collection would only traverse them again and again.
    collecting = gc.isenabled()
    gc.disable()
    size = threading.stack_size(_STACK_BYTES)
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        thread = threading.Thread(target=run, name="dynalint-analysis", daemon=True)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
        if collecting:
            gc.enable()
    if faults:
        raise faults[0]
    return results[0]


def _analyze(
    paths: list[Path],
    options: AnalysisOptions,
    overrides: Mapping[Path, str],
    watched: Callable[[str], str | None],
    sources: Sources | None,
) -> Analysis:
    project = Project.load(
        paths, search=options.search, overrides=overrides, options=options.rule_options, sources=sources
    )
    interpreter = Interpreter(project, lambda name: watched(name) or (name if suggests_eager(name) else None))
    interpreter.installed = Installed(options.packages, project.disk, options.rule_options, watched)
    with charged("interpretation"):
        return _interpreted(project, interpreter, options)


def _interpreted(project: Project, interpreter: Interpreter, options: AnalysisOptions) -> Analysis:
    roots = find_roots(project, interpreter, options.roots)
    interpreter.run(roots)
    run_inherited(project, interpreter, roots)
    run_scripts(project, interpreter)
    compiled = [function for function in compiled_by_calls(interpreter) if function not in roots]
    interpreter.run(compiled)
    roots += compiled
    interpreter.pass_masks()
    uses = list(compiler_uses(project, interpreter))
    interpreter.run(())  # the values of the global names that this looked up may come from calls with new arguments
    interpreter.note_unsettled()
    interpreter.note_settled()
    count("interpretation", len(interpreter.contexts))
    unknown = unknown_roots(interpreter, options.roots) if project.checked else []
    return _result(project, interpreter, roots, unknown, uses)


def _result(
    project: Project, interpreter: Interpreter, roots: list[FunctionInfo], unknown: list[str], uses: list[CompilerUse]
) -> Analysis:
    """Collect the events in the region, after the interpretation."""
    contexts = mark_region(interpreter, roots)
    note_others(interpreter, contexts, roots)
    functions = list(dict.fromkeys(context.function for context in contexts))
    events = _in_order(project, [*_events(project, contexts, set(roots)), *uses])
    assert isinstance(interpreter.installed, Installed)
    budgets, installed = interpreter.budgets, interpreter.installed
    return Analysis(project, roots, functions, events, interpreter.failures, budgets, installed, unknown)


def revise_analysis(analysis: Analysis, overrides: Mapping[Path, str]) -> Analysis | None:
    """Bring an analysis up to date with other texts. See `dynalint.analysis.revise`."""
    return with_deep_stack(lambda: _revise(analysis, overrides))


def _revise(analysis: Analysis, overrides: Mapping[Path, str]) -> Analysis | None:
    project, interpreter = analysis.project, analysis.project.interpreter
    changed = [module for path in project.disk.changed(overrides) if (module := project.modules.get(path))]
    if not isinstance(interpreter, Interpreter) or not revised(project, interpreter, overrides):
        return None
    known = (event for event in analysis.events if isinstance(event, CompilerUse))
    uses = [event for event in known if event.function.module not in changed]
    uses += compiler_uses(project, interpreter, changed)
    if not interpreter.is_settled:
        return None
    return _result(project, interpreter, analysis.roots, analysis.unknown_roots, uses)


def _events(project: Project, contexts: list[Context], roots: set[FunctionInfo]) -> list[Event]:
    """Return the events in the region for the checked files, each from its most informative context."""
    order = {file: index for index, file in enumerate(project.checked)}
    found: dict[tuple[object, ...], Event] = {}
    found.update(_generators(contexts, {root for root in roots if root.file in order}))
    for context in contexts:
        if context.function.file in order:
            for key, event in context.events.items():
                known = found.setdefault(key, event)
                if known is not event and _informativeness(event) > _informativeness(known):
                    found[key] = event
    return list(found.values())


def _informativeness(event: Event) -> tuple[bool, bool, int, int]:
    """Rank an event by whether it is certain, and by how many of its values are tensors or masks."""
    if isinstance(event, Call):
        values = [*event.args, *event.keywords.values()]
    elif isinstance(event, Subscript):
        values = index_parts(event.index)
    else:
        values = [event.kind] if isinstance(event, Branch) else []
    tensors = [tensor for tensor in map(only_tensor, values) if tensor is not None]
    masks = sum(tensor.dtype == "bool" for tensor in tensors)
    return event.condition is None, not event.others, len(tensors), masks


def _in_order(project: Project, events: list[Event]) -> list[Event]:
    """Return the events sorted by file and position."""
    order = {file: index for index, file in enumerate(project.checked)}
    return sorted(events, key=lambda event: (order[event.function.file], *_place(event)))


def _generators(contexts: list[Context], roots: set[FunctionInfo]) -> Iterator[tuple[tuple[object, ...], Event]]:
    """Yield an event for each compiled function that is a generator."""
    called = {callee.function for context in contexts for callee in context.callees}
    for context in contexts:
        function, node = context.function, context.function.node
        if function in roots and isinstance(node, ast.FunctionDef) and context.yields:
            event = GeneratorRoot(
                node=node, statement=node, function=function, position=Position(), called=function in called
            )
            yield (GeneratorRoot, node), event


def _place(event: Event) -> tuple[int, int, str]:
    return event.node.lineno, event.node.col_offset, type(event).__name__

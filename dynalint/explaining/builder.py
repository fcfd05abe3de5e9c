"""Convert the worker's answer for a target to what is displayed: locations, functions and dynalint's own rules."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dynalint.config import Configuration
from dynalint.confirm import ConfirmOptions, Target
from dynalint.confirm.discoveries import CONSEQUENCES
from dynalint.confirm.located import Located
from dynalint.confirm.sources import UserSources, functions_of
from dynalint.confirm.untrusted import sentence
from dynalint.confirm.verdicts import Confirmation
from dynalint.confirm.wording import break_text
from dynalint.confirm.worker.dynamo import graph_records as told
from dynalint.confirm.worker.dynamo import records
from dynalint.confirm.worker.dynamo.records import decode
from dynalint.engine import in_project
from dynalint.explaining.model import (
    Eager,
    ExplainedBreak,
    ExplainedGraph,
    ExplainedRecompile,
    ExplainedStep,
    Explanation,
    Operator,
    OwnFinding,
    Place,
    Source,
)
from dynalint.findings import Finding
from dynalint.linting.lint import Linter
from dynalint.projects.workspace import Workspace, open_workspace
from dynalint.rules import all_rules

_LONGEST = 400


class ExplanationBuilder:
    """Builds an explanation from the worker's answer."""

    def __init__(self, parts: Mapping[str, Any], options: ConfirmOptions, workspace: Workspace) -> None:
        self._parts = parts
        self._options = options
        self._workspace = workspace
        self._sources = UserSources({os.path.realpath(path): text for path, text in options.overrides.items()})
        self._run = decode(records.Run, parts["run"])
        self._flow = decode(told.GraphFlow, parts["flow"])
        self._compiles = {one.compile_id: one for one in self._run.compiles}
        self._is_own = lru_cache(maxsize=None)(options.is_own)
        self._same = int(parts["calls"]["same"])

    def explanation(self, target: Target) -> Explanation:
        """Return the explanation. The caller fills in the versions."""
        parts, flow = self._parts, self._flow
        breaks, ended = self._breaks()
        graphs = tuple(self._graph(number, graph) for number, graph in enumerate(flow.graphs))
        fullgraph = parts.get("fullgraph")
        error = decode(records.Run, fullgraph).error if fullgraph is not None else None
        return Explanation(
            target=target.name,
            inputs=parts["inputs"],
            torch="",
            python="",
            device=self._options.device,
            calls=(self._same, int(parts["calls"]["batch"])),
            graphs=graphs,
            breaks=breaks,
            recompiles=tuple(self._recompiles()),
            eager=tuple(self._eager()),
            steps=tuple(_steps(flow, ended)),
            fullgraph=None if fullgraph is None else error is None,
            fullgraph_error="" if error is None else _failure(error),
            error=None if self._run.error is None else _failure(self._run.error),
            sources=tuple(self._source(path) for path in self._shown_files(graphs, breaks)),
        )

    def _place(self, file: str, line: int, column: int | None = None, end: int | None = None) -> Place:
        path = os.path.realpath(file)
        directory = Path(os.path.realpath(self._workspace.directory))
        shown = Path(path).relative_to(directory).as_posix() if Path(path).is_relative_to(directory) else path
        if column is None or end is None:
            return Place(shown, line)
        return Place(shown, line, *self._sources.character_columns(path, line, column, end))

    def _function(self, file: str, line: int, name: str) -> str:
        return self._sources.function_at(os.path.realpath(file), line) or name

    def _graph(self, number: int, graph: told.GraphRecord) -> ExplainedGraph:
        compiled = self._compiles.get(graph.compile_id)
        file, line, name = (compiled.file, compiled.line, compiled.function) if compiled is not None else ("", 0, "")
        resumes = name.startswith("torch_dynamo_resume")
        return ExplainedGraph(
            number=number + 1,
            function=self._function(file, line, name),
            place=self._place(file, line),
            resumes=resumes,
            call=graph.call + 1,
            operators=tuple(
                Operator(one.name, one.count, None if one.file is None else self._place(one.file, one.line))
                for one in graph.operations
            ),
            lines={self._place(path, 1).path: lines for path, lines in graph.lines.items()},
            parameters=graph.parameters,
            inputs=graph.inputs,
            outputs=graph.outputs,
            guards=graph.guards,
            replaces=compiled.recompile if compiled is not None else None,
        )

    def _breaks(self) -> tuple[tuple[ExplainedBreak, ...], dict[str, int]]:
        """Return the places that break, without duplicates, and the index of the break that ended each compilation."""
        confirmation = self._confirmation()
        numbers = {graph.compile_id: number for number, graph in enumerate(self._flow.graphs, 1)}
        found: dict[tuple[str, int, str], ExplainedBreak] = {}
        ended: dict[str, tuple[str, int, str]] = {}
        reported = [replace(one, stack=_real(one.stack)) for one in self._run.breaks]
        causes = {
            (frame.file, frame.function)
            for one in reported
            if one.gb not in CONSEQUENCES and (frame := _frame(confirmation, one))
        }
        for one, compile_id in zip(reported, self._flow.breaks, strict=True):
            frame = _frame(confirmation, one)
            if frame is None:
                continue
            key = (frame.file, frame.line, one.gb_type or one.reason)
            if key not in found:
                consequence = one.gb in CONSEQUENCES and (frame.file, frame.function) in causes
                found[key] = self._break(
                    one, frame, _rule(confirmation.attributed(one.stack, one.gb)), consequence=consequence
                )
            if compile_id in numbers:
                ended[compile_id] = key
            found[key] = self._with_effect(found[key], one.effect, compile_id, numbers)
        order = {key: number for number, key in enumerate(found)}
        return tuple(found.values()), {compile_id: order[key] for compile_id, key in ended.items()}

    def _break(
        self, one: records.Break, frame: records.StackFrame, rule: OwnFinding | None, *, consequence: bool
    ) -> ExplainedBreak:
        innermost = one.stack[-1]
        return ExplainedBreak(
            place=self._place(frame.file, frame.line, frame.column, frame.end_column),
            function=self._function(frame.file, frame.line, frame.function),
            inside="" if innermost == frame else innermost.function,
            gb=one.gb,
            type=one.gb_type,
            reason=one.reason,
            explanation=one.explanation,
            hints=one.hints,
            loses=(),
            cuts_off=(),
            ends=(),
            consequence=consequence,
            rule=rule,
        )

    def _with_effect(
        self, known: ExplainedBreak, effect: str, compile_id: str, numbers: Mapping[str, int]
    ) -> ExplainedBreak:
        """Add the effect on another frame to `known`."""
        compiled = self._compiles.get(compile_id)
        name = (
            self._function(compiled.file, compiled.line, compiled.function) if compiled is not None else known.function
        )
        if effect == "frame":
            return replace(known, loses=tuple(dict.fromkeys((*known.loses, name))))
        if effect == "rest":
            known = replace(known, cuts_off=tuple(dict.fromkeys((*known.cuts_off, name))))
        number = numbers.get(compile_id)
        return known if number is None else replace(known, ends=tuple(sorted({*known.ends, number})))

    def _confirmation(self) -> Confirmation:
        """Return dynalint's findings in the files that have breaks."""
        files = {
            frame.file
            for one in self._run.breaks
            for frame in _real(one.stack)
            if self._is_own(frame.file) and Path(frame.file).is_file()
        }
        findings = _findings(
            [Path(file) for file in sorted(files)], self._workspace.configuration, self._workspace.directory
        )
        placed = []
        for finding in findings:
            path = os.path.realpath(self._workspace.directory / finding.path)
            # Advice can be about a break that only happens under a condition. Here, the condition was met.
            broken = replace(finding, category="graph-break") if finding.category == "advice" else finding
            placed.append(Located(broken, path, self._sources.spot(path, finding)))
        return Confirmation(placed, (), self._sources, self._is_own)

    def _recompiles(self) -> list[ExplainedRecompile]:
        return [
            ExplainedRecompile(
                function=self._function(one.file, one.line, one.function),
                place=self._place(one.file, one.line),
                call=one.call + 1,
                batch=one.call >= self._same,
                guard=str(one.recompile),
            )
            for one in self._run.recompiles
        ]

    def _eager(self) -> list[Eager]:
        found = {}
        for one in self._run.compiles:
            if not one.guarded and one.fail_reason and self._is_own(os.path.realpath(one.file)):
                reason = " ".join(one.fail_reason.split("\n\n")[0].split())
                name = self._function(one.file, one.line, one.function)
                found[one.file, one.line] = Eager(name, self._place(one.file, one.line), reason)
        return list(found.values())

    def _shown_files(self, graphs: Sequence[ExplainedGraph], breaks: Sequence[ExplainedBreak]) -> list[str]:
        """Return the user's files in which code was traced or broke. Files with more traced lines come first."""
        count: dict[str, int] = {}
        for graph in graphs:
            for path, lines in graph.lines.items():
                count[path] = count.get(path, 0) + len(lines)
        for one in breaks:
            count.setdefault(one.place.path, 0)
        # The answer may be forged, so the worker must not be able to choose which files are shown.
        own = [path for path in count if self._is_own(os.path.realpath(self._workspace.directory / path))]
        return sorted(own, key=lambda path: (-count[path], path))

    def _source(self, shown: str) -> Source:
        path = os.path.realpath(self._workspace.directory / shown)
        lines = tuple(self._sources.lines(path))
        ran = self._parts["eager"]["lines"].get(path, ())
        return Source(shown, lines, frozenset(ran), tuple(functions_of("\n".join(lines))))


def _failure(error: records.RunFailure) -> str:
    return sentence(break_text(error) if error.gb_type else f"{error.type}: {error.message}")


def _steps(flow: told.GraphFlow, ended: Mapping[str, int]) -> Iterator[ExplainedStep]:
    for at, step in enumerate(flow.steps):
        yield ExplainedStep(
            graph=step.graph + 1,
            crossing=step.crossing,
            ended_by=ended.get(flow.graphs[step.graph].compile_id),
            last=at + 1 == len(flow.steps),
        )


def _real(stack: Sequence[records.StackFrame]) -> tuple[records.StackFrame, ...]:
    return tuple(replace(frame, file=os.path.realpath(frame.file)) for frame in stack)


def _frame(confirmation: Confirmation, found: records.Break) -> records.StackFrame | None:
    """Return the frame that a break is attributed to: the innermost user frame, or else the innermost frame."""
    return confirmation.own_frame(found.stack) or (found.stack[-1] if found.stack else None)


def _findings(files: list[Path], configuration: Configuration, directory: Path) -> list[Finding]:
    if not files:
        return []
    workspace, _ = open_workspace(files, configuration, directory)
    result = Linter(in_project(workspace)[0], all_rules()).lint()
    return [one.finding for one in (*result.offers.made(result.linted), *result.silenced)]


def _rule(placed: Sequence[Located]) -> OwnFinding | None:
    if not placed:
        return None
    finding = placed[0].finding
    fix = finding.fix.title if finding.fix is not None and finding.fixable else None
    return OwnFinding(finding.code, finding.name, finding.message, finding.help, fix)

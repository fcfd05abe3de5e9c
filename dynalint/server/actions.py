"""Code actions that apply a fix, add an ignore comment, apply all safe fixes, or confirm a file's findings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from dynalint.analysis.notebook import Cells
from dynalint.analysis.source import SourceFile, parse_text, read_source
from dynalint.errors import DynalintError
from dynalint.findings import Finding
from dynalint.projects.reading import is_inside
from dynalint.server import translate
from dynalint.server.analyst import AnalysedFile, silenced
from dynalint.server.documents import Opened, edited_uri, lines_of

if TYPE_CHECKING:
    from dynalint.server.session import Server

CONFIRM = "dynalint.confirm"
FIX_ALL = "source.fixAll.dynalint"

Changes = dict[str, list[types.TextEdit]]


async def code_actions(
    server: Server, parameters: types.CodeActionParams, file: Opened, seen: AnalysedFile
) -> list[types.CodeAction]:
    """Return the code actions for the findings in a range."""
    actions = []
    for finding in await server.found_in(parameters.range, parameters.text_document.uri, file, seen):
        where = server.range_of(finding, seen)
        known = [one for one in parameters.context.diagnostics if one.code == finding.code and one.range == where]
        fix = _fix_action(server, finding, file, seen)
        comment = _silence_action(server, finding, file, seen)
        for action in (fix, comment):
            if action is not None:
                action.diagnostics = known or None
                actions.append(action)
    if actions and not file.cells:
        title = "dynalint: run this file's models and confirm the findings"
        command = types.Command(title, CONFIRM, arguments=[file.uri])
        actions.append(types.CodeAction(title, kind=types.CodeActionKind.QuickFix, command=command))
    return actions


def _fix_action(server: Server, finding: Finding, file: Opened, seen: AnalysedFile) -> types.CodeAction | None:
    fix = finding.fix
    if fix is None or not finding.fixable or finding.evidence.status == "refuted":
        return None
    changes: Changes = {}
    for edit in fix.edits:
        if edit.path is None:
            where = server.range_of(edit, seen)
        elif not is_inside(server.analyst.folder / edit.path, server.analyst.folder):
            return None  # A code action must not change files outside the project.
        else:
            other = _present(server, (server.analyst.folder / edit.path).absolute())
            where = translate.span(server.workspace.position_codec, other.lines, edit)
        uri = edited_uri(edit, file, server.analyst.folder)
        changes.setdefault(uri, []).append(types.TextEdit(where, edit.content))
    return types.CodeAction(
        translate.action_title(finding, fix),
        kind=types.CodeActionKind.QuickFix,
        is_preferred=fix.safety == "safe",
        edit=types.WorkspaceEdit(changes),
    )


def _silence_action(server: Server, finding: Finding, file: Opened, seen: AnalysedFile) -> types.CodeAction | None:
    text = silenced(seen, finding)
    if text is None:
        return None
    changes = _changes(server, file, seen.file, text)
    return types.CodeAction(
        f"{finding.code}: silence with a comment", kind=types.CodeActionKind.QuickFix, edit=types.WorkspaceEdit(changes)
    )


async def fix_all(server: Server, file: Opened, seen: AnalysedFile) -> list[types.CodeAction]:
    """Return the code action that applies all safe fixes to a file."""
    files = {one.path: one for one in server.files()}
    texts = {path: one.text for path, one in files.items()}
    try:
        fixed = await asyncio.to_thread(server.analyst.fixed, texts, file.path)
    except DynalintError:
        return []
    changes: Changes = {}
    for path, text in fixed.items():
        if path != file.path and not is_inside(path, server.analyst.folder):
            return []
        other = files.get(path) or Opened(translate.uri_of(path), path, "", {})
        changes.update(_changes(server, other, _present(server, path), text))
    if not changes:
        return []
    return [types.CodeAction("dynalint: apply all safe fixes", kind=FIX_ALL, edit=types.WorkspaceEdit(changes))]


def _present(server: Server, path: Path) -> SourceFile:
    """Return a file as it is in the editor, or as it is on disk if it is not open."""
    opened = next((one for one in server.files() if one.path == path), None)
    return read_source(path) if opened is None else parse_text(path, opened.text)


def _changes(server: Server, file: Opened, before: SourceFile, text: str) -> Changes:
    """Return the edits that turn a file into `text`. In a notebook, they are grouped by cell."""
    codec = server.workspace.position_codec
    if not file.cells:
        edits = list(translate.new_text(codec, before.lines, parse_text(file.path, text).lines))
        return {file.uri: edits} if edits else {}
    after = Cells(text).codes()
    found = {
        uri: list(translate.new_text(codec, lines_of(before, cell), after.get(cell, "").split("\n")))
        for cell, uri in file.cells.items()
    }
    return {uri: edits for uri, edits in found.items() if edits}

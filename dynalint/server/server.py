"""The language server's features."""

from __future__ import annotations

import asyncio
import re

from lsprotocol import types

from dynalint.errors import DynalintError
from dynalint.rulebook.catalogue import catalogue
from dynalint.server import translate
from dynalint.server.actions import CONFIRM, FIX_ALL, code_actions, fix_all
from dynalint.server.analyst import AnalysedFile, fix_diff
from dynalint.server.documents import Opened, lines_of, place_of
from dynalint.server.session import Server

# After these notifications, open documents may be different from what was last analysed.
Changed = (
    types.DidOpenTextDocumentParams
    | types.DidChangeTextDocumentParams
    | types.DidCloseTextDocumentParams
    | types.DidSaveTextDocumentParams
    | types.DidOpenNotebookDocumentParams
    | types.DidChangeNotebookDocumentParams
    | types.DidCloseNotebookDocumentParams
    | types.DidChangeConfigurationParams
)

_CODE = re.compile(r"[A-Z]{2,}[0-9]{3}")


def make_server() -> Server:
    """Return a server with all features registered."""
    server = Server()

    @server.feature(types.INITIALIZE)
    def initialize(parameters: types.InitializeParams) -> None:
        server.start_in(parameters)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def changed(parameters: Changed) -> None:
        server.look_soon()

    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier="dynalint"),
    )
    async def diagnostics(parameters: types.DocumentDiagnosticParams) -> types.RelatedFullDocumentDiagnosticReport:
        found = await server.diagnostics(parameters.text_document.uri)
        return types.RelatedFullDocumentDiagnosticReport(found)

    kinds = [types.CodeActionKind.QuickFix, FIX_ALL]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))
    async def actions(parameters: types.CodeActionParams) -> list[types.CodeAction]:
        current = await server.current(parameters.text_document.uri)
        if current is None:
            return []
        if parameters.context.only and not any(kind.startswith("quickfix") for kind in parameters.context.only):
            if any(FIX_ALL.startswith(kind) for kind in parameters.context.only):
                return await fix_all(server, *current)
            return []
        return await code_actions(server, parameters, *current)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(parameters: types.HoverParams) -> types.Hover | None:
        current = await server.current(parameters.text_document.uri)
        return None if current is None else await _hover(server, parameters, *current)

    @server.command(CONFIRM)
    async def confirm(uri: str) -> str:
        file = server.find(uri)
        if file is None:
            return "the document is not open"
        try:
            count = await asyncio.to_thread(server.analyst.confirm, file.path)
        except DynalintError as fault:
            server.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"dynalint: {fault}"))
            return str(fault)
        await server.look()
        return f"{count} confirmed"

    return server


async def _hover(server: Server, parameters: types.HoverParams, file: Opened, seen: AnalysedFile) -> types.Hover | None:
    """Return the hover text for the findings at a position, or for the rule code at that position."""
    at = types.Range(parameters.position, parameters.position)
    uri = parameters.text_document.uri
    found = await server.found_in(at, uri, file, seen)
    texts = [translate.hover(finding, fix_diff(finding, seen), chain=not server.shows_related) for finding in found]
    if not texts:
        lines = lines_of(seen.file, place_of(uri, file))
        line = lines[parameters.position.line] if parameters.position.line < len(lines) else ""
        codes = [
            match[0] for match in _CODE.finditer(line) if match.start() <= parameters.position.character <= match.end()
        ]
        texts = [translate.rule_text(catalogue()[code]) for code in codes if code in catalogue()]
    if not texts:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n---\n\n".join(texts)))


def serve() -> None:
    """Serve on standard input and output until the client ends the session."""
    make_server().start_io()

"""The state of the language server: the open files and their analysis, and when to analyse them again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from dynalint import __version__
from dynalint.errors import DynalintError
from dynalint.findings import Finding
from dynalint.projects.trust import UNTRUSTED
from dynalint.server import translate
from dynalint.server.analyst import AnalysedFile, Analyst
from dynalint.server.documents import Opened, in_document, lines_of, opened

# Files are analysed after a pause in typing of this many seconds.
PAUSE = 0.3

_log = logging.getLogger(__name__)


class Server(LanguageServer):
    """Holds the open files and the last analysis of each."""

    def __init__(self) -> None:
        notebooks = types.NotebookDocumentSyncOptions(
            notebook_selector=[
                types.NotebookDocumentFilterWithCells(cells=[types.NotebookCellLanguage(language="python")])
            ]
        )
        # Sync the full text, because incremental changes count lines differently than Python.
        super().__init__("dynalint", __version__, types.TextDocumentSyncKind.Full, notebooks)
        self.analyst = Analyst(Path.cwd(), {})
        self.seen: dict[Path, AnalysedFile] = {}
        self._waiting: asyncio.Task[None] | None = None
        self._published: set[str] = set()
        self._pulls = False  # True if the client pulls diagnostics. In that case, none are pushed.
        self._refreshes = False
        self.shows_related = False  # whether the client shows the related information of diagnostics
        self._told: set[str] = set()

    def start_in(self, parameters: types.InitializeParams) -> None:
        """Use the folder and settings that the client sends."""
        folders = parameters.workspace_folders or ()
        uri = folders[0].uri if folders else parameters.root_uri
        name = to_fs_path(uri) if uri else None
        of_texts, of_workspaces = parameters.capabilities.text_document, parameters.capabilities.workspace
        self._pulls = of_texts is not None and of_texts.diagnostic is not None
        shown = (of_texts.publish_diagnostics, of_texts.diagnostic) if of_texts is not None else ()
        self.shows_related = any(one is not None and one.related_information for one in shown)
        diagnostics = of_workspaces.diagnostics if of_workspaces is not None else None
        self._refreshes = diagnostics is not None and bool(diagnostics.refresh_support)
        options = parameters.initialization_options
        settings = options.get("settings", {}) if isinstance(options, dict) else {}
        self.analyst = Analyst(Path(name) if name else Path.cwd(), settings if isinstance(settings, dict) else {})

    def files(self) -> list[Opened]:
        """Return the open files."""
        return list(opened(self.workspace))

    def find(self, uri: str) -> Opened | None:
        """Return the open file that has this URI, either itself or for one of its cells."""
        return next((file for file in self.files() if uri in (file.uri, *file.cells.values())), None)

    def look_soon(self) -> None:
        """Analyse the open files after a pause in typing."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = asyncio.get_running_loop().create_task(self._look_later())

    async def _look_later(self) -> None:
        await asyncio.sleep(PAUSE)
        await self.look()

    async def look(self) -> None:
        """Analyse the open files. Publish the results unless the files have changed in the meantime."""
        files = self.files()
        texts = {file.path: file.text for file in files}
        try:
            seen = await asyncio.to_thread(self.analyst.look, texts)
        except DynalintError as fault:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"dynalint: {fault}"))
            seen = {}
        except Exception:  # noqa: BLE001 - the server keeps running
            _log.exception("dynalint failed on the open files")
            return
        self._warn_ignored()
        if texts == {file.path: file.text for file in self.files()}:
            changed = _findings(self.seen) != _findings(seen)
            self.seen = seen
            if not self._pulls:
                self._publish(files)
            elif self._refreshes and changed:
                self.workspace_diagnostic_refresh(None)

    def _warn_ignored(self) -> None:
        """Warn once about each setting that is ignored because the project is not trusted."""
        for asked in self.analyst.ignored:
            text = f"dynalint: {asked.described} ({asked.place}) has no effect, {UNTRUSTED}."
            if text not in self._told:
                self._told.add(text)
                self.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))

    async def current(self, uri: str) -> tuple[Opened, AnalysedFile] | None:
        """Return an open file and the analysis of its current text, or None if either is not available."""
        file = self.find(uri)
        if file is None:
            return None
        if file.path not in self.seen or self.seen[file.path].file.text != file.text:
            await self.look()
        seen = self.seen.get(file.path)
        return (file, seen) if seen is not None and seen.file.text == file.text else None

    def range_of(self, finding: Any, seen: AnalysedFile) -> types.Range:
        """Return the range of a finding or edit in the analysed text."""
        return translate.span(self.workspace.position_codec, lines_of(seen.file, finding.cell), finding)

    async def found_in(self, place: types.Range, uri: str, file: Opened, seen: AnalysedFile) -> list[Finding]:
        """Return the findings in a range of a document, and compute their fixes."""
        found = [one for one in seen.findings if in_document(one, seen, file, uri)]
        found = [one for one in found if translate.within(self.range_of(one, seen), place)]
        return await asyncio.to_thread(self.analyst.with_fixes, seen, found)

    def _publish(self, files: list[Opened]) -> None:
        found: dict[str, list[types.Diagnostic]] = {}
        for file in files:
            found.setdefault(file.uri, [])
            found.update({uri: [] for uri in file.cells.values()})
            seen = self.seen.get(file.path)
            if seen is None:
                continue
            for finding in seen.findings:
                found.setdefault(file.uri_at(finding.cell), []).append(self.diagnostic(finding, seen))
        for uri in self._published - set(found):
            found[uri] = []
        self._published = {uri for uri, diagnostics in found.items() if diagnostics}
        for uri, diagnostics in found.items():
            document = self.workspace.text_documents.get(uri)
            version = document.version if document is not None else None
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))

    async def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """Return a document's diagnostics, or an empty list if it is not open."""
        current = await self.current(uri)
        if current is None:
            return []
        file, seen = current
        return [self.diagnostic(one, seen) for one in seen.findings if in_document(one, seen, file, uri)]

    def diagnostic(self, finding: Finding, seen: AnalysedFile) -> types.Diagnostic:
        """Return the diagnostic for a finding."""
        return translate.diagnostic(finding, self.range_of(finding, seen), self._locate)

    def _locate(self, path: str) -> str:
        return translate.uri_of((self.analyst.folder / path).absolute())


def _findings(seen: Mapping[Path, AnalysedFile]) -> dict[Path, tuple[Finding, ...]]:
    return {path: one.findings for path, one in seen.items()}

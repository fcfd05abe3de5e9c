"""The language server, driven by a client over the protocol as an editor does."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.io_ import run_async
from pygls.lsp.client import LanguageClient

from dynalint.config import Settings
from tests import forking

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("é𝄞", x)
        if x.sum() > 0:
            return x * 2
        return -x
"""

# A server that says nothing for so long will never say anything.
LIMIT = 60

Diagnostics = list[types.Diagnostic]


class Editor:
    """A client that remembers the diagnostics it was sent."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.sent: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.refreshed: asyncio.Queue[None] = asyncio.Queue()
        self.messages: list[str] = []

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> None:
        item = types.TextDocumentItem(self.uri(name), "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, name: str, text: str) -> None:
        document = types.VersionedTextDocumentIdentifier(version=2, uri=self.uri(name))
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [whole]))

    async def diagnostics(self, uri: str) -> Diagnostics:
        """The next diagnostics for a document."""
        while True:
            sent = await self.sent.get()
            if sent.uri == uri:
                return list(sent.diagnostics)

    async def pull(self, uri: str) -> Diagnostics:
        """The diagnostics for a document, as the editor asks for them."""
        report = await self.client.text_document_diagnostic_async(
            types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
        )
        assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
        return list(report.items)

    async def actions(self, uri: str, where: types.Range, only: list[str] | None = None) -> list[Any]:
        context = types.CodeActionContext([], only=only)
        found = await self.client.text_document_code_action_async(
            types.CodeActionParams(types.TextDocumentIdentifier(uri), where, context)
        )
        return list(found or ())

    async def hover(self, uri: str, line: int, character: int) -> str:
        found = await self.client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        )
        assert found is None or isinstance(found.contents, types.MarkupContent)
        return "" if found is None else found.contents.value


def apply(text: str, edits: Any) -> str:
    """Apply edits as an editor does that counts UTF-16 units."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(place: types.Position) -> int:
        units = lines[place.line].encode("utf-16-le")[: 2 * place.character] if place.line < len(lines) else b""
        return starts[place.line] + len(units.decode("utf-16-le"))

    for edit in sorted(edits, key=lambda one: (one.range.start.line, one.range.start.character), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


def drive(
    folder: Path,
    session: Callable[[Editor], Awaitable[None]],
    capabilities: types.ClientCapabilities | None = None,
    **options: Any,
) -> None:
    """Start a server, run a session of an editor with it, and end it in good order."""

    async def run() -> None:
        client = LanguageClient("test", "1")
        editor = Editor(client, folder)

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(sent: types.PublishDiagnosticsParams) -> None:
            editor.sent.put_nowait(sent)

        @client.feature(types.WINDOW_SHOW_MESSAGE)
        def shown(message: types.ShowMessageParams) -> None:
            editor.messages.append(message.message)

        @client.feature(types.WORKSPACE_DIAGNOSTIC_REFRESH)
        def refreshed(_: None) -> None:
            editor.refreshed.put_nowait(None)

        with forking.connected(["server"], folder) as (channel, ended):
            reader, writer = await asyncio.open_connection(sock=channel)
            client.protocol.set_writer(writer)
            listening = asyncio.create_task(run_async(threading.Event(), reader, client.protocol))
            try:
                await client.initialize_async(
                    types.InitializeParams(
                        capabilities or types.ClientCapabilities(),
                        workspace_folders=[types.WorkspaceFolder(folder.as_uri(), "work")],
                        initialization_options=options or None,
                    )
                )
                client.initialized(types.InitializedParams())
                await asyncio.wait_for(session(editor), LIMIT)
                await asyncio.wait_for(client.shutdown_async(None), LIMIT)
            finally:
                client.exit(None)
                code = await asyncio.wait_for(asyncio.to_thread(ended), LIMIT)
                writer.close()
                await asyncio.wait_for(listening, LIMIT)
            assert code == 0

    asyncio.run(run())


def test_diagnostics_as_you_type(tmp_path: Path) -> None:
    async def session(editor: Editor) -> None:
        editor.open("model.py", MODEL)
        printed, branch = await editor.diagnostics(editor.uri("model.py"))
        assert (printed.code, branch.code, branch.source) == ("DYN401", "DYN101", "dynalint")
        assert printed.range == types.Range(types.Position(6, 8), types.Position(6, 23))  # in UTF-16 units
        # The code works: in an editor, only code that fails is an error.
        assert branch.severity == types.DiagnosticSeverity.Warning
        assert branch.code_description is not None
        assert branch.code_description.href.endswith("DYN101.md")
        editor.change("model.py", MODEL.replace('print("é𝄞", x)', "pass"))
        assert [one.code for one in await editor.diagnostics(editor.uri("model.py"))] == ["DYN101"]
        editor.client.text_document_did_close(
            types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(editor.uri("model.py")))
        )
        assert await editor.diagnostics(editor.uri("model.py")) == []

    drive(tmp_path, session)


def test_diagnostics_say_of_which_version_they_are(tmp_path: Path) -> None:
    async def session(editor: Editor) -> None:
        editor.open("model.py", MODEL)
        assert (await editor.sent.get()).version == 1
        editor.change("model.py", MODEL.replace("2", "3"))
        assert (await editor.sent.get()).version == 2

    drive(tmp_path, session)


def test_an_editor_that_asks_for_diagnostics_is_sent_none(tmp_path: Path) -> None:
    capabilities = types.ClientCapabilities(
        text_document=types.TextDocumentClientCapabilities(diagnostic=types.DiagnosticClientCapabilities()),
        workspace=types.WorkspaceClientCapabilities(
            diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
        ),
    )

    async def session(editor: Editor) -> None:
        uri = editor.uri("helper.py")
        editor.open("helper.py", "def clip(x):\n    if x.sum() > 0:\n        return x\n    return -x\n")
        assert await editor.pull(uri) == []
        # Another file makes it code that is compiled: the editor hears that it should ask again.
        editor.open(
            "model.py",
            "import torch\nfrom torch import nn\nfrom helper import clip\n\n\nclass Model(nn.Module):\n"
            "    def forward(self, x: torch.Tensor) -> torch.Tensor:\n        return clip(x)\n",
        )
        found: Diagnostics = []
        while not found:
            await editor.refreshed.get()
            found = await editor.pull(uri)
        assert [one.code for one in found] == ["DYN101"]
        assert editor.sent.empty()

    drive(tmp_path, session, capabilities)


def test_what_is_rarely_compiled_is_a_hint(tmp_path: Path) -> None:
    async def session(editor: Editor) -> None:
        uri = editor.uri("test_model.py")
        editor.open("test_model.py", MODEL)
        _, branch = await editor.diagnostics(uri)
        assert branch.severity == types.DiagnosticSeverity.Hint
        assert "Rarely compiled: `Model.forward` is in a test" in branch.message.splitlines()

    drive(tmp_path, session)


def test_messages_start_with_a_capital(tmp_path: Path) -> None:
    async def session(editor: Editor) -> None:
        editor.open("model.py", MODEL.replace("x * 2", "x[x > 0]"))
        *_, selected = await editor.diagnostics(editor.uri("model.py"))
        assert selected.message.startswith("The number of elements in `x[x > 0]` depends on the data")

    drive(tmp_path, session)


@pytest.mark.parametrize("related", [False, True], ids=["chain in the hover", "chain shown by the editor"])
def test_other_files_tell_what_is_compiled(tmp_path: Path, related: bool) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\nfrom torch import nn\nfrom helper import clip\n\n\nclass Model(nn.Module):\n"
        "    def forward(self, x: torch.Tensor) -> torch.Tensor:\n        return clip(x)\n"
    )

    async def session(editor: Editor) -> None:
        editor.open("helper.py", "def clip(x):\n    if x.sum() > 0:\n        return x\n    return -x\n")
        (found,) = await editor.diagnostics(editor.uri("helper.py"))
        assert found.code == "DYN101"
        assert found.related_information is not None
        (step,) = found.related_information
        assert (step.message, step.location.uri) == ("reached from Model.forward", editor.uri("model.py"))
        text = await editor.hover(editor.uri("helper.py"), 1, 8)
        assert ("Reached from `Model.forward` → `clip`" in text) is not related

    published = types.PublishDiagnosticsClientCapabilities(related_information=related)
    texts = types.TextDocumentClientCapabilities(publish_diagnostics=published)
    drive(tmp_path, session, types.ClientCapabilities(text_document=texts))


def test_code_actions(tmp_path: Path) -> None:
    async def session(editor: Editor) -> None:
        uri = editor.uri("model.py")
        editor.open("model.py", MODEL)
        printed, branch = await editor.diagnostics(uri)
        fix, comment, run = await editor.actions(uri, printed.range)
        assert fix.title.startswith("DYN401: Print only in eager mode")
        assert fix.is_preferred
        fixed = apply(MODEL, fix.edit.changes[uri])
        assert '        if not torch.compiler.is_compiling():\n            print("é𝄞", x)\n' in fixed
        silent = apply(MODEL, comment.edit.changes[uri])
        assert silent == MODEL.replace('𝄞", x)', '𝄞", x)  # dynalint: ignore[DYN401]')
        assert "dynalint.confirm" in str(run.command)
        (fix, *_) = await editor.actions(uri, branch.range)
        assert fix.title.endswith(" (conditional)")
        assert not fix.is_preferred
        (every,) = await editor.actions(uri, printed.range, ["source.fixAll"])
        assert apply(MODEL, every.edit.changes[uri]) == fixed
        assert await editor.actions(uri, types.Range(types.Position(0, 0), types.Position(0, 0))) == []

    drive(tmp_path, session)


def test_hover(tmp_path: Path) -> None:
    async def session(editor: Editor) -> None:
        uri = editor.uri("model.py")
        editor.open("model.py", MODEL.replace("return -x", "return -x  # dynalint: ignore[DYN201]"))
        await editor.diagnostics(uri)
        text = await editor.hover(uri, 6, 10)
        # The editor shows the message itself.
        assert re.match(r"\*\*DYN401\*\* \[print-call\]\(https://\S+\)\n\n", text)
        fixed = '-    print("é𝄞", x)\n+    if not torch.compiler.is_compiling():\n+        print("é𝄞", x)\n     if x'
        assert f"```diff\n def forward(self, x: torch.Tensor) -> torch.Tensor:\n{fixed}" in text
        assert "**DYN902**" in await editor.hover(uri, 9, 25)
        assert await editor.hover(uri, 0, 0) == ""

    drive(tmp_path, session)


def test_hover_shows_distant_changes_and_lists_conditions(tmp_path: Path) -> None:
    model = (
        "from torch import Tensor, nn\n\n\nclass Model(nn.Module):\n    def forward(self, x: Tensor) -> Tensor:\n\n"
        "        if x.sum() > 0:\n            y = x * 2\n        else:\n            y = x.sqrt() + 1\n        return y\n"
    )

    async def session(editor: Editor) -> None:
        uri = editor.uri("model.py")
        editor.open("model.py", model)
        (branch,) = await editor.diagnostics(uri)
        text = await editor.hover(uri, branch.range.start.line, branch.range.start.character)
        head, _, diff = text.partition("```diff\n")
        title, *conditions = head.strip().split("\n\n")[-1].split("\n")
        assert title.startswith("Fix (conditional): ")
        assert title.endswith(", if")
        assert len(conditions) > 1
        assert all(line.startswith("* ") for line in conditions)
        assert diff.startswith("+import torch\n from torch import Tensor, nn\n...\n-if x.sum() > 0:\n")
        (fix, *_) = await editor.actions(uri, branch.range)
        assert fix.title.endswith(" (conditional)")  # a menu has no room for all conditions

    drive(tmp_path, session)


def test_notebooks(tmp_path: Path) -> None:
    head, _, body = MODEL.partition("\n\n\n")
    texts = ["%matplotlib inline\n" + head, body]
    uris = [f"vscode-notebook-cell:{(tmp_path / 'nb.ipynb').as_posix()}#{number}" for number in range(2)]

    async def session(editor: Editor) -> None:
        cells = [types.NotebookCell(types.NotebookCellKind.Code, uri) for uri in uris]
        notebook = types.NotebookDocument(editor.uri("nb.ipynb"), "jupyter-notebook", 1, cells)
        documents = [types.TextDocumentItem(uri, "python", 1, text) for uri, text in zip(uris, texts, strict=True)]
        editor.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(notebook, documents))
        printed, branch = await editor.diagnostics(uris[1])
        assert (printed.code, printed.range.start) == ("DYN401", types.Position(2, 8))
        assert branch.range.start.line == 3
        fix, comment = await editor.actions(uris[1], printed.range)
        for action, wanted in ((fix, "is_compiling"), (comment, "ignore[DYN401]")):
            assert list(action.edit.changes) == [uris[1]]
            assert wanted in apply(body, action.edit.changes[uris[1]])

    drive(tmp_path, session)


def test_settings_and_configuration(tmp_path: Path) -> None:
    async def session(editor: Editor) -> None:
        editor.open("model.py", MODEL)
        assert [one.code for one in await editor.diagnostics(editor.uri("model.py"))] == ["DYN101"]
        (tmp_path / "dynalint.toml").write_text("selct = []")
        editor.change("model.py", MODEL + "\n")
        assert await editor.diagnostics(editor.uri("model.py")) == []
        assert 'unknown key "selct"' in editor.messages[0]

    drive(tmp_path, session, settings={"select": ["DYN1"]})


@pytest.mark.dynamo
@pytest.mark.slow
def test_verdicts_of_the_last_confirmation(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)

    async def session(editor: Editor) -> None:
        uri = editor.uri("model.py")
        editor.open("model.py", MODEL)
        await editor.diagnostics(uri)
        done = await editor.client.workspace_execute_command_async(
            types.ExecuteCommandParams("dynalint.confirm", [uri])
        )
        assert done == "2 confirmed"
        _, branch = await editor.diagnostics(uri)
        assert "\nConfirmed by torch " in branch.message
        assert "GB0170" in branch.message
        editor.change("model.py", "# a line\n" + MODEL)  # verdicts stay with the code
        assert all("Confirmed by torch" in one.message for one in await editor.diagnostics(uri))
        editor.change("model.py", MODEL.replace("x.sum() > 0", "x.mean() > 0"))
        assert ["Confirmed" in one.message for one in await editor.diagnostics(uri)] == [True, False]

    drive(tmp_path, session)
    cache = Settings(root=tmp_path).cache_location
    assert cache is not None
    held = json.loads((cache / "last/findings.json").read_text())
    assert [one["status"] for one in held["model.py"].values()] == ["confirmed", "confirmed"]


@pytest.mark.slow
def test_the_settings_of_an_editor_start_nothing_in_a_project_that_nobody_trusts(tmp_path: Path) -> None:
    # Some editors take them from a file in the project.
    mark = tmp_path / "ran"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    evil.chmod(0o755)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "dynalint.toml").write_text('confirm = "always"\ncache-dir = "kept"\n')

    async def session(editor: Editor) -> None:
        uri = editor.uri("model.py")
        editor.open("model.py", MODEL)
        await editor.diagnostics(uri)
        await editor.client.workspace_execute_command_async(types.ExecuteCommandParams("dynalint.confirm", [uri]))
        told = editor.messages
        for setting in (
            f'`python = "{evil}"` (the editor\'s setting python)',
            '`confirm = "always"` (',
            "`cache-dir = ",
        ):
            assert any(setting in text and "not trusted" in text for text in told), told

    drive(tmp_path, session, settings={"python": str(evil)})
    assert not mark.exists()
    assert not (tmp_path / "kept").exists()


def test_without_pygls_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dynalint.cli import run

    for name in [name for name in sys.modules if name.split(".")[0] == "pygls"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.delitem(sys.modules, "dynalint.server.server", raising=False)
    assert run(["server"]) == 2
    assert "dynalint[server]" in capsys.readouterr().err

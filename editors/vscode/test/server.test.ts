/** The real server, driven over the protocol with the options of the extension. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import {
  CodeAction,
  CodeActionRequest,
  createProtocolConnection,
  DidOpenTextDocumentNotification,
  DocumentDiagnosticRequest,
  ExitNotification,
  HoverRequest,
  InitializedNotification,
  InitializeRequest,
  MarkupContent,
  ProtocolConnection,
  ShutdownRequest,
  StreamMessageReader,
  StreamMessageWriter,
} from "vscode-languageserver-protocol/node";
import { clientOptions, findCommand, serverOptions, Settings } from "../src/server";
import { dynalint, LINE, MODEL, project } from "./model";

async function drive(settings: Settings, session: (to: ProtocolConnection, uri: string) => Promise<void>) {
  const { folder, uri } = project();
  const { command, args } = serverOptions(dynalint());
  const server = spawn(command, args, { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(server, "exit");
  const to = createProtocolConnection(new StreamMessageReader(server.stdout), new StreamMessageWriter(server.stdin));
  to.listen();
  await to.sendRequest(InitializeRequest.type, {
    processId: process.pid,
    rootUri: null,
    workspaceFolders: [{ uri: pathToFileURL(folder).href, name: "project" }],
    capabilities: { textDocument: { diagnostic: {} } },
    initializationOptions: clientOptions(settings).initializationOptions,
  });
  await to.sendNotification(InitializedNotification.type, {});
  await to.sendNotification(DidOpenTextDocumentNotification.type, {
    textDocument: { uri, languageId: "python", version: 1, text: MODEL },
  });
  await session(to, uri);
  await to.sendRequest(ShutdownRequest.type);
  await to.sendNotification(ExitNotification.type);
  assert.deepEqual(await ended, [0, null]);
  to.dispose();
}

async function diagnostics(to: ProtocolConnection, uri: string) {
  const report = await to.sendRequest(DocumentDiagnosticRequest.type, { textDocument: { uri } });
  assert.equal(report.kind, "full");
  return report.items;
}

test("diagnostics, a fix and a hover come from the real server, which ends with 0", () =>
  drive({}, async (to, uri) => {
    const textDocument = { uri };
    const [found, ...more] = await diagnostics(to, uri);
    assert.ok(found !== undefined && more.length === 0);
    assert.equal(found.source, "dynalint");
    assert.equal(found.range.start.line, LINE);

    const context = { diagnostics: [found] };
    const actions = await to.sendRequest(CodeActionRequest.type, { textDocument, range: found.range, context });
    const fix = actions?.find((one): one is CodeAction => CodeAction.is(one) && one.title.includes("torch.where"));
    assert.ok(fix?.edit?.changes?.[uri]?.some((edit) => edit.newText.includes("torch.where(")), JSON.stringify(actions));

    const hover = await to.sendRequest(HoverRequest.type, { textDocument, position: found.range.start });
    assert.ok(MarkupContent.is(hover?.contents));
    assert.match(hover.contents.value, new RegExp(`\\*\\*${String(found.code)}\\*\\*[^]*\`\`\`diff[^]*torch\\.where`));
  }));

test("the settings reach the server", () =>
  drive({ exclude: ["model.py"] }, async (to, uri) => assert.deepEqual(await diagnostics(to, uri), [])));

test("a command is a name on PATH or an absolute path, and never relative to the workspace", () => {
  const { folder } = project();
  const name = process.platform === "win32" ? "linter.exe" : "linter";
  const path = join(folder, name);
  writeFileSync(path, "");
  chmodSync(path, 0o755);
  const before = process.env["PATH"];
  try {
    process.env["PATH"] = folder;
    assert.equal(findCommand("linter"), path);
    assert.equal(findCommand(path), path);
    assert.equal(findCommand("missing"), undefined);
    assert.equal(findCommand(folder), undefined);
    assert.equal(findCommand(relative(process.cwd(), path)), undefined);
    process.env["PATH"] = relative(process.cwd(), folder);
    assert.equal(findCommand("linter"), undefined);
  } finally {
    process.env["PATH"] = before;
  }
});

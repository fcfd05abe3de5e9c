/** The extension and its real language client with the real server, in a fake of VS Code. */

import assert from "node:assert/strict";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import manifest from "../package.json";
import { Editor } from "./fake";
import { dynalint, LINE, project } from "./model";

// How often, ten times a second, a test looks for what it waits for.
const LIMIT = 600;

const posix = { skip: process.platform === "win32" ? "the command is a shell script here" : false };

async function until(what: string, holds: () => boolean): Promise<void> {
  for (let rounds = 0; !holds(); rounds++) {
    assert.ok(rounds < LIMIT, `not ${what}`);
    await pause(100);
  }
}

function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** A window with a project in it, and a command that notes the ids of the processes that it becomes. */
function open(t: TestContext, script = `exec "${dynalint()}" "$@"`) {
  const { folder, file, uri } = project();
  const [command, notes] = [join(folder, "command"), join(folder, "pids")];
  writeFileSync(command, `#!/bin/sh\necho $$ >> "${notes}"\n${script}\n`);
  chmodSync(command, 0o755);
  const editor = new Editor(folder, file);
  editor.settings = { path: command };
  const extension = editor.extension();
  const context = { subscriptions: [] as { dispose(): void }[] };
  const close = async () => {
    await extension.deactivate();
    context.subscriptions.forEach((one) => one.dispose());
  };
  t.after(close);
  const pids = () => (existsSync(notes) ? readFileSync(notes, "utf8").trim().split("\n").map(Number) : []);
  return { editor, uri, command, pids, close, activate: () => extension.activate(context) as Promise<void> };
}

test("a window shows findings, and its server ends with it", posix, async (t) => {
  const { editor, uri, pids, close, activate } = open(t);
  await activate();
  await until("findings", () => editor.diagnostics.get(uri)?.length === 1);
  assert.equal(editor.diagnostics.get(uri)?.[0].range.start.line, LINE);
  await close();
  await until("ended", () => !pids().some(lives));
  assert.ok(editor.log.some((line) => line.includes("exited successfully")), editor.log.join("\n"));
  assert.deepEqual(editor.messages, []);
  assert.deepEqual([...editor.registered], []);
});

test("a cell of a notebook shows its findings", posix, async (t) => {
  const { editor, uri, activate } = open(t);
  await activate();
  await until("findings in both", () => [...editor.diagnostics.values()].flat().length === 2);
  const [cell, ...more] = [...editor.diagnostics.keys()].filter((one) => one !== uri);
  assert.match(cell ?? "", /^vscode-notebook-cell:/);
  assert.deepEqual(more, []);
});

test("the declared commands exist, and restarting replaces the server", posix, async (t) => {
  const { editor, uri, pids, activate } = open(t);
  await activate();
  for (const { command } of manifest.contributes.commands) {
    assert.ok(editor.registered.has(command), command);
  }
  await Promise.all([editor.registered.get("dynalint.restart")?.(), editor.registered.get("dynalint.restart")?.()]);
  assert.equal(pids().length, 3);
  await until("one left", () => pids().filter(lives).length === 1);
  await until("findings", () => editor.diagnostics.get(uri)?.length === 1);
});

test("settings of dynalint restart it, and others do not", posix, async (t) => {
  const { editor, uri, command, pids, activate } = open(t);
  await activate();
  await until("findings", () => editor.diagnostics.get(uri)?.length === 1);
  editor.change({ path: command }, "python");
  editor.change({ path: command, settings: { exclude: ["model.py"] } });
  await until("no findings", () => pids().length === 2 && editor.diagnostics.get(uri)?.length === 0);
  editor.change({ path: command, enable: false });
  await until("ended", () => !pids().some(lives));
  assert.equal(pids().length, 2);
});

test("a missing command is said once, with a way on", async (t) => {
  const { editor, pids, activate } = open(t);
  editor.settings = { path: "no-such-dynalint" };
  editor.answer = "Open Settings";
  await activate();
  await until("opened", () => editor.executed.length > 0);
  assert.deepEqual(editor.executed, [["workbench.action.openSettings", "dynalint.path"]]);
  assert.equal(editor.messages.length, 1);
  assert.match(editor.messages[0]?.text ?? "", /`no-such-dynalint`.*pip install 'dynalint\[server\]'.*`dynalint.path`/);
  assert.deepEqual(pids(), []);
});

test("a server that cannot start is started once, and its own reason is shown once", posix, async (t) => {
  const { editor, command, pids, activate } = open(t, "echo 'error: the server needs pygls.' >&2; exit 2");
  await activate();
  await pause(500);
  assert.deepEqual(
    editor.messages.map((one) => one.text),
    [`dynalint: \`${command} server\` did not start: the server needs pygls.`],
  );
  assert.equal(pids().length, 1);
});

test("a server that dies is started again", posix, async (t) => {
  const { editor, pids, activate } = open(t);
  await activate();
  process.kill(pids()[0] ?? 0, "SIGKILL");
  await until("started again", () => pids().length === 2 && editor.registered.has("dynalint.confirm"));
});

test("confirming saves the file and asks the server, in a trusted workspace only", posix, async (t) => {
  const { editor, uri, activate } = open(t);
  await activate();
  const confirm = () => editor.registered.get("dynalint.confirmFile")?.();
  editor.workspace.isTrusted = false;
  await confirm();
  assert.equal(editor.saved, 0);
  assert.deepEqual(editor.status, []);
  assert.match(editor.messages.pop()?.text ?? "", /not trusted/);

  editor.workspace.isTrusted = true;
  await confirm();
  assert.equal(editor.saved, 1);
  assert.deepEqual(editor.executed.at(-1), ["dynalint.confirm", uri]);
  assert.equal(editor.status.length, 1);
  // Without torch or a sandbox, it says so instead.
  assert.ok(editor.messages.length > 0 || editor.status[0] === "dynalint: 1 confirmed", editor.status[0]);
});

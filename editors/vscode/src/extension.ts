/** The extension: runs `dynalint server` as long as it is enabled, and offers two commands. */

import { commands, ExtensionContext, LogOutputChannel, ProgressLocation, window, workspace } from "vscode";
import { Client } from "./client";
import { findCommand, Settings } from "./server";

const GUIDE = "`pip install 'dynalint[server]'`";

let client: Client | undefined;
let output: LogOutputChannel;
let last: Promise<void> = Promise.resolve(); // starts and stops take their turns

export async function activate(context: ExtensionContext): Promise<void> {
  output = window.createOutputChannel("dynalint", { log: true });
  context.subscriptions.push(
    output,
    commands.registerCommand("dynalint.restart", restart),
    commands.registerCommand("dynalint.confirmFile", confirmFile),
    workspace.onDidChangeConfiguration((event) => (event.affectsConfiguration("dynalint") ? restart() : undefined)),
  );
  await restart();
}

export function deactivate(): Promise<void> {
  return (last = last.then(stop));
}

function restart(): Promise<void> {
  return (last = last.then(stop).then(start));
}

async function start(): Promise<void> {
  const settings = workspace.getConfiguration("dynalint");
  if (!settings.get<boolean>("enable", true)) {
    return;
  }
  const command = settings.get<string>("path", "dynalint");
  const path = findCommand(command);
  if (path === undefined) {
    tell(`dynalint: there is no command \`${command}\`. Run ${GUIDE}, or set \`dynalint.path\` to its absolute path.`);
    return;
  }
  const starting = new Client(path, settings.get<Settings>("settings", {}), output);
  try {
    await starting.start();
    client = starting;
  } catch (fault) {
    output.error(String(fault));
    tell(`dynalint: \`${path} server\` did not start: ${starting.said.replace(/^error: /, "") || String(fault)}`);
  }
}

async function stop(): Promise<void> {
  const running = client;
  client = undefined;
  try {
    await running?.stop();
  } catch (fault) {
    output.error(String(fault)); // it has ended already, or is ended by force
  }
}

/** Show an error with what can be done about it, and do not wait for an answer. */
function tell(message: string): void {
  const [open, show, again] = ["Open Settings", "Show Output", "Try Again"];
  void window.showErrorMessage(message, open, show, again).then((chosen) => {
    if (chosen === open) {
      return commands.executeCommand("workbench.action.openSettings", "dynalint.path");
    }
    if (chosen === show) {
      return output.show();
    }
    return chosen === again ? restart() : undefined;
  });
}

/** Save the file in the active editor, and have the server run its models. */
async function confirmFile(): Promise<void> {
  const document = window.activeTextEditor?.document;
  if (client === undefined || document?.languageId !== "python" || document.uri.scheme !== "file") {
    void window.showWarningMessage(
      client === undefined
        ? "dynalint: the server does not run. Start it with the command \"dynalint: Restart Server\"."
        : "dynalint: open a Python file to confirm its findings; cells of notebooks are not run.",
    );
    return;
  }
  if (workspace.isTrusted && document.isDirty && !(await document.save())) {
    return;
  }
  const title = "dynalint: running the models of the file";
  const uri = client.code2ProtocolConverter.asUri(document.uri);
  const answer = await window.withProgress({ location: ProgressLocation.Window, title }, () =>
    commands.executeCommand<string | undefined>("dynalint.confirm", uri),
  );
  if (answer !== undefined) {
    window.setStatusBarMessage(`dynalint: ${answer}`, 10_000);
  }
}

/** How the server is found and what it is told. Nothing here needs VS Code. */

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

const WINDOWS = process.platform === "win32";

/** Settings with the keys of `[tool.dynalint]`. */
export type Settings = Record<string, unknown>;

/**
 * Return the absolute path of a command that is named or given by an absolute path; undefined if there is none.
 *
 * Starting it by its name would not do: on Windows, that looks into the workspace before `PATH`.
 */
export function findCommand(command: string): string | undefined {
  const file = WINDOWS && !command.toLowerCase().endsWith(".exe") ? `${command}.exe` : command;
  if (isAbsolute(file)) {
    return isProgram(file) ? file : undefined;
  }
  if (/[\\/]/.test(file)) {
    return undefined;
  }
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter(isAbsolute);
  return folders.map((folder) => join(folder, file)).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Return how to start the server, which speaks on standard input and output. */
export function serverOptions(path: string) {
  return { command: path, args: ["server"] };
}

/** Return which documents the server is for, and the settings it starts with. */
export function clientOptions(settings: Settings) {
  return {
    documentSelector: [
      { scheme: "file", language: "python" },
      { scheme: "vscode-notebook-cell", language: "python" },
    ],
    initializationOptions: { settings },
  };
}

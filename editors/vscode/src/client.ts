/** The language client, which fails to start without a word: the extension says it once. */

import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { LogOutputChannel, window, workspace } from "vscode";
import { CloseAction, ErrorHandler, LanguageClient } from "vscode-languageclient/node";
import { clientOptions, serverOptions, Settings } from "./server";

// Longer than the client waits before it ends a server by force, in milliseconds.
const PATIENCE = 5000;

export class Client extends LanguageClient {
  private started = false;
  private ended: Promise<unknown> = Promise.resolve(); // standard error is

  /** The last line that the server wrote to standard error. */
  said = "";

  constructor(path: string, settings: Settings, output: LogOutputChannel) {
    super("dynalint", "dynalint", serverOptions(path), {
      ...clientOptions(settings),
      outputChannel: output,
      stdioOptions: {
        stdout: () => undefined, // it carries the protocol
        stderr: (stream) => {
          const lines = createInterface(stream).on("line", (line) => {
            this.said = line.trim() || this.said;
            output.error(line);
          });
          this.ended = once(lines, "close");
        },
      },
      initializationFailedHandler: () => false,
      errorHandler: {
        error: (error, message, count) => this.usual.error(error, message, count),
        closed: () => (this.started ? this.usual.closed() : { action: CloseAction.DoNotRestart, handled: true }),
      },
      middleware: {
        executeCommand: (command, args, next) => {
          if (workspace.isTrusted) {
            return next(command, args);
          }
          void window.showWarningMessage(
            "dynalint: confirming findings runs the code of this workspace, which is not trusted. Trust it first, with the command \"Workspaces: Manage Workspace Trust\".",
          );
          return undefined;
        },
      },
    });
  }

  private readonly usual: ErrorHandler = this.createDefaultErrorHandler();

  /** Start the server. If that fails, wait for its last words, but not for long. */
  override async start(): Promise<void> {
    try {
      await super.start();
      this.started = true;
    } catch (fault) {
      await Promise.race([this.ended, pause(PATIENCE)]);
      throw fault;
    }
  }

  override error(message: string, data?: unknown, show?: boolean | "force"): void {
    super.error(message, data, this.started ? show : false);
  }
}

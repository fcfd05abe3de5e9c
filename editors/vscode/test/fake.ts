/**
 * What the extension and its language client use of VS Code, without a window.
 *
 * What is not here is a class that does nothing, a listener that is never called or a provider that is never asked.
 */

import { EventEmitter as Emitter } from "node:events";
import { readFileSync } from "node:fs";
import Module from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

type Any = any; // eslint-disable-line -- the fake stands for an interface of thousands of lines

export class Disposable {
  constructor(readonly dispose: () => void = () => undefined) {}
  static from = (...all: Disposable[]) => new Disposable(() => all.forEach((one) => one.dispose()));
}

class EventEmitter {
  private readonly emitter = new Emitter().setMaxListeners(0);
  readonly event = (listener: (data: Any) => void, self?: unknown, into?: Disposable[]) => {
    const bound = listener.bind(self);
    this.emitter.on("event", bound);
    const end = new Disposable(() => this.emitter.off("event", bound));
    into?.push(end);
    return end;
  };
  fire = (data: Any) => void this.emitter.emit("event", data);
  dispose = () => void this.emitter.removeAllListeners();
}

class CancellationTokenSource {
  token = { isCancellationRequested: false, onCancellationRequested: () => new Disposable() };
  cancel = () => void (this.token.isCancellationRequested = true);
  dispose = () => undefined;
}

class Uri {
  private constructor(
    readonly scheme: string,
    readonly fsPath: string,
    private readonly text: string,
  ) {}
  static file = (path: string) => new Uri("file", path, pathToFileURL(path).href);
  static parse = (text: string) => {
    const { protocol } = new URL(text);
    return new Uri(protocol.slice(0, -1), protocol === "file:" ? fileURLToPath(text) : "", text);
  };
  toString = () => this.text;
}

class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
}

class Range {
  readonly start: Position;
  readonly end: Position;
  constructor(...at: [Position, Position] | [number, number, number, number]) {
    const ends = at.length === 2 ? at : [new Position(at[0], at[1]), new Position(at[2], at[3])];
    [this.start, this.end] = ends as [Position, Position];
  }
}

class TabInputText {
  constructor(readonly uri: Uri) {}
}

class TabInputNotebook extends TabInputText {}

class Diagnostic {
  constructor(
    readonly range: Range,
    readonly message: string,
    readonly severity: number,
  ) {}
}

function kind(value: string): Any {
  return { value, append: (part: string) => kind(value ? `${value}.${part}` : part) };
}

/** How VS Code holds a selector against a document, as far as it is used here. */
function match(selector: Any[], document: Any): number {
  const fits = selector.some(
    (one) =>
      one.language === document.languageId &&
      (one.scheme === undefined || one.scheme === document.uri.scheme) &&
      (one.notebookType === undefined || document.isInNotebook),
  );
  return fits ? 10 : 0;
}

/** A module of the fake: what is given, and for every other name something harmless. */
function harmless(given: Any): Any {
  const made = new Map<string, unknown>();
  return new Proxy(given, {
    get(target, name) {
      if (name in target || typeof name === "symbol") {
        return target[name];
      }
      if (!made.has(name)) {
        made.set(name, /^[A-Z]/.test(name) ? class {} : () => new Disposable());
      }
      return made.get(name);
    },
  });
}

/** A window of VS Code with a file open and a notebook with the same text, and what happened there. */
export class Editor {
  readonly registered = new Map<string, (...args: Any[]) => Any>();
  readonly messages: { text: string; choices: string[] }[] = [];
  readonly status: string[] = [];
  readonly executed: Any[][] = [];
  readonly diagnostics = new Map<string, Any[]>();
  readonly log: string[] = [];
  settings: Record<string, unknown> = {};
  answer: string | undefined; // what the user chooses in messages
  saved = 0;
  readonly workspace: Any;
  private readonly changed = new EventEmitter();

  constructor(folder: string, file: string) {
    const text = readFileSync(file, "utf8");
    const document = {
      uri: Uri.file(file),
      languageId: "python",
      version: 1,
      isDirty: true,
      getText: () => text,
      save: async () => ++this.saved > 0,
    };
    const inCell = { ...document, uri: Uri.parse(`vscode-notebook-cell:${file}#0`), isInNotebook: true };
    const notebook = {
      uri: Uri.file(file.replace(/py$/, "ipynb")),
      notebookType: "jupyter-notebook",
      version: 1,
      metadata: {},
      getCells: (): Any[] => [{ kind: 2, index: 0, metadata: {}, document: inCell, notebook }],
    };
    const tabs = [new TabInputText(document.uri), new TabInputNotebook(notebook.uri)].map((input) => ({ input }));
    const shown = async (message: string, ...choices: string[]) => {
      this.messages.push({ text: message, choices });
      return this.answer;
    };
    const line = (message: string) => void this.log.push(message);
    const collection = () => ({
      set: (uri: Uri, found: Any[]) => void this.diagnostics.set(uri.toString(), found),
      delete: (uri: Uri) => void this.diagnostics.delete(uri.toString()),
      clear: () => this.diagnostics.clear(),
      dispose: () => this.diagnostics.clear(),
    });
    this.workspace = harmless({
      isTrusted: true,
      textDocuments: [document, inCell],
      notebookDocuments: [notebook],
      workspaceFolders: [{ uri: Uri.file(folder), name: "project", index: 0 }],
      getConfiguration: () => ({ get: (name: string, otherwise: unknown) => this.settings[name] ?? otherwise }),
      onDidChangeConfiguration: this.changed.event,
    });
    const fake = harmless({
      version: "1.91.0",
      Disposable,
      EventEmitter,
      CancellationTokenSource,
      CancellationError: Error,
      Uri,
      Position,
      Range,
      Diagnostic,
      TabInputText,
      TabInputNotebook,
      NotebookCellKind: { Markup: 1, Code: 2 },
      LogLevel: { Trace: 1, Info: 3 },
      DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 },
      ProgressLocation: { Window: 10 },
      CodeActionKind: { Empty: kind(""), QuickFix: kind("quickfix") },
      env: harmless({ appName: "a fake of VS Code", language: "en" }),
      workspace: this.workspace,
      languages: harmless({ match, createDiagnosticCollection: collection }),
      window: harmless({
        activeTextEditor: { document },
        visibleTextEditors: [{ document }],
        tabGroups: harmless({ all: [{ tabs }] }),
        createOutputChannel: () =>
          harmless({ info: line, error: line, warn: line, debug: line, trace: line, appendLine: line, logLevel: 3 }),
        showErrorMessage: shown,
        showWarningMessage: shown,
        showInformationMessage: shown,
        setStatusBarMessage: (message: string) => void this.status.push(message),
        withProgress: (_: unknown, task: () => unknown) => task(),
      }),
      commands: harmless({
        registerCommand: (name: string, run: () => unknown) => {
          if (this.registered.has(name)) {
            throw new Error(`command '${name}' already exists`);
          }
          this.registered.set(name, run);
          return new Disposable(() => this.registered.delete(name));
        },
        executeCommand: async (name: string, ...args: unknown[]) => {
          this.executed.push([name, ...args]);
          return this.registered.get(name)?.(...args);
        },
      }),
    });
    const loader = Module as Any;
    const load = loader._load;
    loader._load = (name: string, ...rest: unknown[]) => (name === "vscode" ? fake : load(name, ...rest));
  }

  /** Load the extension afresh, as a new window does. */
  extension(): Any {
    for (const path of Object.keys(require.cache)) {
      delete require.cache[path];
    }
    return require("../src/extension");
  }

  change(settings: Record<string, unknown>, section = "dynalint"): void {
    this.settings = settings;
    this.changed.fire({ affectsConfiguration: (asked: string) => asked === section });
  }
}

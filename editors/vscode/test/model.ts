/** A file with a finding that has a fix, in a folder of its own, which is gone in the end. */

import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { findCommand } from "../src/server";

export const MODEL = `import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return -x
`;

/** The line of the finding, from 0. */
export const LINE = MODEL.split("\n").findIndex((line) => line.includes("x.sum()"));

export function project(): { folder: string; file: string; uri: string } {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "dynalint-")));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "model.py");
  writeFileSync(file, MODEL);
  return { folder, file, uri: pathToFileURL(file).href };
}

/** The real dynalint: DYNALINT, or the one on PATH. */
export function dynalint(): string {
  const path = findCommand(process.env["DYNALINT"] ?? "dynalint");
  if (path === undefined) {
    throw new Error("the tests need dynalint on PATH, with pygls: pip install 'dynalint[server]'");
  }
  return path;
}

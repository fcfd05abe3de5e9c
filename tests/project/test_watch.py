"""`dynalint check --watch`, as a process that somebody ends with Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        {}
        return x
"""


def test_every_change_is_checked(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(MODEL.format("pass"))
    command = ["check", "--static", "--watch", "--output-format", "concise", "."]
    # A shell has its background jobs ignore Ctrl-C, and what they start inherits that.
    known = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", "dynalint", *command], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "All checks passed!\n"
        model.write_text(MODEL.format("print(x, 1)"))
        assert process.stdout.readline().startswith("model.py:7:9: DYN401")
        assert process.stdout.readline().startswith("Found 1 finding")
        (tmp_path / "dynalint.toml").write_text("selct = []")  # a configuration that somebody is writing
        (tmp_path / "dynalint.toml").write_text('ignore = ["DYN4"]')
        while (line := process.stdout.readline()) != "All checks passed!\n":
            assert line.startswith(("model.py:7:9: DYN401", "Found 1 finding"))
        (tmp_path / "other.py").write_text("(")
        assert process.stdout.readline().startswith("other.py:1:1: DYN901")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        signal.signal(signal.SIGINT, known)

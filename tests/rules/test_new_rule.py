"""The rule that the tutorial shows proves itself in a rule pack, set up as the tutorial tells it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_DOCS = Path(__file__).parents[2] / "docs" / "writing-a-rule.md"


@pytest.mark.dynamo
@pytest.mark.long
def test_it_proves_itself(tmp_path: Path) -> None:
    def run(*command: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    blocks = re.findall(r"^(````?)(\w+)\n(.*?)^\1$", _DOCS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (rule, page, _, tests) = [text for _, _, text in blocks[:4]]
    pack = tmp_path / "my_rules"
    pack.mkdir()
    (pack / "__init__.py").touch()
    (pack / "square_call.py").write_text(rule)
    (pack / "square_call.md").write_text(page)
    metadata = tmp_path / "mine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[dynalint.rules]\nmine = my_rules\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\ndynalint_rules = my_rules\n")
    (tmp_path / "test_rules.py").write_text(tests)
    assert "dynalint: 3 of 3 examples ran under Dynamo" in run("pytest", "-q", "-p", "no:cacheprovider")
    assert "`torch.square` where a product would do" in run("dynalint", "rule", "XYZ101")

"""What the language server finds as a file is edited is what it would find if it started then."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.findings import Finding
from dynalint.server.analyst import Analyst
from tests.analysis.test_revision import MODEL, OPS, edited, write

TRAIN = "import torch\nfrom package.model import Model\n\nmodel = torch.compile(Model())\nmodel(torch.ones(2, 16))\n"


@pytest.fixture(autouse=True)
def no_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the collection before each new analysis, which would go through all that the process of tests holds."""
    monkeypatch.setattr("gc.collect", lambda: 0)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"package/__init__.py": "", "package/model.py": MODEL, "package/ops.py": OPS, "train.py": TRAIN}
    write(tmp_path, {**files, "pyproject.toml": "[project]\nname = 'package'\n"})
    return tmp_path


def found(analyst: Analyst, texts: Mapping[Path, str]) -> dict[Path, list[Finding]]:
    return {path: analyst.with_fixes(seen, seen.findings) for path, seen in analyst.look(texts).items()}


@pytest.mark.slow
def test_random_edits(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most edits of a function do not make the server analyse the project again."""
    made: list[object] = []

    def noted(*args: object, **named: object) -> object:
        made.append(args)
        return analyze(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("dynalint.linting.lint.analyze", noted)
    chance, analyst = random.Random(0), Analyst(project, {})
    path, other = project / "package/model.py", project / "package/ops.py"
    texts = {path: MODEL}
    found(analyst, texts)
    revised = tried = 0
    for _ in range(int(os.environ.get("DYNALINT_EDITS", "15"))):
        one = chance.choice((path, path, other))
        text = edited(texts.get(one, OPS), chance)
        if text is None:
            continue
        if chance.random() < 0.1:
            texts.pop(other, None)  # it is closed without being saved
        else:
            texts[one] = text
        del made[:]
        mine = analyst.look(texts)
        revised, tried = revised + (not made), tried + 1
        cold = Analyst(project, {})
        assert {path: seen.findings for path, seen in mine.items()} == {
            path: seen.findings for path, seen in cold.look(texts).items()
        }
        assert found(analyst, texts) == found(cold, texts)
        if chance.random() < 0.1:
            texts = {path: MODEL}
    assert revised > tried / 4


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package/ops.py", OPS.replace("x.max() > limit", "limit > 3")),
        ("package/helpers.py", "from package.model import Block\n\n\ndef use(x):\n    return Block()(x)\n"),
        ("train.py", "import torch\n"),
        ("pyproject.toml", "[project]\nname = 'package'\n\n[tool.dynalint]\nignore = ['DYN101']\n"),
    ],
)
def test_files_change_on_disk(project: Path, name: str, text: str) -> None:
    analyst, texts = Analyst(project, {}), {project / "package/model.py": MODEL, project / "train.py": TRAIN}
    found(analyst, texts)
    (project / name).write_text(text)
    texts = {path: old for path, old in texts.items() if path != project / name}
    assert found(analyst, texts) == found(Analyst(project, {}), texts)


def test_imports_are_added(project: Path) -> None:
    path = project / "package/ops.py"
    analyst = Analyst(project, {})
    found(analyst, {path: OPS})
    texts = {path: "from package.model import Block\n" + OPS.replace("x.clamp(max=limit)", "Block()(x)")}
    assert found(analyst, texts) == found(Analyst(project, {}), texts)

"""After an edit, a revised analysis must be the same as a new one."""

from __future__ import annotations

import ast
import os
import random
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.catalogue import known_codes
from dynalint.config import Configuration, Overrides
from dynalint.findings import Finding, Fix
from dynalint.lint import Linter
from dynalint.rules import all_rules
from dynalint.workspace import open_workspace

MODEL = """\
import torch
from torch import nn

from package.ops import clip, register

LIMIT = 4


class Block(nn.Module):
    '''A block.'''

    def __init__(self, size: int = 8):
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.count = 0
        self.keep = False

    @property
    def busy(self):
        return self.count > 3

    def forward(self, x: torch.Tensor, mask=None):
        y = clip(self.linear(x), LIMIT)
        if y.sum() > 0:
            y = y * 2
        return self.finish(y, mask)

    def finish(self, y, mask):
        '''Finish.'''
        if self.keep:
            print(y)
        if mask is not None:
            y = y[mask.bool()]
        return y.relu()


class Model(Block):
    def __init__(self):
        super().__init__(16)
        self.block = Block()
        self.scale = lambda t: t * 2

    @register
    def forward(self, x: torch.Tensor):
        for _ in range(3):
            x = self.block(x, x > 0)
        def shifted(t):
            return t - x.min().item()
        return self.scale(shifted(x))
"""
OPS = """\
import torch

TABLE = {}


def register(function):
    def inner(*args):
        return function(*args)
    return inner


def clip(x, limit):
    if x.max() > limit:
        x = x.clamp(max=limit)
    return x
"""
# An edit of the model (or of the operations), and whether other functions cannot notice it.
EDITS: tuple[tuple[str, str, bool], ...] = (
    ("y = y * 2", "y = y * 3", True),
    ("y = y * 2", "y = y * 3  # tripled", True),
    ("        if y.sum() > 0:", "        # positive\n        if y.sum() > 0:", True),
    ("if y.sum() > 0:", "if y.sum() > 0 and y.min().item() < 3:", True),
    ("y = y * 2", "y = y * y.max().item()", True),
    ("        return self.finish(y, mask)", "        print(y)\n        return self.finish(y, mask)", True),
    ("self.count = 0", "self.count = 0  # calls", True),
    ("x = x.clamp(max=limit)", "x = x.clamp(max=limit) + 0", True),
    ("return t - x.min().item()", "return t - x.max().item()", True),
    ("y.relu()", "y.relu().tolist()", False),  # it returns something else
    ("return self.finish(y, mask)", "return self.finish(y.sum().item(), mask)", False),  # it passes something else
    ("return self.finish(y, mask)", "return y", False),  # it calls something else
    ("self.count = 0", "self.count = 0.5", False),  # it stores something else
    ("self.count > 3", "self.count > 4", False),  # a property is read without calling it
    ("if self.keep:", "if self.busy:", False),  # it reads something else
    ("size: int = 8", "size: int = 9", False),  # a signature
    ("LIMIT = 4", "LIMIT = 5", False),
    ("'''Finish.'''", "'''Finish.\n\n        y (Tensor): a tensor\n        '''", False),  # documentation
    ("return inner", "return function", False),  # a decorator is read without calling it
    ("def finish", "def finished", False),
    ("y = y * 2", "y = y *", False),  # a syntax error
)


def linter(folder: Path) -> Linter:
    configuration = Configuration(Overrides((), isolated=True), known_codes(), folder)
    workspace, _ = open_workspace([folder], configuration, folder)
    return Linter(workspace, all_rules())


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def found(one: Linter, texts: Mapping[Path, str]) -> list[tuple[Finding, Fix | None]]:
    """Return the findings with their fixes, revised where possible."""
    return [(linted.finding, linted.finding.fix) for linted in one(texts)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path, {"package/__init__.py": "", "package/model.py": MODEL, "package/ops.py": OPS})
    return tmp_path


@pytest.fixture
def analyses(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every new analysis."""
    made: list[object] = []

    def noted(*args: object, **named: object) -> object:
        made.append(args)
        return analyze(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("dynalint.lint.analyze", noted)
    return made


@pytest.mark.parametrize(("old", "new", "by_itself"), EDITS, ids=[new.strip() for _, new, _ in EDITS])
def test_an_edit(project: Path, analyses: list[object], old: str, new: str, by_itself: bool) -> None:
    name, text = ("model", MODEL) if old in MODEL else ("ops", OPS)
    assert text.count(old) == 1
    path = project / f"package/{name}.py"
    one, edited = linter(project), {path: text.replace(old, new)}
    first = found(one, {})
    assert {finding.code for finding, _ in first} >= {"DYN101", "DYN201"}
    assert found(one, edited) == found(linter(project), edited)
    assert len(analyses) == (2 if by_itself else 3)  # one of them by the other linter
    assert found(one, {}) == first


def test_several_files_are_edited_and_one_is_edited_back(project: Path, analyses: list[object]) -> None:
    model, ops = project / "package/model.py", project / "package/ops.py"
    one = linter(project)
    found(one, {})
    both = {model: MODEL.replace("y * 2", "y * 3"), ops: OPS.replace("max=limit", "min=-limit, max=limit")}
    for texts in (both, {ops: both[ops]}, {model: both[model]}, {}):
        revised = found(one, texts)
        assert len(analyses) == 1
        assert revised == found(linter(project), texts)
        del analyses[1:]


def test_a_file_that_could_not_be_parsed_can_be_now(project: Path) -> None:
    broken = {project / "package/ops.py": "def"}
    one = linter(project)
    assert found(one, broken) != found(one, {}) == found(linter(project), {})


def test_linters_for_other_files_do_not_take_each_others_analyses(project: Path) -> None:
    model, ops = project / "package/model.py", project / "package/ops.py"
    one = linter(project)
    for files in ([model], [ops], [model, ops], [model]):
        narrow = one.narrowed(files)
        assert found(narrow, {}) == found(linter(project).narrowed(files), {})


LINES = (
    "pass",
    "print('here')",
    "zz = torch.ones(3).sum().item()",
    "self.found = 3",
    "x = x[x > 0]",
    "assert x.sum() > 0",
    "import math",
    "return x",
    "zz = lambda v: v + 1",
    "zz = helper(4)",
)


def edited(text: str, chance: random.Random) -> str | None:
    """Return the text with a random edit of a function, or None if this is no longer Python."""
    lines, tree = text.split("\n"), ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    if not functions:
        return None
    inside = ast.walk(chance.choice(functions))
    statement = chance.choice([one for one in inside if isinstance(one, ast.stmt)])
    start, end = statement.lineno - 1, statement.end_lineno or statement.lineno
    indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    kind = chance.choice(("comment", "insert", "insert", "delete", "repeat", "replace", "number"))
    if kind == "comment":
        lines.insert(start, f"{indent}# a note")
    elif kind == "insert":
        lines.insert(start, indent + chance.choice(LINES))
    elif kind == "delete":
        lines[start:end] = [f"{indent}pass"]
    elif kind == "repeat":
        lines[start:start] = lines[start:end]
    elif kind == "replace":
        old, new = chance.choice(((" + ", " - "), (" > ", " < "), (".sum()", ".max()"), ("x", "y"), ("if ", "while ")))
        lines[start] = lines[start].replace(old, new)
    else:
        lines[start] = lines[start].replace("1", "2").replace("0", "1")
    try:
        ast.parse("\n".join(lines))
    except SyntaxError:
        return None
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("DYNALINT_EDITED_PROJECTS", "6"))))
def test_random_edits(tmp_path: Path, analyses: list[object], seed: int) -> None:
    """Edit a project made of the rules' examples, which call and inherit from each other, again and again."""
    chance = random.Random(seed)
    examples = [one.code for rule in all_rules() for one in rule.page().examples if "class Model(" in one.code]
    files = {f"package/m{number}.py": textwrap.dedent(code) for number, code in enumerate(chance.sample(examples, 12))}
    user = "".join(f"from package.m{number} import Model as M{number}\n" for number in range(12)) + USER
    write(tmp_path, {**files, "package/__init__.py": "", "package/user.py": user})
    one, texts = linter(tmp_path), dict[Path, str]()
    found(one, texts)
    revised = tried = 0
    for _ in range(30):
        path = tmp_path / chance.choice([*files, "package/user.py"])
        text = edited(texts.get(path, path.read_text()), chance)
        if text is None:
            continue
        texts[path] = text
        del analyses[:]
        mine = found(one, texts)
        revised, tried = revised + (not analyses), tried + 1
        assert mine == found(linter(tmp_path), texts), (seed, path.name, text)
    assert revised > tried / 4


USER = """
import torch
from torch import nn


def helper(x):
    if torch.as_tensor(x).sum() > 0:
        return x
    return -x


class User(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([M0(), M1(), M2(), M3()])
        self.last = M4()

    def forward(self, x: torch.Tensor):
        for layer in self.layers:
            x = layer(x)
        if isinstance(x, tuple):
            x = x[0]
        return helper(self.last(x))


class Heir(M5):
    def forward(self, x):
        return helper(super().forward(x))
"""

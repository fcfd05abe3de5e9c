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
from dynalint.analysis.interpreter import Interpreter
from dynalint.analysis.kinds import STR
from dynalint.config import Configuration, Overrides
from dynalint.linting.lint import Linter
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes
from dynalint.rules import all_rules

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
    ("self.count > 3", "self.count > 4", True),  # nothing reads the property
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


def found(one: Linter, texts: Mapping[Path, str]) -> object:
    """Return all that a linter finds, with the fixes, after it has revised its last analysis if possible."""
    result = one.relint(texts)
    made = [(linted.finding, linted.finding.fix) for linted in result.offers.made(result.linted)]
    return made, [linted.finding for linted in result.silenced], result.failures, result.notes


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

    monkeypatch.setattr("dynalint.linting.lint.analyze", noted)
    return made


@pytest.mark.parametrize(("old", "new", "by_itself"), EDITS, ids=[new.strip() for _, new, _ in EDITS])
def test_an_edit(project: Path, analyses: list[object], old: str, new: str, by_itself: bool) -> None:
    name, text = ("model", MODEL) if old in MODEL else ("ops", OPS)
    assert text.count(old) == 1
    path = project / f"package/{name}.py"
    one, edited = linter(project), {path: text.replace(old, new)}
    first = found(one, {})
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


HEAD = "import torch\nfrom torch import nn\n\n\n"
NOTES = "\n".join("    # a note" for _ in range(14))
# Code with an edit that other functions can notice, or that a record of the old code would hide.
NOTICED: dict[str, tuple[str, str, str]] = {
    "a variable before it is bound": (
        HEAD + "class M(nn.Module):\n    def forward(self, h: torch.Tensor):\n"
        "        mask = h > -100\n        return h[mask].relu()\n",
        "        mask = h > -100\n",
        "        pass\n",
    ),
    "a generator": (
        HEAD + "def rows(x):\n    for y in x:\n        yield y\n\n\n"
        "@torch.compile\ndef f(x: torch.Tensor):\n    return [y + 1 for y in rows(x)]\n",
        "    for y in x:\n        yield y\n",
        "    return (y for y in x)\n",
    ),
    "a lambda below": (
        HEAD + "class M(nn.Module):\n    def helper(self, x):\n        return x\n\n"
        "    def forward(self, x: torch.Tensor, act=lambda t: t.item()):\n        return act(self.helper(x).sum())\n\n\n"
        "NORM = lambda t: t.tolist()\n\n\n@torch.compile\ndef f(x: torch.Tensor):\n    return NORM(x)\n",
        "        return x\n",
        "        # as it is\n        return x\n",
    ),
    "comments make a function large": (
        HEAD + "def pick(x, m):\n    a = 1\n    return x[m]\n\n\n@torch.compile\ndef f(x: torch.Tensor):\n"
        "    return pick(x, x > 0).sum() + pick(x, torch.arange(3)).sum()\n",
        "    a = 1\n",
        f"    a = 1\n{NOTES}\n",
    ),
    "a method that nothing calls stores a constant": (
        HEAD + "class M(nn.Module):\n    def reset(self):\n        self.limit = 5\n\n"
        "    def forward(self, x: torch.Tensor):\n        if x.sum() > self.limit:\n            return x\n        return -x\n",
        "self.limit = 5",
        "self.limit = None",
    ),
    "a test as a function": (
        HEAD + "def is_empty(t):\n    return t.numel() == 0\n\n\n@torch.compile\ndef f(x: torch.Tensor):\n"
        "    if not is_empty(x) and x.sum() > 0:\n        return x\n    return -x\n",
        "== 0",
        "> 5",
    ),
    "a nested function is compiled": (
        HEAD + "def main_loop(x):\n    def inner(t: torch.Tensor):\n        return t.item()\n    return inner(x)\n",
        "    def inner",
        "    @torch.compile\n    def inner",
    ),
    "another decorator of a nested function": (
        HEAD + "def one(f):\n    def inner(*a):\n        print(a)\n        return f(*a)\n    return inner\n\n\n"
        "def other(f):\n    def inner(*a):\n        return f(*a).tolist()\n    return inner\n\n\n"
        "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n        @one\n        def inside(t):\n"
        "            return t\n        return inside(x)\n",
        "@one",
        "@other",
    ),
    "a setting": (
        HEAD + "def switch():\n    pass\n\n\n@torch.compile\ndef f(x: torch.Tensor):\n    return x * x.sum().item()\n",
        "    pass",
        "    torch._dynamo.config.capture_scalar_outputs = True",
    ),
    "one of two stores": (
        HEAD
        + "class M(nn.Module):\n    def __init__(self, merge=True):\n        super().__init__()\n        self.merge = merge\n"
        "        self.merge = merge\n\n    def forward(self, x: torch.Tensor):\n        if self.merge and x.sum() > 0:\n"
        "            return x\n        return -x\n",
        "        self.merge = merge\n        self.merge = merge\n",
        "        self.merge = merge\n",
    ),
    "a lambda stores an attribute": (
        HEAD + "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.flag = 0\n"
        "        self.f = lambda v: setattr(self, 'flag', v)\n\n    def forward(self, x: torch.Tensor):\n"
        "        self.f(x)\n        self.f(3)\n        return x\n",
        "        self.flag = 0\n",
        "        self.flag = 0\n        print(1)\n",
    ),
    "carriage returns": (
        "# a\r# b\nimport torch\n\nLIMIT = None\n\n\n@torch.compile\ndef f(x: torch.Tensor):\n    return x[LIMIT > 0]\n",
        "LIMIT = None",
        "LIMIT = torch.ones(3)",
    ),
    "a comment looks like a call of the compiler": (
        HEAD + "def f(x: torch.Tensor):\n    return x.sum().item()\n\n\n# see `compiled`\nf(torch.ones(3))\n",
        "# see `compiled`",
        "# torch.compile(x)",
    ),
    "attributes that are handed on": (
        HEAD + "class Inner:\n    def go(self, x):\n        return x.item()\n\n\nclass Outer(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.inner, self.other = Inner(), None\n\n"
        "    def __getattr__(self, name):\n        return getattr(self.__dict__['inner'], name)\n\n"
        "    def forward(self, x: torch.Tensor):\n        return self.go(x)\n",
        "__dict__['inner']",
        "__dict__['other']",
    ),
    "a property that stands for an attribute": (
        HEAD + "class M(nn.Module):\n    def __init__(self, one=None, other=None):\n        super().__init__()\n"
        "        self.one, self.other = one, other\n\n    @property\n    def ready(self):\n"
        "        return self.one is not None\n\n    def forward(self, x: torch.Tensor):\n        if not self.ready:\n"
        "            self.one = x\n        if self.ready and x.sum() > 0:\n            return x\n        return -x\n",
        "self.one is not None",
        "self.other is not None",
    ),
    "a test for None as a function gets documentation": (
        HEAD + "def exists(v):\n    return v is not None\n\n\n@torch.compile\n"
        "def f(x: torch.Tensor, m: torch.Tensor | None = None):\n    if exists(m):\n        return x[m > 0]\n"
        "    if not exists(m) and x.sum() > 0:\n        return x\n    return -x\n",
        "    return v is not None",
        "    '''Whether it exists.'''\n    return v is not None",
    ),
    "a method changes an attribute that was tested": (
        HEAD + "class M(nn.Module):\n    def __init__(self, flag=False):\n        super().__init__()\n"
        "        self.flag = self.other = flag\n\n    def change(self):\n        self.other = True\n\n"
        "    def forward(self, x: torch.Tensor):\n        if self.flag:\n            return x\n        self.change()\n"
        "        if self.flag and x.sum() > 0:\n            return x.relu()\n        return -x\n",
        "self.other = True",
        "self.flag = True",
    ),
    "an argument whose test is known is tested no more": (
        HEAD + "class M(nn.Module):\n    def pick(self, x, m):\n        if m is None:\n            return x\n"
        "        return x[m]\n\n    def forward(self, x: torch.Tensor, m=None):\n        if m is None:\n"
        "            return self.pick(x, m)\n        return self.pick(x, x > 0)\n",
        "        if m is None:\n            return x\n        return x[m]",
        "        return x[m]",
    ),
    "the only use of a global": (
        HEAD + "class Table:\n    def get(self, x: torch.Tensor):\n        return x.item()\n\n\n"
        "class Base:\n    def get(self, x):\n        return x\n\n\nTABLE = Table()\n\n\n@torch.compile\n"
        "def f(x: torch.Tensor):\n    table = TABLE\n    return table.get(x)\n",
        "table = TABLE",
        "table = Base()",
    ),
}


@pytest.mark.parametrize("name", NOTICED)
def test_an_edit_that_is_noticed(tmp_path: Path, name: str) -> None:
    code, old, new = NOTICED[name]
    assert code.count(old) == 1
    path = tmp_path / "module.py"
    path.write_bytes(code.encode())
    one = linter(tmp_path)
    first, edit = found(one, {}), {path: code.replace(old, new)}
    assert found(one, edit) == found(linter(tmp_path), edit)
    assert found(one, {}) == first


def test_the_value_of_a_global_that_only_looking_for_compilers_finds(tmp_path: Path, analyses: list[object]) -> None:
    code = (
        HEAD + f"def make(size=None):\n{NOTES}\n    return [size]\n\n\nTABLE = make((3, make('a'))), make(2.5)\n\n\n"
        "def show():\n    return TABLE if torch.compiler.is_compiling() else None\n\n\n@torch.compile\ndef f(x: torch.Tensor):\n"
        "    make(1)\n    make()\n    return x * x.sum().item()\n"
    )
    path = tmp_path / "module.py"
    path.write_text(code)
    one, edit = linter(tmp_path), {path: code.replace("x.sum()", "x.max()")}
    found(one, {})
    assert found(one, edit) == found(linter(tmp_path), edit)
    assert len(analyses) == 2  # one of them by the other linter


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
@pytest.mark.parametrize("seed", range(int(os.environ.get("DYNALINT_EDITED_PROJECTS", "1"))))
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


CALLER = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 1

    def forward(self, x):
        return self.step(x, self.n)

    def step(self, x, n):
        {body}
        return x
"""


def test_recording_kinds_changes_nothing_for_callees(tmp_path: Path) -> None:
    """What rules ask for must not change the state from which the next edit goes on."""
    body = "\n        ".join(f"x = x + {number}" for number in range(20))
    write(tmp_path, {"net.py": CALLER.format(body=body)})
    project = analyze([tmp_path / "net.py"]).project
    interpreter = project.interpreter
    assert isinstance(interpreter, Interpreter)
    (module,) = project.modules.values()
    (cls,) = module.classes
    (callee,) = interpreter.contexts[cls.methods["step"]]
    before = dict(callee.params)
    cls.attributes["n"] = STR  # another run of `forward` passes something else
    project.kinds(cls.methods["forward"])
    assert callee.params == before
    assert interpreter.is_settled

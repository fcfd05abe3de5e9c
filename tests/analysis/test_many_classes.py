"""However many classes and callers there are, none is dropped, and what more of them tell takes nothing away."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from dynalint.analysis import Analysis, AnalysisOptions, analyze, frame
from dynalint.analysis.events import Branch, StateChange
from dynalint.analysis.kinds import only_tensor

BASE = """\
    import torch
    from torch import nn

    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.ones(())

        def forward(self, x: torch.Tensor):
            return self.finish(self.update(self.prepare(x)))

        def prepare(self, x):
            return x

        def update(self, x):
            raise NotImplementedError

        def finish(self, x):
            return x
"""
HEIR = """\
    import torch
    from base import Base

    class Heir{n}(Base):
        def prepare(self, x):
            if x.sum() > {n}:
                x = x + 1
            return x

        def update(self, x):
            if (x * self.scale).mean() > {n}:
                x = x * 2
            return x

        def finish(self, x):
            if x.max() > {n}:
                x = -x
            return x
"""


def analysed(folder: Path, files: dict[str, str]) -> Analysis:
    for name, text in files.items():
        (folder / name).write_text(textwrap.dedent(text))
    return analyze([folder / name for name in files], AnalysisOptions())


def branches(analysis: Analysis) -> set[tuple[str, int]]:
    """The branches on tensors, by file and line."""
    events = (event for event in analysis.events if isinstance(event, Branch))
    return {
        (event.function.file.path.name, event.node.lineno) for event in events if only_tensor(event.kind) is not None
    }


@pytest.mark.parametrize("heirs", [3, 12, 40])
def test_a_template_method_reaches_all_that_overrides_it(tmp_path: Path, heirs: int) -> None:
    files = {f"heir{n}.py": HEIR.format(n=n) for n in range(heirs)}
    analysis = analysed(tmp_path, {"base.py": BASE, **files})
    assert not analysis.failures
    assert branches(analysis) == {(name, line) for name in files for line in (6, 11, 16)}


def test_more_files_take_no_finding_away(tmp_path: Path) -> None:
    files = {f"heir{n}.py": HEIR.format(n=n) for n in range(10)}
    found: set[tuple[str, int]] = set()
    for many in (1, 2, 4, 7, 10):
        some = dict(list(files.items())[:many])
        now = branches(analysed(tmp_path, {"base.py": BASE, **some}))
        assert found <= now
        found = now


@pytest.mark.parametrize("held", ["[{calls}]", "nn.ModuleList([{calls}])", "nn.ModuleDict({{'a{n}': One{n}()}})"])
def test_a_container_of_many_classes_reaches_each(tmp_path: Path, held: str) -> None:
    many = range(9)
    classes = "".join(
        f"class One{n}(nn.Module):\n    def forward(self, x):\n        return helper{n}(x)\n\n"
        f"def helper{n}(x):\n    if x:\n        return x\n    return -x\n\n"
        for n in many
    )
    calls = ", ".join(f"One{n}()" for n in many)
    if "Dict" in held:
        inside = "nn.ModuleDict({" + ", ".join(f"'a{n}': One{n}()" for n in many) + "})"
        each = "self.parts.values()"
    else:
        inside, each = held.format(calls=calls), "self.parts"
    code = (
        "import torch\nfrom torch import nn\n\n" + classes + "class Model(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        self.parts = {inside}\n\n"
        "    def forward(self, x: torch.Tensor):\n"
        f"        for part in {each}:\n            x = part(x.relu())\n        return x\n"
    )
    assert len(branches(analysed(tmp_path, {"m.py": code}))) == len(many)


def test_a_helper_of_many_callers_keeps_tensors_apart_from_numbers(tmp_path: Path) -> None:
    lines = [
        f"x = x + pick(x, {value})"
        for value in ("1", "2.0", "True", "x.shape", "[1]", "(1, 2)", "len(x)", "x", "x > 0")
    ]
    code = (
        "import torch\n\n@torch.compile\ndef run(x: torch.Tensor):\n    "
        + "\n    ".join(lines)
        + "\n    return x\n\ndef pick(x, y):\n    if y:\n        return x\n    return -x\n"
    )
    assert len(branches(analysed(tmp_path, {"m.py": code}))) == 1


WRAPPED = """\
    import torch

    @torch.compile
    def run(x: torch.Tensor):
        if x.sum() > 0:
            x = -x
        return packed(x)

    def packed(value):
        if isinstance(value, dict):
            return {key: packed(one) for key, one in value.items()}
        if isinstance(value, list):
            return [packed(one) for one in value]
        return {"a": [packed(value), {"b": packed(value)}]}
"""


def test_what_wraps_itself_comes_to_an_end(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, {"m.py": WRAPPED})
    assert not analysis.failures
    assert branches(analysis) == {("m.py", 5)}


def test_a_cut_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "_MOST_RUNS", 1)
    analysis = analysed(tmp_path, {"m.py": WRAPPED})
    told = {(failure.function, failure.fault) for failure in analysis.failures}
    assert told == {("packed", "it was still called in new ways after 1 runs")}
    assert branches(analysis) == {("m.py", 5)}


def test_many_parameters_that_grow_one_after_the_other(tmp_path: Path) -> None:
    """Each run passes the name on to the next parameter."""
    names = [f"a{number}" for number in range(120)]
    defaults = ", ".join(f"{name}=None" for name in names)
    code = (
        "import torch\n\n@torch.compile\ndef run(x: torch.Tensor):\n    shift(x, 'name')\n    return x\n\n"
        f"def shift(x, {defaults}):\n    if {names[-1]} == 'name':\n        if x.sum() > 0:\n            return x\n"
        f"    return shift(x, None, {', '.join(names[:-1])})\n"
    )
    analysis = analysed(tmp_path, {"m.py": code})
    assert not analysis.failures
    assert branches(analysis) == {("m.py", 10)}


def test_a_chain_of_classes_of_which_each_makes_the_next_comes_to_an_end(tmp_path: Path) -> None:
    """Each run of the function adds one class to what it is called with."""
    count = 25
    code = "import torch\nfrom torch import nn\n\nclass Base(nn.Module):\n    def build(self):\n        return self\n"
    code += "    def next(self):\n        return self\n"
    for number in range(count):
        code += f"class C{number}(Base):\n    def next(self):\n        return C{number + 1}()\n"
    code += f"class C{count}(Base):\n    def forward(self, x):\n        if x.sum() > 0:\n            return x\n        return -x\n"
    line = code.count("\n") - 2
    code += "class Model(nn.Module):\n    def forward(self, x: torch.Tensor):\n        return walk(C0(), x)\n"
    code += (
        "def walk(part, x):\n    after = part.next().build()\n    return part(x) if after is None else walk(after, x)\n"
    )
    analysis = analysed(tmp_path, {"m.py": code})
    assert not analysis.failures
    assert branches(analysis) == {("m.py", line)}


def test_state_of_one_of_several_objects_is_changed(tmp_path: Path) -> None:
    """Which of them `self` holds does not matter: the change is told of all the same."""
    files = {
        "settings.py": "class One:\n    mode = None\n\nclass Two:\n    mode = None\n",
        "model.py": """\
            from torch import nn
            from settings import One, Two

            class Model(nn.Module):
                def __init__(self, first: bool):
                    super().__init__()
                    self.settings = One() if first else Two()

                def forward(self, x):
                    if self.settings.mode is None:
                        self.settings.mode = "plain"
                    return x
            """,
    }
    changes = [event for event in analysed(tmp_path, files).events if isinstance(event, StateChange)]
    assert [event.home.name for event in changes] == ["settings.mode"]


def test_each_heir_has_what_it_hands_to_its_base(tmp_path: Path) -> None:
    """In the constructor behind `super().__init__`, an attribute is what this one passed, not what all pass."""
    files = {
        "base.py": """\
            from torch import nn

            class Base(nn.Module):
                def __init__(self, config):
                    '''Long enough to be interpreted once for all heirs.

                    That is what it says
                    and says
                    and says
                    and says
                    and says
                    and says
                    and says
                    and says
                    and says
                    and says.
                    '''
                    super().__init__()
                    self.config = config
            """,
        **{
            f"heir{n}.py": f"""\
                import torch
                from base import Base

                class Config{n}:
                    def __init__(self):
                        self.size = {"torch.ones(())" if n else "1"}

                class Heir{n}(Base):
                    def __init__(self, config: Config{n}):
                        super().__init__(config)
                        self.size = self.config.size

                    def forward(self, x):
                        if self.size > 0:
                            x = -x
                        return x
                """
            for n in range(2)
        },
    }
    assert {path for path, _ in branches(analysed(tmp_path, files))} == {"heir1.py"}

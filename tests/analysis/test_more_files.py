"""To check more files may add findings, and must take none away."""

from __future__ import annotations

import textwrap
from itertools import combinations
from pathlib import Path

import pytest

from dynalint.analysis import AnalysisOptions, analyze
from tests.analysis.test_many_classes import branches

Files = dict[str, str]

SAMPLER = """\
    import torch
    from torch import nn

    class Sampler(nn.Module):
        def __init__(self, seed: int | None = None, careful: bool = False, order: str = "first"):
            super().__init__()
            self.seed = seed
            self.careful = careful
            self.order = order

        def forward(self, x: torch.Tensor):
            if self.seed is not None:
                if x.sum() > 1:
                    x = -x
            if self.careful:
                if x.sum() > 2:
                    x = -x
            if self.order == "last":
                if x.sum() > 3:
                    x = -x
            return x
"""
USER = """\
    from torch import nn
    from package.sampler import Sampler

    class User{n}(nn.Module):
        def __init__(self):
            super().__init__()
            self.sampler = Sampler({arguments})

        def forward(self, x):
            return self.sampler(x)
"""
HELPER = """\
    def settled(x, check: bool = False, mode: str = "plain"):
        '''Long enough to be interpreted once for all callers.

        That is what it says
        and says
        and says
        and says
        and says
        and says.
        '''
        y = x + 1
        if check:
            if x.sum() > 1:
                y = -y
        if mode == "other":
            if x.sum() > 2:
                y = -y
        if x.sum() > 3:
            y = -y
        return y
"""
CALLER = """\
    import torch
    from torch import nn
    from package.helper import settled

    class Caller{n}(nn.Module):
        def forward(self, x: torch.Tensor, check):
            return settled({arguments})
"""
ONLY = """\
    import torch

    def only(function):
        def inner(*args):
            return function(*args)
        return inner

    def _positive(x):
        if x.sum() > 0:
            return x
        return -x

    def _large(x):
        if x.max() > 9:
            return x / 9
        return x

    def _plain(x):
        return x
"""
WRAPPED = """\
    import torch
    from torch import nn
    from package.only import only, _{name}

    {name} = only(_{name})

    class Wrapped(nn.Module):
        def forward(self, x: torch.Tensor):
            return {name}(x.relu())
"""
BASE = """\
    import torch
    from torch import nn

    class Base(nn.Module):
        def __init__(self, activation, size=3):
            super().__init__()
            self.activation = activation
            self.size = size

        def forward(self, x: torch.Tensor):
            return self.finish(self.activation(x))

        def finish(self, x):
            return x * self.scale
"""
HEIR = """\
    import torch
    from package.base import Base

    def activate{n}(x):
        if x.sum() > {n}:
            return x
        return -x

    class Heir{n}(Base):
        def __init__(self):
            super().__init__(activate{n}, {n})
            self.scale = torch.ones(())

        def finish(self, x):
            if (x * self.scale).sum() > {n}:
                return x
            return -x
"""
PACKAGES: dict[str, tuple[Files, Files]] = {
    "constructors": (
        {"sampler.py": SAMPLER},
        {
            f"user{n}.py": USER.format(n=n, arguments=given)
            for n, given in enumerate(["", "3", "None, False", "order='first'", "careful=True"])
        },
    ),
    "functions": (
        {"helper.py": HELPER},
        {
            f"caller{n}.py": CALLER.format(n=n, arguments=given)
            for n, given in enumerate(["x", "x, check", "x, False", "3", "x, mode='plain'"])
        },
    ),
    "closures": (
        {"only.py": ONLY},
        {f"{name}.py": WRAPPED.format(name=name) for name in ("positive", "large", "plain")},
    ),
    "heirs": ({"base.py": BASE}, {f"heir{n}.py": HEIR.format(n=n) for n in range(5)}),
}


def found(folder: Path, files: Files) -> set[tuple[str, int]]:
    package = folder / "package"
    package.mkdir(exist_ok=True)
    for name, text in {"__init__.py": "", **files}.items():
        (package / name).write_text(textwrap.dedent(text))
    analysis = analyze([package / name for name in ["__init__.py", *files]], AnalysisOptions())
    assert not analysis.failures
    for name in files:
        (package / name).unlink()
    return branches(analysis)


@pytest.mark.parametrize("name", PACKAGES)
def test_more_files_take_nothing_away(tmp_path: Path, name: str) -> None:
    """Of all that some of the files show, nothing is missing with one more of them."""
    always, others = PACKAGES[name]
    known = {
        some: found(tmp_path, {**always, **{file: others[file] for file in some}})
        for many in range(len(others) + 1)
        for some in combinations(others, many)
    }
    for some, places in known.items():
        for file in some:
            fewer = tuple(one for one in some if one != file)
            assert known[fewer] <= places, (fewer, some)


def test_public_code_is_called_by_others_too(tmp_path: Path) -> None:
    always, others = PACKAGES["constructors"]
    assert {line for _, line in found(tmp_path, {**always, **others})} == {13, 16, 19}
    private = {
        name: text.replace("Sampler", "_Sampler") for name, text in {**always, "user0.py": others["user0.py"]}.items()
    }
    assert not {line for _, line in found(tmp_path, private)} - {13, 16, 19}

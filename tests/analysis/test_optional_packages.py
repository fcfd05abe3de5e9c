"""What runs where an optional package is not installed."""

from __future__ import annotations

import textwrap

import pytest

import dynalint

HEAD = """
import torch
from torch import nn

def slow(x):
    return x if x.sum() > 0 else -x
"""
MODEL = """
class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        {body}
"""


def lines(binding: str, body: str) -> list[str]:
    """Return the lines of a module with findings that are not advice."""
    code = HEAD + textwrap.dedent(binding) + MODEL.replace("{body}", body)
    text = code.splitlines()
    return [text[one.line - 1].strip() for one in dynalint.check_source("m.py", code) if one.category == "graph-break"]


@pytest.mark.parametrize(
    "binding",
    [
        "try:\n    from fastlib import fast\nexcept ImportError:\n    fast = slow\n",
        "try:\n    from fastlib import fast, other\nexcept ImportError:\n    fast, other = slow, None\n",
        "try:\n    from fastlib import slow as fast\nexcept ImportError:\n    fast = lambda x: slow(x)\n",
        "if find('fastlib'):\n    from fastlib import fast\nelse:\n    fast = slow\n",
        "fast = slow\ntry:\n    from fastlib import fast\nexcept ImportError:\n    pass\n",
        "def fast(x):\n    return slow(x)\ntry:\n    from fastlib import fast\nexcept ImportError:\n    pass\n",
        "try:\n    from fastlib import op\nexcept ImportError:\n    op = None\nfast = slow if op is None else op\n",
    ],
)
def test_replacement_is_followed(binding: str) -> None:
    assert lines(binding, "return fast(x)") == ["return x if x.sum() > 0 else -x"]


NONE_INSTEAD = "try:\n    import fastlib\nexcept ImportError:\n    fastlib = None\n"


@pytest.mark.parametrize(
    "binding", [NONE_INSTEAD, "fastlib = None\ntry:\n    import fastlib\nexcept ImportError:\n    pass\n"]
)
@pytest.mark.parametrize(
    "body",
    [
        "return slow(x) if fastlib is None else fastlib.run(x)",
        "return fastlib.run(x) if fastlib is not None else slow(x)",
        "return fastlib.run(x) if fastlib else slow(x)",
    ],
)
def test_both_sides_of_a_test_for_a_package_are_followed(binding: str, body: str) -> None:
    assert lines(binding, body) == ["return x if x.sum() > 0 else -x"]


def test_package_that_may_be_none_keeps_its_calls() -> None:
    body = "return x * fastlib.size(x)"
    assert lines(NONE_INSTEAD, body) == lines("import fastlib\n", body) == []
    watched = "try:\n    import numba\nexcept ImportError:\n    numba = None\n"
    assert lines(watched, "return x if numba is None else x + 1") == []


@pytest.mark.parametrize(
    "binding",
    [
        "try:\n    from torch import sin as fast\nexcept ImportError:\n    fast = slow\n",  # torch is installed
        "fast = slow\nfrom torch import sin as fast\n",
        "try:\n    from torch import sin as fast\nexcept ImportError:\n    fast = None\n",
    ],
)
def test_what_replaces_torch_does_not_run(binding: str) -> None:
    body = "return slow(x) if fast is None else fast(x)" if "None" in binding else "return fast(x)"
    assert lines(binding, body) == []


@pytest.mark.parametrize("instead", ["None", "object"])
def test_base_class_is_still_that_of_the_package(instead: str) -> None:
    code = f"""
import torch
try:
    from training import TrainingModule
except ImportError:
    TrainingModule = {instead}

class Model(TrainingModule):
    def __init__(self):
        super().__init__()
        self.scale = 2

    def forward(self, x: torch.Tensor):
        if x.sum() > 0:
            return x
        return -x
"""
    assert [one.line for one in dynalint.check_source("m.py", code)] == [14]


def test_annotation_is_still_that_of_the_package() -> None:
    binding = "try:\n    from jaxtyping import Float\nexcept ImportError:\n    Float = None\n"
    code = (
        HEAD
        + binding
        + "class Model(nn.Module):\n    def forward(self, x: Float[torch.Tensor, 'b']):\n        return x if x else -x\n"
    )
    assert [one.line for one in dynalint.check_source("m.py", code)] == [len(code.splitlines())]


def test_library_from_a_function_is_no_tensor() -> None:
    code = HEAD.replace("import torch\n", "from tools import get_torch\ntorch = get_torch()\n") + MODEL.replace(
        "{body}", "return torch.clamp(x.relu(), min=0.0) + torch.logsumexp(x, dim=-1)"
    )
    assert "DYN2" not in {one.code[:4] for one in dynalint.check_source("m.py", code)}
    other = code.replace("torch.clamp(x.relu(), min=0.0) + torch.logsumexp(x, dim=-1)", "scale.logsumexp(x.argmax())")
    found = dynalint.check_source("m.py", other.replace("def slow", "scale = get_torch()\n\ndef slow"))
    assert [one.code for one in found if one.code[:4] == "DYN2"] == ["DYN204"]

"""The module around the lines that an example is about."""

from __future__ import annotations

from textwrap import dedent, indent

_STEP = "    "

KEPT_PIECES = """\
import torch
from torch import nn


class Output:
    def __init__(self, parts, levels):
        self.parts, self.levels = parts, levels


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def features(self, x: torch.Tensor, lengths: torch.Tensor) -> Output:
        out = Output(self.fc(x), [x + 1, x + 2])
        {cut}
        return out

    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        out = self.features(x, lengths)
        return {read}
"""
"""A module that keeps a tensor in pieces: `cut` are lines of a method that makes them, `read` is what comes of them."""

KEPT_INPUTS = "[(torch.randn(4, 8), torch.tensor(lengths)) for lengths in ([2, 6], [4, 4])]"


CARRIED_LOOP = """\
def unfinished({names}):
    return {test}

def step({names}):
    {step}
    return {state}

first = {first}
if torch.compiler.is_compiling():
    {given} = torch.while_loop(unfinished, step, first)
    {tensor} = torch.where(unfinished(*first), {tensor}, first[{place}])
else:
    state = first
    while unfinished(*state):
        state = step(*state)
    {given} = state
return {tensor}
"""
"""What a loop becomes: `names` go on from round to round, `step` is its body, `tensor` that at `place` of `first`."""

"""What a loop becomes that adds one in as many rounds as there are positive elements."""


def forward(
    body: str, *, head: str = "", init: str = "self.fc = nn.Linear(8, 8)", arguments: str = "x: torch.Tensor"
) -> str:
    """Return a module with a class `Model` whose `forward` has this body.

    `head` stands after the imports of torch, `init` in the constructor, `arguments` are those of `forward` after
    `self`. The texts may be indented as suits the place that they are written in.
    """
    start = "import torch\nfrom torch import nn\n"
    head = _lines(head)
    if head:
        # Imports go with the other imports, anything else stands apart from them.
        start = head + start if head.startswith(("import ", "from ")) and "\n\n" not in head else f"{start}\n{head}"
    return (
        f"{start}\n\nclass Model(nn.Module):\n"
        f"{_STEP}def __init__(self):\n{_STEP * 2}super().__init__()\n{indent(_lines(init), _STEP * 2)}\n"
        f"{_STEP}def forward(self, {arguments}):\n{indent(_lines(body), _STEP * 2)}"
    )


def _lines(text: str) -> str:
    stripped = dedent(text).strip("\n").rstrip()
    return f"{stripped}\n" if stripped else ""

"""Look-alikes of new tensors whose gradient nothing reads."""

from __future__ import annotations

import textwrap

import pytest

from dynalint.rulebook.pages import Example
from dynalint.rules import Declined, Rewrite
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView
from dynalint_rules.torch_interfaces.requires_grad_change import RequiresGradChange

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

KEPT = []


def own(t):
    KEPT.append(t)
    return t * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.rnn = nn.GRU(8, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor, flag: bool):
"""
NEW = "t = torch.zeros(4, 8, requires_grad=True)\n"


def answer(body: str) -> Rewrite | Declined:
    code = HEAD + textwrap.indent(body, " " * 8) + "\n"
    rule = RequiresGradChange()
    found = StaticView(Case(rule, Example("x", code)), [rule]).own[0].answer
    assert isinstance(found, Rewrite | Declined)
    return found


@pytest.mark.parametrize(
    ("use", "safety"),
    [
        ("return x + t.detach()", "safe"),
        ("n = t.size(0) + t.shape[1]\nreturn x * n", "safe"),
        ("return x + t.data", "safe"),
        ("return x + t", "conditional"),
        ("return self.fc(t)", "conditional"),
        ("return self.rnn(x, t)[0]", "conditional"),
        ("return torch.cat([x, t])", "conditional"),
        ("return F.mse_loss(input=x, target=t)", "conditional"),
        ("return x + t.view(8, 4).t()", "conditional"),
        ("return x + t.to(x.device)", "conditional"),
        ("return x + (t if flag else x)", "conditional"),
        ("x += t\nreturn x", "conditional"),
        ("return x + t[0]", "conditional"),
        ("t = t + x\nreturn t", "conditional"),
        ("for one in (x, y):\n    y = y + t\nreturn y", "conditional"),
    ],
)
def test_what_only_computes(use: str, safety: str) -> None:
    found = answer(NEW + use)
    assert isinstance(found, Rewrite), found
    assert found.safety == safety


@pytest.mark.parametrize(
    "use",
    [
        "return x + t, t",
        "if flag:\n    t = t + x\nreturn t",
        "for one in (x, y):\n    t = t + one\nreturn x, t",
        "return t",
        "kept = t\nreturn x, kept",
        "return {'t': t, 'x': x + t}",
        "self.t = t\nreturn x + t",
        "KEPT.append(t)\nreturn x + t",
        "return x + own(t)",
        "return x + t.to(x.device).grad",
        "s = (x * t).sum()\ns.backward()\nreturn t.grad",
        "g, = torch.autograd.grad((x * t).sum(), t)\nreturn g",
        "g, = torch.autograd.grad((x * t).sum(), [t])\nreturn g",
        "g, = torch.autograd.grad(outputs=(x * t).sum(), inputs=(t,))\nreturn g",
        "return checkpoint(own, t)",
        "t.retain_grad()\nreturn x + t",
        "t.register_hook(print)\nreturn x + t",
        "return x + t if t.requires_grad else x",
        "return x + t if t.is_leaf else x",
        "return x + t, t.to(x.device)",
        "return x + t, (t if flag else x)",
        "return x + t, lambda: t",
        "for one in [t, x]:\n    y = one\nreturn y",
        "return x[t.long()], [t]",
        "yield t",
        "kept = [t]\nreturn x + kept[0]",
        "with torch.no_grad():\n    t.add_(x)\nreturn x + t",
    ],
)
def test_what_may_read_the_gradient(use: str) -> None:
    assert isinstance(answer(NEW + use), Declined)


@pytest.mark.parametrize(
    "made",
    [
        "t = x.requires_grad_()",
        "x.requires_grad_()\nt = x",
        "x.requires_grad = True\nt = x",
        "t = x if flag else torch.ones(8)\nt.requires_grad = True",
        "t = self.fc.weight\nt.requires_grad = False",
        "t = x.to(y.device).requires_grad_()",
        "t = torch.ones(8)\nt.requires_grad_(True)\nKEPT.append(t * 2)\nt.requires_grad = False",
    ],
)
def test_what_exists_outside(made: str) -> None:
    code = HEAD + textwrap.indent(f"{made}\nreturn y + t.detach()", " " * 8) + "\n"
    rule = RequiresGradChange()
    assert isinstance(StaticView(Case(rule, Example("x", code)), [rule]).own[-1].answer, Declined)


@pytest.mark.parametrize(
    ("made", "left"),
    [
        ("t = torch.ones(4, 8).requires_grad_(True)", "t = torch.ones(4, 8)"),
        ("t = torch.ones(4, 8).requires_grad_(requires_grad=True)", "t = torch.ones(4, 8)"),
        ("t = x.detach().requires_grad_()", "t = x.detach()"),
        ("t = torch.ones(4, 8)\nt.requires_grad = True", "t = torch.ones(4, 8)"),
        ("t = torch.ones(4, 8)\nt.requires_grad_()", "t = torch.ones(4, 8)"),
        ("t = torch.ones(4, 8)\nt.requires_grad = False", "t = torch.ones(4, 8)"),
        ("t = torch.rand(4, 8, requires_grad=True, device=x.device)", "t = torch.rand(4, 8, device=x.device)"),
        ("t = torch.tensor(0.0, requires_grad=self.training)", "t = torch.tensor(0.0)"),
    ],
)
def test_how_a_tensor_is_made(made: str, left: str) -> None:
    code = HEAD + textwrap.indent(f"{made}\nreturn self.fc(x) + t", " " * 8) + "\n"
    rule = RequiresGradChange()
    text = StaticView(Case(rule, Example("x", code)), [rule]).fixed
    assert text == HEAD + textwrap.indent(f"{left}\nreturn self.fc(x) + t", " " * 8) + "\n"

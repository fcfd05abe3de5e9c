"""Gradients that are taken halfway: what goes into the function that is differentiated, and what is declined."""

from __future__ import annotations

import textwrap

import pytest

from dynalint.rules import Declined, Example
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules.torch_interfaces.autograd_call import AutogradCall

HEAD = "import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, w: torch.Tensor, flag: bool):\n"


def study(body: str) -> Study:
    code = HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    return Study(Case(AutogradCall(), Example("x", code)), [AutogradCall()])


def fixed(body: str) -> str:
    return textwrap.dedent(study(body).fixed.removeprefix(HEAD)).rstrip("\n")


def lines(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def test_comments_and_all_results_that_are_read_later_stay() -> None:
    assert fixed("""
        y = (x * 2).requires_grad_()
        a = (y * w).sum()  # first
        # second
        b = a * 2
        c = b.exp()
        g = torch.autograd.grad(c, y, create_graph=True)[0]
        return g, a, b
    """) == lines("""
        y = x * 2
        def differentiated(y):
            a = (y * w).sum()  # first
            # second
            b = a * 2
            c = b.exp()
            return c, (a, b)
        g, (a, b) = torch.func.grad(differentiated, has_aux=True)(y)
        return g, a, b
    """)


def test_results_with_more_elements_are_summed_up() -> None:
    found = fixed("""
        y = x.detach()
        y.requires_grad = True
        g = torch.autograd.grad(
            outputs=y * w, inputs=y, grad_outputs=torch.ones_like(y * w), create_graph=True, retain_graph=True
        )[0]
        return g
    """)
    assert found == lines("""
        y = x.detach()
        def differentiated(y):
            return (y * w).sum()
        g = torch.func.grad(differentiated)(y)
        return g
    """)


def test_it_is_unsafe_where_gradients_may_be_off() -> None:
    body = "y = x.detach().requires_grad_()\ng = torch.autograd.grad(y.sum(), y)[0]\nreturn g"
    safeties = [
        study(code).own[0].answer.safety  # type: ignore[union-attr]
        for code in (body, "with torch.enable_grad():\n" + textwrap.indent(body, "    "))
    ]
    assert safeties == ["unsafe", "conditional"]


LEAF = "y = x.detach().requires_grad_()\n"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("g = torch.autograd.grad((x * w).sum(), x)[0]\nreturn g", "right before"),
        ("x.requires_grad_()\ng = torch.autograd.grad((x * w).sum(), x)[0]\nreturn g", "right before"),
        (LEAF + "return torch.autograd.grad((y * w).sum(), y)", "not assigned"),
        (LEAF + "g = torch.autograd.grad((y * w).sum(), y)\nreturn g", "not assigned"),
        (LEAF + "g = torch.autograd.grad((y * w).sum(), [y, w])[0]\nreturn g", "one local tensor"),
        (LEAF + "g = torch.autograd.grad(y * w, y, w)[0]\nreturn g", "more than a gradient"),
        (LEAF + "g = torch.autograd.grad(y * w, y, grad_outputs=w)[0]\nreturn g", "weighs the results"),
        (LEAF + "g = torch.autograd.grad(y.sum(), y, create_graph=flag)[0]\nreturn g", "one local tensor"),
        (LEAF + "g = torch.autograd.grad(y.sum(), y, allow_unused=True)[0]\nreturn g", "one local tensor"),
        (LEAF + "g = torch.autograd.grad(y.sum(), y)[0]\nreturn g * y", "is read after"),
        (LEAF + "w.add_(1)\ng = torch.autograd.grad((y * w).sum(), y)[0]\nreturn g", "more than name a result"),
        (LEAF + "z = y * 1\nz += 1\ng = torch.autograd.grad(z.sum(), y)[0]\nreturn g", "more than name a result"),
        (LEAF + "y = y * 2\ng = torch.autograd.grad(y.sum(), y)[0]\nreturn g", "right before"),
        (
            "for _ in range(2):\n    y = x.detach().requires_grad_()\n    x = torch.autograd.grad(y.sum(), y)[0]\nreturn x",
            "in a loop",
        ),
    ],
)
def test_declined(body: str, reason: str) -> None:
    answer = study(body).own[0].answer
    assert isinstance(answer, Declined), answer
    assert reason in answer.reason

"""A `break` that depends on a tensor: all iterations run, and values from before it are kept."""

from __future__ import annotations

import textwrap

import pytest

from dynalint.fix.edits import merged, plan_of, replaced
from dynalint.rules import Rewrite
from tests.rules.test_branch_rewrites import HEAD, lines, study


def longer(body: str) -> str | None:
    """Return the form of the rewrite that runs all iterations, or None."""
    view = study(body)
    answer = view.own[0].answer
    found = answer if isinstance(answer, Rewrite) else None
    while found is not None and "run all iterations" not in found.title.lower():
        found = found.otherwise
    if found is None:
        return None
    (replacements,) = merged([plan_of(found)]).values()
    text = replaced(found.replacements[0].file.text, replacements)
    return textwrap.dedent(text.removeprefix(HEAD)).rstrip("\n")


def test_values_are_kept_from_before_a_break() -> None:
    body = """
    for _ in range(4):
        new = torch.tanh(x)
        if (new - x).norm() < 1:
            break
        x = new
    return x
    """
    wanted = """
    settled = torch.zeros((), dtype=torch.bool, device=x.device)
    for _ in range(4):
        new = torch.tanh(x)
        settled = settled | ((new - x).norm() < 1)
        x = torch.where(settled, x, new)
    return x
    """
    assert longer(body) == lines(wanted)


def test_autocast_may_make_what_is_computed_narrower() -> None:
    body = """
    for _ in range(4):
        new = x @ y
        if (new - x).norm() < 1:
            break
        x = new
        y = x + 1
    return y
    """
    wanted = """
    settled = torch.zeros((), dtype=torch.bool, device=x.device)
    for _ in range(4):
        new = x @ y
        settled = settled | ((new - x).norm() < 1)
        x = torch.where(settled, x.to(new.dtype), new)
        new_y = x + 1
        y = torch.where(settled, y.to(new_y.dtype), new_y)
    return y
    """
    assert longer(body) == lines(wanted)


def test_gradients_stay_finite_after_a_search_has_converged() -> None:
    body = """
    for _ in range(4):
        size = (y - x).norm()
        if size < 0.001:
            break
        step = (y - x) / size
        x = x + step.sqrt()
    return x
    """
    wanted = """
    settled = torch.zeros((), dtype=torch.bool, device=x.device)
    for _ in range(4):
        size = (y - x).norm()
        settled = settled | (size < 0.001)
        step = (y - x) / torch.where(settled, 1, size)
        x = torch.where(settled, x, x + torch.where(settled, 1, step).sqrt())
    return x
    """
    assert longer(body) == lines(wanted)


def test_what_the_last_iteration_computed_is_kept_too() -> None:
    body = """
    for _ in range(4):
        old = x
        x = x / 2
        y = y + x
        if (x - old).norm() < 1:
            break
    return x + y
    """
    wanted = """
    settled = torch.zeros((), dtype=torch.bool, device=x.device)
    for _ in range(4):
        old = x
        x = torch.where(settled, x, x / 2)
        y = torch.where(settled, y, y + x)
        settled = settled | ((x - old).norm() < 1)
    return x + y
    """
    assert longer(body) == lines(wanted)


def test_a_name_that_an_iteration_assigns_twice_keeps_its_value_from_before_it() -> None:
    body = """
    for _ in range(4):
        x = x / 2
        x = torch.tanh(x)
        if x.norm() < 1:
            break
    return x
    """
    wanted = """
    settled = torch.zeros((), dtype=torch.bool, device=x.device)
    for _ in range(4):
        previous = x
        x = x / 2
        x = torch.where(settled, previous, torch.tanh(x))
        settled = settled | (x.norm() < 1)
    return x
    """
    assert longer(body) == lines(wanted)


@pytest.mark.parametrize(
    "body",
    [
        # The number of the iteration is used.
        "for i in range(4):\n    if x.sum() > i:\n        break\n    x = x + i\nreturn x",
        # The loop's own result is read afterwards, but may have no value.
        "for _ in range(4):\n    if x.sum() > 1:\n        break\n    z = x + 1\n    x = z\nreturn z",
        # The iteration with the `break` ends with another value than the others.
        "for _ in range(4):\n    x = x / 2\n    if x.norm() < 1:\n        break\n    x = x.clamp(min=1)\nreturn x",
        # It does more than compute.
        "for _ in range(4):\n    if x.sum() > 1:\n        break\n    y.add_(1)\n    x = x + 1\nreturn x",
        "for _ in range(4):\n    if x.sum() > 1:\n        break\n    if flag:\n        x = x + 1\nreturn x",
        # The number of iterations may differ.
        "for _ in y.tolist():\n    if x.sum() > 1:\n        break\n    x = x + 1\nreturn x",
    ],
)
def test_loops_that_stay(body: str) -> None:
    assert longer(body) is None


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("mask = y > 0.5\nif not mask.any():\n    break\ny = torch.where(mask, y / 2, y)", "conditional"),
        ("near = (y / 2 - y).abs() < 0.1\nif near.all():\n    break\ny = torch.relu_(y / 2)", "unsafe"),
        ("if ((y / 2 - y).abs() < 0.1).all():\n    break\ny = torch.relu_(y / 2)", "unsafe"),
        ("if (y / 2 - y).abs().max() < 0.1:\n    break\ny = torch.relu_(y / 2)", "unsafe"),
    ],
)
def test_only_a_mask_that_iterations_apply_shows_that_the_others_change_nothing(body: str, kept: str) -> None:
    loop = "y = x.clone()\nfor _ in range(4):\n" + textwrap.indent(body, "    ") + "\nreturn y"
    answer = study(loop).own[0].answer
    assert isinstance(answer, Rewrite)
    assert answer.title == "Leave the loop only in eager mode"
    assert answer.safety == kept

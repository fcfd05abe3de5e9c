"""Branches that compute something and also print, log, warn or check: the output and the checks move out."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.fix.edits import plan_of
from dynalint.rules import Rewrite
from dynalint_rules.side_effects.print_call import PrintCall
from tests.rules.test_branch_rewrites import fixed, lines, reason, study

GUARD = "not torch.compiler.is_compiling()"


def test_output_at_the_start_and_at_the_end_moves_out() -> None:
    body = """
    if x.sum() > 0:
        print("positive")
        x = x * 2
        print("scaled", x.sum())
        print("done")
    return x
    """
    wanted = f"""
    condition = x.sum() > 0
    if {GUARD} and condition:
        print("positive")
    x = torch.where(condition, x * 2, x)
    if {GUARD} and condition:
        print("scaled", x.sum())
        print("done")
    return x
    """
    assert fixed(body) == lines(wanted)


def test_a_check_under_a_flag_moves_out_and_keeps_its_place() -> None:
    body = """
    if x.isnan().any():
        if flag:
            raise ValueError("not a number")
        if not flag:
            print("filled")
        x = x.nan_to_num()
        y = y * 2
    return x + y
    """
    wanted = f"""
    if flag and x.isnan().any():
        raise ValueError("not a number")
    if not flag and {GUARD} and x.isnan().any():
        print("filled")
    condition = x.isnan().any()
    x = torch.where(condition, x.nan_to_num(), x)
    y = torch.where(condition, y * 2, y)
    return x + y
    """
    assert fixed(body) == lines(wanted)


def test_what_is_only_shown_moves_with_the_output() -> None:
    body = """
    if x.isnan().any():
        n = int(x.isnan().sum())
        print(f"{n} are missing")
        x = x.nan_to_num()
    return x
    """
    wanted = f"""
    if {GUARD} and x.isnan().any():
        n = int(x.isnan().sum())
        print(f"{{n}} are missing")
    x = torch.where(x.isnan().any(), x.nan_to_num(), x)
    return x
    """
    assert fixed(body) == lines(wanted)


def test_what_is_also_used_elsewhere_stays() -> None:
    body = "if x.sum() > 0:\n    n = y.sum()\n    print(n)\n    x = x * n\nreturn x"
    assert "print" in reason(body)


def test_output_that_is_guarded_already_is_guarded_once() -> None:
    body = f"""
    if x.sum() > 0:
        if {GUARD}:
            print("positive")
        x = x * 2
    return x
    """
    wanted = f"""
    condition = x.sum() > 0
    if {GUARD} and condition:
        print("positive")
    x = torch.where(condition, x * 2, x)
    return x
    """
    assert fixed(body) == lines(wanted)


@pytest.mark.parametrize(
    "body",
    [
        # Between other statements, output could show values that are not computed yet.
        "if x.sum() > 0:\n    x = x * 2\n    print(x)\n    y = y * 2\nreturn x + y",
        # The name would no longer be what was tested.
        "t = x.sum()\nif t:\n    t = t * 2\n    print(t)\nreturn t",
    ],
)
def test_what_stays_in_its_branch(body: str) -> None:
    assert reason(body)


def test_the_outputs_own_rule_does_not_guard_it_once_more() -> None:
    body = "if x.sum() > 0:\n    y = x * 2\n    print(y)\nelse:\n    y = x\nreturn y"
    view = study(body, PrintCall())
    branch = study(body).own[0].answer
    output = view.own[0].answer
    assert isinstance(branch, Rewrite)
    assert isinstance(output, Rewrite)
    places = [one for rewrite in (branch, output) for one in plan_of(rewrite)[one_file(rewrite)]]
    assert max(change.end for change in places) == plan_of(branch)[one_file(branch)][-1].end


def one_file(rewrite: Rewrite) -> Path:
    (path,) = plan_of(rewrite)
    return path

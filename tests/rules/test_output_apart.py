"""Branches that compute something and also print, log, warn or check: the output and the checks move out."""

from __future__ import annotations

import pytest

from tests.rules.test_branch_rewrites import fixed, lines, reason

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

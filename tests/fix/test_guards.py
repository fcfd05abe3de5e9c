"""Prints under a test of data: the guard before the test removes both breaks, and running it shows one graph."""

from __future__ import annotations

from pathlib import Path

from .test_sheltered import fixed


def test_a_check_of_data_that_only_prints_goes_behind_the_guard_as_a_whole(tmp_path: Path) -> None:
    result, body = fixed(
        tmp_path,
        """
        h = self.layer(x) * y
        if h.isnan().any() or h.max() > 0.1:
            print("out of range", h.max())
        return h
        """,
    )
    assert body.splitlines()[1] == "if not torch.compiler.is_compiling() and (h.isnan().any() or h.max() > 0.1):"
    assert not result.remaining
    assert {one.finding.code for one in result.fixed} == {"DYN101", "DYN401"}
    assert {one.proof.outcome for one in result.fixed if one.proof} == {"proven"}

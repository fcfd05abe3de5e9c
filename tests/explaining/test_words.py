"""Numbers as a reader sees them."""

from __future__ import annotations

import pytest

from dynalint.confirm.worker.dynamo.graph_records import Outcome, Remedy, Size, Tried
from dynalint.explaining import words
from dynalint.explaining.model import Advice


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (Size(), "no tensors"),
        (Size(1, 97), "1 tensor, 97 B"),
        (Size(3, 4100), "3 tensors, 4 KiB"),
        (Size(2, 5 << 20), "2 tensors, 5 MiB"),
    ],
)
def test_size(size: Size, text: str) -> None:
    assert words.size(size) == text


def test_what_helps_too_is_not_said_to_be_without_effect() -> None:
    best = Tried("mark_dynamic", ("line",), Outcome(1, 2, 9, 0))
    tried = (
        best,
        Tried("dynamic", ("line",), Outcome(1, 2, 9, 0)),
        Tried("capture_scalar_outputs", ("line",), Outcome(1, 2, 9, 3)),
        Tried("fullgraph", ("line",), Outcome(0, 0, 0, 0, "Unsupported: it breaks")),
        Tried("dynamic and fullgraph", ("line",), Outcome(1, 2, 9, 3)),
    )
    advice = Advice(Outcome(1, 2, 9, 3), (Remedy("settings", best, equal=True),), tried, cut_short=False)
    assert words.others(advice) == [
        "Also helps, but no more than these: dynamic.",
        "Tried without effect: capture_scalar_outputs, fullgraph.",
    ]


def test_what_was_not_compared_in_time_is_not_said_to_be_useless() -> None:
    tried = (
        Tried("dynamic", ("line",), Outcome(1, 2, 9, 0)),
        Tried("capture_scalar_outputs", ("line",), Outcome(1, 2, 9, 3)),
    )
    advice = Advice(Outcome(1, 2, 9, 3), (), tried, cut_short=True)
    assert (
        words.no_help(advice) == "Fewer breaks or recompilations with dynamic, but results were not compared in time."
    )
    assert words.others(advice) == ["Tried without effect: capture_scalar_outputs."]
    none = Advice(Outcome(1, 2, 9, 3), (), tried[1:], cut_short=False)
    assert words.no_help(none).startswith("None of the options that were tried (1)")

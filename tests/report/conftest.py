"""Findings to report on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dynalint.findings import Edit, Evidence, Finding, Fix

Make = Callable[..., Finding]


@pytest.fixture
def make() -> Make:
    """A finding of DYN101 in model.py, with any field replaced."""

    def call(line: int = 3, column: int = 12, end_column: int = 19, **fields: Any) -> Finding:
        return Finding(
            **{
                "path": "model.py",
                "line": line,
                "column": column,
                "end_line": fields.pop("end_line", line),
                "end_column": end_column,
                "code": "DYN101",
                "name": "branch-on-tensor",
                "category": "graph-break",
                "severity": "error",
                "message": "Branch on a tensor",
                **fields,
            }
        )

    return call


@pytest.fixture
def rich(make: Make) -> list[Finding]:
    """One finding of each kind, with all that can be said about them."""
    edit = Edit(3, 9, 5, 20, "return torch.where(x > 0, x, -x)")
    return [
        make(
            help="Use `torch.where`.",
            function="Model.helper",
            region=("Model.forward", "Encoder.forward", "Model.helper"),
            gb=("GB0170",),
            evidence=Evidence("confirmed", "Detected data-dependent branching.", "GB0170", "2.13.0", "breaks", 0),
            fix=Fix("Use `torch.where`", "conditional", ("both are of one shape", "one dtype"), (edit,), verified=True),
        ),
        make(
            5,
            9,
            17,
            code="DYN401",
            name="print-call",
            severity="warning",
            message="A call of `print`",
            function="Model.forward",
            region=("Model.forward",),
            fix=Fix("Guard the call", "safe", edits=(edit,)),
        ),
        make(
            5,
            9,
            17,
            code="DYN501",
            name="counter",
            category="recompile",
            message="`self.n` changes with every call",
            evidence=Evidence("confirmed", "guard failed: self.n == 0", None, "2.13.0", "passes", 3),
            fix=Fix("Keep it in a buffer", "unsafe", ("readers get a tensor",), (edit,)),
        ),
        make(
            5,
            9,
            17,
            code="DYN901",
            name="odd",
            category="advice",
            severity="info",
            message="Odd",
            evidence=Evidence("unconfirmed", "Model was not run: no inputs."),
            fix=Fix("No fix is offered", "suggestion", declined="it needs a person"),
        ),
    ]


LINES = (
    "class Model(nn.Module):",
    "    def helper(self, x):",
    "        if x.sum() > 0:",
    "            return x",
    "        print(x)",
    "        return -x",
)


@pytest.fixture
def lines() -> dict[str, tuple[str, ...]]:
    return {"model.py": LINES}

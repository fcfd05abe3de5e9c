"""Rules and cases of rules that hold for some releases of torch only."""

from __future__ import annotations

import dynalint

_CODE = """\
import time
from datetime import datetime

import torch


@torch.compile
def run(x):
    return x * time.time() * datetime.now().year
"""


def test_a_case_of_a_rule_may_hold_for_some_releases_only() -> None:
    def found(release: str) -> int:
        return len(dynalint.check_source("m.py", _CODE, settings={"torch": release, "select": ["DYN404"]}))

    assert (found("2.11"), found("2.13")) == (1, 2)

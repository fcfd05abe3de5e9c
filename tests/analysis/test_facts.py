"""What tests tell of attributes and variables: branches that contradict them are not reached, in callees either."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.analysis.events import Branch

PRELUDE = """\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.merged_adapters = []
        self.flag = False
        self.linear = nn.Linear(2, 2)

    @property
    def merged(self):
        \"\"\"Whether anything is merged.\"\"\"
        return bool(self.merged_adapters)

    def merge(self):
        self.merged_adapters.append("default")
        self.flag = True
        return 0

    def switch(self):
        return self.merge()

    def look(self):
        return len(self.merged_adapters)

"""

CASES = {
    "a test decides the same test further down": """
        if self.merged:
            if not self.merged and x.sum() > 0:
                return x
            if self.merged and x.sum() > 1:  # Branch
                return x + 1
        elif len(self.merged_adapters) > 0 and x.sum() > 2:
            return x + 2
        return x
    """,
    "after a guard that leaves": """
        if not self.merged:
            return x
        if len(self.merged_adapters) == 0:
            if x.sum() > 0:
                return -x
        if x.sum() > 1:  # Branch
            return x
    """,
    "no truth is known without a test": """
        if self.merged:
            if x.sum() > 0:  # Branch
                return -x
        elif x.sum() > 1:  # Branch
            return x
        if self.flag:
            if x.sum() > 2:  # Branch
                return -x
        elif x.sum() > 3:  # Branch
            return x
    """,
    "a store ends a fact": """
        if self.flag:
            self.flag = x.shape[0] > 1
            if not self.flag and x.sum() > 0:  # Branch
                return x
        if self.merged:
            self.merged_adapters.pop()
            if not self.merged and x.sum() > 1:  # Branch
                return x
        if not self.merged:
            self.merged_adapters[0] = "a"
            if self.merged and x.sum() > 2:  # Branch
                return x
    """,
    "so does a method that stores, by another method, and one that is not there to see": """
        if not self.merged:
            self.switch()
            if self.merged and x.sum() > 0:  # Branch
                return x
        if not self.merged:
            self.switched_on_elsewhere(x)
            if self.merged and x.sum() > 1:  # Branch
                return x
        if not self.merged:
            update(self)
            if self.merged and x.sum() > 2:  # Branch
                return x
    """,
    "a method that only looks, and a layer, do not": """
        if not self.merged:
            self.look()
            x = self.linear(x)
            if self.merged and x.sum() > 0:
                return x
    """,
    "paths that meet keep what they agree on": """
        if x.shape[0] > 1:
            if not self.merged:
                return x
        if not self.merged and x.sum() > 0:  # Branch
            return x
    """,
    "a loop that changes it": """
        while len(self.merged_adapters) > 0:
            name = self.merged_adapters.pop()
            if not self.merged and x.sum() > 0:  # Branch
                return x
        return x
    """,
    "variables": """
        deep = x.shape[0] > 1
        if deep:
            if not deep and x.sum() > 0:
                return x
            deep = x.shape[1] > 1
            if not deep and x.sum() > 1:  # Branch
                return x
    """,
}


def flagged(tmp_path: Path, code: str) -> tuple[set[int], set[int]]:
    (tmp_path / "code.py").write_text(code)
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    wanted = {number for number, line in enumerate(code.splitlines(), start=1) if re.search("# Branch", line)}
    return {event.node.lineno for event in analysis.events if isinstance(event, Branch)}, wanted


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_facts_in_a_function(tmp_path: Path, body: str) -> None:
    method = "class Model(Base):\n    def forward(self, x):\n" + textwrap.indent(textwrap.dedent(body), " " * 8)
    found, wanted = flagged(tmp_path, PRELUDE + method)
    assert found == wanted


CALLS = {
    "into a method that is called under the opposite": """
        def unmerge(self, x):
            if not self.merged:
                if x.sum() > 0:
                    return x
            if x.sum() > 1:  # Branch
                return -x

        def forward(self, x):
            if self.merged:
                self.unmerge(x)
            return x
    """,
    "unless somebody calls it otherwise": """
        def unmerge(self, x):
            if not self.merged:
                if x.sum() > 0:  # Branch
                    return x
            return x

        def forward(self, x):
            if self.merged:
                self.unmerge(x)
            self.unmerge(x)
            return x
    """,
    "a long method is one context for callers that disagree": """
        def unmerge(self, x):
            if not self.merged:
                if x.sum() > 0:  # Branch
                    return x
            x = x + 1
            x = x + 2
            x = x + 3
            x = x + 4
            x = x + 5
            x = x + 6
            x = x + 7
            x = x + 8
            x = x + 9
            if self.merged:
                if x.sum() > 1:  # Branch
                    return x
            return x

        def forward(self, x):
            if self.merged:
                self.unmerge(x)
            else:
                self.unmerge(x)
            return x
    """,
    "a long method that code outside calls as well": """
        def unmerge(self, x):
            if not self.merged:
                if x.sum() > 0:
                    return x
            x = x + 1
            x = x + 2
            x = x + 3
            x = x + 4
            x = x + 5
            x = x + 6
            x = x + 7
            x = x + 8
            x = x + 9
            self.merged_adapters = []
            return x

        def forward(self, x):
            if self.merged:
                self.unmerge(x)
            return x
    """,
    "by super, and a parameter that is passed on": """
        def helper(self, x, deep: bool):
            if deep:
                return x
            if x.sum() > 0:
                return -x
            return x

        def forward(self, x, deep: bool = False):
            if deep:
                return self.helper(x, deep)
            return x
    """,
    "what the callee does ends the fact there": """
        def unmerge(self, x):
            self.merge()
            if self.merged and x.sum() > 1:  # Branch
                return -x

        def forward(self, x):
            if not self.merged:
                self.unmerge(x)
            return x
    """,
}


@pytest.mark.parametrize("body", CALLS.values(), ids=CALLS.keys())
def test_facts_across_a_call(tmp_path: Path, body: str) -> None:
    found, wanted = flagged(
        tmp_path, PRELUDE + "class Model(Base):\n" + textwrap.indent(textwrap.dedent(body), " " * 4)
    )
    assert found == wanted

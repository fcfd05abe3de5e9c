"""What a mask selects round by round is reduced with all elements only where nothing else is done with it."""

from __future__ import annotations

import pytest

from dynalint.rules import Example
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules._shared.examples import forward
from dynalint_rules.shapes.mask_read import MaskRead

BODY = """
h, mask = self.fc(x), x > 0
found = []
for i in range(x.shape[0]):
    value = h[i][mask[i]]
    value = value.clamp(min=0.1)
    found.append(value)
found = torch.cat(found)
return found.mean()
"""


def study(body: str) -> Study:
    return Study(Case(MaskRead(), Example("x", forward(body))), [MaskRead()])


def test_a_sum_needs_no_count() -> None:
    text = study(BODY.replace("found.mean()", "found.sum() * 2")).fixed
    assert "return found.sum() * 2" in text
    assert "kept" not in text


def test_a_quotient_is_enclosed() -> None:
    assert "return (found.sum() / torch.cat(kept).sum()) * 2" in study(BODY.replace("mean()", "mean() * 2")).fixed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("found.mean()", "found"),
        ("found.mean()", "found.mean(), found.shape[0]"),
        ("found.mean()", "found.mean(0, True)"),
        ("torch.cat(found)", "torch.stack(found)"),
        ("torch.cat(found)", "torch.cat(found, 0)"),
        ("found = []", "found = [x[0]]"),
        ("found = []", "found = []\nother = found"),
        ("    found.append(value)", "    if i > 1:\n        found.append(value)"),
        ("    found.append(value)", "    found.append(value)\n    if i > 2:\n        break"),
        ("    found.append(value)", "    found.append(value)\n    found.append(value * 2)"),
        ("    found.append(value)", "    mask = mask & (x > i)\n    found.append(value)"),
        ("    found.append(value)", "    h[i] = 0\n    found.append(value)"),
        ("value.clamp(min=0.1)", "value.cumsum(0)"),
        ("value.clamp(min=0.1)", "value.pow(h[i, 0])"),
        ("value.clamp(min=0.1)", "value + value.sum()"),
        ("found.append(value)", "found.append(value[1:])"),
    ],
)
def test_declines_where_more_is_done(old: str, new: str) -> None:
    assert old in BODY
    assert study(BODY.replace(old, new)).declined

"""Small models that are easily repaired wrongly, fixed and compared: no fix that is applied may change what is promised.

    ./dev hunt                          all of them, under both equivalences
    ./dev hunt -k "branches and exact"  a family under one
    HUNT=view_alias ./dev hunt -s       some models by name, with their differences

How many are repaired is only told.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .hunting import FAMILIES, Model, first_difference, models

pytestmark = pytest.mark.dynamo
_NAMES = sorted(path.stem for path in FAMILIES.glob("*.txt"))
_WANTED = os.environ.get("HUNT", "").split()


def hunt(chosen: list[Model], folder: Path, equivalence: str) -> tuple[list[str], list[str]]:
    """Fix models as `dynalint fix --apply` does; return the names of those that changed, and what is wrong with which."""
    before, after = folder / "before", folder / "after"
    examples = "".join(f'"m_{one.name}:M" = "m_{one.name}:example"\n' for one in chosen)
    for where in (before, after):
        where.mkdir()
        for one in chosen:
            (where / f"m_{one.name}.py").write_text(one.text)
    settings = (
        f'[tool.dynalint]\nequivalence = "{equivalence}"\nconfirm = "always"\n[tool.dynalint.examples]\n{examples}'
    )
    (after / "pyproject.toml").write_text(settings)
    ran = subprocess.run(
        [sys.executable, "-m", "dynalint", "fix", "--apply", "."],
        cwd=after,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stdout[-2000:] + ran.stderr[-2000:]
    (folder / "report.txt").write_text(ran.stdout)
    changed, wrong = [], []
    for one in chosen:
        old, new = (where / f"m_{one.name}.py" for where in (before, after))
        if old.read_text() == new.read_text():
            continue
        changed.append(one.name)
        if said := first_difference(one, old, new, exact=equivalence == "exact"):
            wrong.append(f"{one.name}: {said}\n{new.read_text() if _WANTED else ''}")
    return changed, wrong


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("equivalence", ["practical", "exact"])
@pytest.mark.parametrize("family", _NAMES)
def test_no_fix_is_wrong(family: str, equivalence: str, tmp_path: Path, torch_is_no_burden: None) -> None:
    chosen = [one for one in models(family) if not _WANTED or one.name in _WANTED]
    if chosen:
        changed, wrong = hunt(chosen, tmp_path, equivalence)
        print(
            f"\n{family}, {equivalence}: {len(chosen)} models, {len(changed)} changed, {len(wrong)} wrong: {' '.join(changed)}"
        )
        assert not wrong, "\n".join(["", *wrong])


def test_there_are_three_hundred_under_names_of_their_own() -> None:
    names = [one.name for family in _NAMES for one in models(family)]
    assert len(set(names)) == len(names) >= 300

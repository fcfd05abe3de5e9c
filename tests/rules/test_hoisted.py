"""Calls that are made once, at the top of the module: what they may take, and what keeps them where they are."""

from __future__ import annotations

import pytest

from dynalint.rules import Declined, Example, Rewrite
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules.side_effects.file_call import FileCall

HEAD = "import json\nimport os\nimport os.path\nimport torch\n"
FUNCTION = "@torch.compile\ndef f(x: torch.Tensor, name: str):\n    return x if {call} else x + 1\n"


def study(code: str) -> Study:
    return Study(Case(FileCall(), Example("x", code)), [FileCall()])


def answer(call: str, between: str = "", behind: str = "") -> Rewrite | Declined | None:
    found = study(f"{HEAD}{between}\n\n{FUNCTION.format(call=call)}{behind}").own
    assert len(found) == 1, found
    return found[0].answer


@pytest.mark.parametrize(
    ("call", "between", "safety"),
    [
        ("os.path.exists('a')", "", "unsafe"),
        ("os.path.exists(os.path.join('a', 'b'))", "", "unsafe"),
        ("os.path.exists(PATH)", "PATH = 'a'\n", "unsafe"),
        ("os.path.exists(__file__)", "", None),
        ("json.dumps({'a': [1, -2.5]})", "", "conditional"),
        ("json.dumps(PATH, indent=2)", "PATH = 'a'\n", "unsafe"),
        ("json.dumps([str(1)])", "", None),
        ("os.path.exists(name)", "", None),
        ("os.path.exists(f'{name}')", "", None),
        ("os.path.exists(PATH)", "PATH = 'a'\nPATH = 'b'\n", None),
        ("os.path.exists(PATH)", "PATH = 'a'\n\ndef move():\n    global PATH\n    PATH = 'b'\n", None),
        ("os.path.exists(PATHS[0])", "PATHS = ['a']\n", None),
    ],
)
def test_what_depends_on_nothing_in_the_call(call: str, between: str, safety: str | None) -> None:
    found = answer(call, between)
    if safety is None:
        assert isinstance(found, Declined)
    else:
        assert isinstance(found, Rewrite), found
        assert found.safety == safety


def test_what_is_bound_behind_the_function_is_not_there_yet() -> None:
    assert isinstance(answer("os.path.exists(PATH)", behind="\n\nPATH = 'a'\n"), Declined)


def test_the_constant_stands_above_the_decorators_under_a_name_of_its_own() -> None:
    code = f"{HEAD}_EXISTS = 1\n\n\n{FUNCTION.format(call='os.path.exists(0)')}"
    lines = study(code).fixed.splitlines()
    at = lines.index("_EXISTS_2 = os.path.exists(0)")
    assert lines[at + 1 : at + 4] == ["", "", "@torch.compile"]
    assert "    return x if _EXISTS_2 else x + 1" in lines


def test_two_calls_get_two_names() -> None:
    lines = study(f"{HEAD}\n\n{FUNCTION.format(call='os.path.exists(0) or os.path.exists(1)')}").fixed.splitlines()
    assert "    return x if _EXISTS or _EXISTS_2 else x + 1" in lines
    assert {"_EXISTS = os.path.exists(0)", "_EXISTS_2 = os.path.exists(1)"} <= set(lines)

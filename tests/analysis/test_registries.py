"""Functions and classes that code stores in a dict, a list or a registry object, and calls from there."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import dynalint
from dynalint.analysis import analyze

HEAD = """
import torch
from torch import nn

def fast(x):
    return x

def slow(x):
    return x if x.sum() > 0 else -x
"""
MODEL = """
class Model(nn.Module):
    def __init__(self, name="slow"):
        super().__init__()
        self.name = name
        {first}

    def forward(self, x: torch.Tensor):
        return {call}
"""
NAMED = """
CHOICES = {}
def register(name):
    def keep(function):
        CHOICES[name] = function
        return function
    return keep
"""
OF_A_CLASS = """
class Registry:
    def __init__(self):
        self.kept = {}
    def register(self, name):
        def keep(function):
            self.kept[name] = function
            return function
        return keep
    def get(self, name):
        return self.kept[name]
CHOICES = Registry()
"""
MARKED = ["return x if x.sum() > 0 else -x"]


def lines(code: str, call: str, first: str = "pass") -> list[str]:
    """Return the lines of a module with findings that are not advice."""
    text = HEAD + textwrap.dedent(code) + MODEL.replace("{first}", first).replace("{call}", call)
    found = [one for one in dynalint.check_source("m.py", text) if one.category == "graph-break"]
    return [text.splitlines()[one.line - 1].strip() for one in found]


@pytest.mark.parametrize(
    "code",
    [
        'CHOICES = {}\nCHOICES["slow"] = slow\n',
        'CHOICES = {"fast": fast}\nCHOICES.update({"slow": slow})\n',
        "CHOICES = dict()\nCHOICES.update(slow=slow)\n",
        NAMED + 'register("slow")(slow)\n',
        NAMED + '@register("other")\ndef other(x):\n    return slow(x)\n',
        "CHOICES = {}\ndef register(f):\n    CHOICES[f.__name__] = f\n    return f\n@register\ndef other(x):\n    return slow(x)\n",
        'CHOICES = {}\ndef register(name, f):\n    CHOICES[name] = f\nregister("slow", slow)\n',
        'CHOICES = {}\ndef register(name, f):\n    CHOICES.setdefault(name, f)\nregister("slow", f=slow)\n',
    ],
)
def test_value_of_a_dict_that_is_filled_later_is_called(code: str) -> None:
    assert lines(code, "CHOICES[self.name](x)") == MARKED
    assert lines(code, "self.chosen(x)", first="self.chosen = CHOICES.get(name)") == MARKED


def test_elements_of_a_list_are_called() -> None:
    code = "STEPS = []\ndef step(f):\n    STEPS.append(f)\n    return f\n@step\ndef other(x):\n    return slow(x)\n"
    assert lines(code, "[each(x) for each in STEPS]") == MARKED


def test_registry_object_gives_what_is_registered() -> None:
    code = OF_A_CLASS + '@CHOICES.register("other")\ndef other(x):\n    return slow(x)\n'
    assert lines(code, "CHOICES.get(self.name)(x)") == MARKED


def test_registry_in_a_class_gives_classes() -> None:
    code = """
    class Step:
        kinds = {}
        @classmethod
        def register(cls, name):
            def keep(kind):
                cls.kinds[name] = kind
                return kind
            return keep
        @classmethod
        def make(cls, name):
            return cls.kinds[name]()

    @Step.register("slow")
    class Slow:
        def run(self, x):
            return slow(x)
    """
    assert lines(code, "self.step.run(x)", first="self.step = Step.make(name)") == MARKED


def test_subclasses_that_register_themselves() -> None:
    code = """
    class Step:
        kinds = {}
        def __init_subclass__(cls, name="", **given):
            super().__init_subclass__(**given)
            Step.kinds[name] = cls

    class Slow(Step, name="slow"):
        def run(self, x):
            return slow(x)
    """
    assert lines(code, "self.step.run(x)", first="self.step = Step.kinds[name]()") == MARKED


@pytest.mark.parametrize(
    "code",
    [
        'CHOICES = {}\nOTHERS = {}\nOTHERS["slow"] = slow\nCHOICES["fast"] = fast\n',
        NAMED + "@register('fast')\ndef other(x):\n    return fast(x)\ndef unused(x):\n    return slow(x)\n",
        NAMED + "def keep(name):\n    return lambda f: f\n@keep('slow')\ndef other(x):\n    return slow(x)\n",
        "CHOICES = {}\ndef cache(name, x):\n    CHOICES[name] = slow(x)\n    return x\n",
    ],
)
def test_what_is_not_registered_is_not_called(code: str) -> None:
    assert lines(code, "CHOICES[self.name](x)") == []


def test_registered_in_other_files(tmp_path: Path) -> None:
    (tmp_path / "choices.py").write_text(NAMED)
    (tmp_path / "slow.py").write_text(
        "from choices import register\n@register('slow')\ndef slow(x):\n    return x if x.sum() > 0 else -x\n"
    )
    (tmp_path / "model.py").write_text(
        "import torch\nfrom torch import nn\nimport choices, slow\n"
        + MODEL.replace("{first}", "pass").replace("{call}", "choices.CHOICES[self.name](x)")
    )
    analysis = analyze(sorted(tmp_path.glob("*.py")))
    assert "slow" in {function.name for function in analysis.functions}


def test_registry_with_very_many_functions_is_unknown_which_a_note_says(tmp_path: Path) -> None:
    def told(count: int) -> list[str]:
        code = NAMED + "".join(f"@register('f{i}')\ndef f{i}(x):\n    return slow(x)\n" for i in range(count))
        text = HEAD + code + MODEL.replace("{first}", "pass").replace("{call}", "CHOICES[self.name](x)")
        assert (lines(code, "CHOICES[self.name](x)") == MARKED) is (count == 64)
        (tmp_path / "m.py").write_text(text)
        analysis = analyze([tmp_path / "m.py"])
        return list(analysis.budgets.notes([one.path for one in analysis.files], lambda path: path.name))

    assert told(64) == []
    assert told(65) == ["m.py: `CHOICES` holds more than 64 functions or classes, which are not followed"]

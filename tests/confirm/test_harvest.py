"""Verdicts by the calls that a project makes itself: in tests, docstrings, READMEs and `__main__` blocks."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dynalint.confirm import Interrupted, driver
from dynalint.confirm.call_sites import CallSites
from dynalint.confirm.driver import examine
from dynalint.confirm.harvest import Searcher, in_words, searches
from dynalint.confirm.worker.harvesting.smaller_code import smaller
from dynalint.findings import Finding, Step

from .conftest import Project, confirm

pytestmark = [pytest.mark.dynamo, pytest.mark.may_skip, pytest.mark.usefixtures("sandboxed")]

# Nobody could guess that key, nor what a batch holds.
MODEL = '''
import torch
from torch import nn


class Encoder(nn.Module):
    """An encoder.

    {example}
    """

    def __init__(self, table, key):
        super().__init__()
        if key != "sesame":
            raise PermissionError("wrong key")
        self.linear = nn.Linear(table["width"], 3)

    def forward(self, batch):
        x = batch["pos"]
        if x.sum() > 0:
            x = x + 1
        if batch.get("mask") is not None:
            x = x * float(batch["mask"].sum())
        return self.linear(x)


def rescaled(batch):
    scale = batch["scale"].item()
    return batch["pos"] * scale


def encoder(width):
    return Encoder({{"width": width}}, "sesame")
'''
CONFTEST = """
import pytest
import pkg.model

@pytest.fixture
def built():
    return pkg.model.encoder(4).to("cuda:0")
"""
TESTS = """
import socket
import pytest
import torch

def test_network():
    socket.create_connection(("127.0.0.1", 9), timeout=1)

@pytest.mark.parametrize("masked", [False, True])
def test_shape(built, masked, missing=None):
    batch = {"pos": torch.ones(2, 4).cuda(), "mask": torch.ones(2, device="cuda") if masked else None}
    assert built(batch).shape == (2, 3)
"""


def _written(project: Project, example: str = "") -> Project:
    project.write("pyproject.toml", '[tool.pytest.ini_options]\naddopts = "--no-such-option"\n')
    project.write("pkg/__init__.py", "")
    project.write("pkg/model.py", MODEL.format(example=example))
    return project


def _branch(project: Project) -> Finding:
    return project.finding("pkg/model.py", "x.sum() > 0", "Encoder.forward", gb=["GB0170"])


def _judged(
    project: Project,
    *findings: Finding,
    names: tuple[str, ...] = ("Encoder",),
    note: Callable[[str], None] | None = None,
    **changes: object,
) -> list[Finding]:
    targets = [project.target("pkg/model.py", name) for name in names]
    return confirm(findings, targets, project.options(**changes), note=note)


def test_a_test_with_a_fixture_and_a_factory_confirms(project: Project) -> None:
    _written(project)
    project.write("tests/conftest.py", CONFTEST)
    project.write("tests/test_model.py", TESTS)
    number = project.finding("pkg/model.py", 'float(batch["mask"].sum())', "Encoder.forward")
    first, second = _judged(project, _branch(project), number)
    assert (first.evidence.status, first.evidence.gb) == ("confirmed", "GB0170")
    # Only the second set of parameters comes here.
    assert (second.evidence.status, second.evidence.gb) == ("confirmed", "GB0124")


def test_without_tests_nobody_knows(project: Project) -> None:
    _written(project)
    project.write("tests/conftest.py", CONFTEST)
    project.write("tests/test_model.py", TESTS)
    (found,) = _judged(project, _branch(project), confirm_from=("docs", "guesses"))
    assert found.evidence.status == "unconfirmed"


def test_a_declared_example_is_used_whatever_else_calls_come_from(project: Project) -> None:
    _written(project)
    declared = 'import torch\nfrom pkg.model import encoder\n\ndef one():\n    return encoder(4), ({"pos": torch.ones(2, 4)},)\n'
    project.write("examples.py", declared)
    (found,) = _judged(
        project, _branch(project), confirm_from=("docs",), examples={"pkg.model:Encoder": "examples:one"}
    )
    assert (found.evidence.status, found.evidence.gb) == ("confirmed", "GB0170"), found.evidence.detail


@pytest.mark.parametrize(
    "place",
    ["docstring", "directive", "readme", "example", "main"],
)
def test_code_in_documentation_confirms(project: Project, place: str) -> None:
    lines = [">>> missing_name", '>>> e = Encoder({"width": 5}, "sesame")', '>>> e({"pos": torch.ones(3, 5)}).shape']
    code = "\n".join(line.removeprefix(">>> ") for line in lines)
    directive = ".. code-block:: python\n\n        " + code.replace("\n", "\n        ").partition("\n")[2].strip()
    texts = {"docstring": "\n    ".join(lines), "directive": directive}
    _written(project, texts.get(place, ""))
    imports = "import torch\nfrom pkg.model import Encoder\n"
    if place == "readme":
        project.write("README.md", f"# Encoder\n\n```python\n{imports}```\n\n```python\n{code}\n```\n")
    elif place == "example":
        project.write("examples/run.py", imports + code)
    elif place == "main":
        block = "".join(f"    {line}\n" for line in code.splitlines())
        path = project.folder / "pkg/model.py"
        path.write_text(f'{path.read_text()}\n\nif __name__ == "__main__":\n{block}')
    notes: list[str] = []
    (found,) = _judged(project, _branch(project), note=notes.append, confirm_from=("docs",))
    assert (found.evidence.status, found.evidence.gb) == ("confirmed", "GB0170"), notes


def test_what_gave_no_calls_is_told_where_some_are_still_wanted(project: Project) -> None:
    """To confirm a call takes longer than a property test allows for an example: that is no reason to end it."""
    _written(project)
    project.write(
        "tests/test_model.py",
        """
        import socket
        import torch
        from hypothesis import given, strategies as st
        from pkg.model import encoder

        def test_network():
            encoder
            socket.create_connection(("127.0.0.1", 9), timeout=1)

        @given(size=st.integers(1, 9))
        def test_sizes(size):
            encoder(4)({"pos": torch.ones(size, 4)})
        """,
    )
    number = project.finding("pkg/model.py", 'float(batch["mask"].sum())', "Encoder.forward")
    told: list[str] = []
    first, second = _judged(project, _branch(project), number, note=told.append, confirm_from=("tests",))
    assert (first.evidence.status, second.evidence.status) == ("confirmed", "unreached")
    (only,) = told
    assert only.startswith(
        "dynalint got no calls from tests/test_model.py::test_network because of a failure in the sandbox: "
    )


def test_an_interrupt_keeps_what_was_shown_until_then(project: Project) -> None:
    _written(project)
    project.write("pkg/second.py", MODEL.format(example=""))
    call = "encoder(4)({'pos': torch.ones(2, 4)})\n"
    project.write("tests/test_model.py", f"import torch\nfrom pkg.model import encoder\n\ndef test_it():\n    {call}")
    second = project.finding("pkg/second.py", "x.sum() > 0", "Encoder.forward", gb=["GB0170"])
    targets = [project.target(f"pkg/{name}.py", "Encoder") for name in ("model", "second")]

    def interrupt(_done: int, _total: int, what: str) -> None:
        if what == targets[1].name:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stopped:
        confirm([_branch(project), second], targets, project.options(), interrupt)
    assert [one.evidence.status for one in stopped.value.findings] == ["confirmed", "unconfirmed"]


def test_reasons_are_grouped_and_the_most_common_told_first() -> None:
    problems = [("a", "x"), *((f"test_{number}", "no network") for number in range(3))]
    assert list(in_words([*problems, ("b", "y"), ("b", "y")])) == [
        "dynalint got no calls from test_0 and 2 others because of a failure in the sandbox: no network",
        "dynalint got no calls from a because of a failure in the sandbox: x",
        "dynalint got no calls from b because of a failure in the sandbox: y",
    ]
    *_, last = in_words((f"test_{number}", str(number)) for number in range(30))
    assert last == "there are 20 more reasons why dynalint got no calls from other code."


def test_a_function_is_confirmed_by_a_test_that_calls_it(project: Project) -> None:
    _written(project)
    project.write(
        "tests/test_model.py",
        """
        import torch
        import unittest
        from pkg.model import rescaled

        class TestRescaled(unittest.TestCase):
            def setUp(self):
                self.batch = {"pos": torch.ones(2), "scale": torch.ones(1)}

            def test_it(self):
                rescaled(self.batch)
        """,
    )
    finding = project.finding("pkg/model.py", 'batch["scale"].item()', "rescaled")
    (found,) = _judged(project, finding, names=("rescaled",), confirm_from=("tests",))
    assert found.evidence.status == "confirmed"


def test_a_compiled_function_is_confirmed_by_a_test_that_calls_it(project: Project) -> None:
    _written(project)
    path = project.folder / "pkg/model.py"
    path.write_text(path.read_text().replace("def rescaled", "@torch.compile\ndef rescaled"))
    project.write(
        "tests/test_model.py",
        """
        import torch
        from pkg.model import rescaled

        def test_it():
            rescaled({"pos": torch.ones(2), "scale": torch.ones(1)})
        """,
    )
    finding = project.finding("pkg/model.py", 'batch["scale"].item()', "rescaled")
    (found,) = _judged(project, finding, names=("rescaled",), confirm_from=("tests",))
    assert found.evidence.status == "confirmed"


def test_a_call_that_is_slow_only_at_first_confirms(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from dynalint.confirm.worker.harvesting import eager_calls

    monkeypatch.setattr(eager_calls, "_QUICK", 0.1)
    monkeypatch.setattr(eager_calls, "_FIRST", 1)
    request = {"record": 0, "spots": {}, "roots": []}

    def tried(*seconds: float) -> dict[str, Any]:
        left = iter(seconds)

        def work() -> None:
            until = time.process_time() + next(left)
            while time.process_time() < until:
                pass

        return eager_calls.tried([], work, ((), {}), request, {})

    assert tried(0.3, 0.01) == {"reached": [], "inside": []}
    assert tried(0.3, 9) == tried(9) == {"raises": "a call takes too long"}


def test_a_call_of_forward_itself_confirms(project: Project) -> None:
    _written(project)
    test = """
        import torch
        from pkg.model import encoder

        def test_it():
            encoder(4).forward({"pos": torch.ones(2, 4)})
    """
    project.write("tests/test_model.py", test)
    (found,) = _judged(project, _branch(project), confirm_from=("tests",))
    assert (found.evidence.status, found.evidence.gb) == ("confirmed", "GB0170"), found.evidence.detail


def test_what_runs_and_is_traced_is_refuted_and_named(project: Project) -> None:
    _written(project)
    project.write(
        "pkg/model.py",
        """
        from torch import nn

        class Encoder(nn.Module):
            def __init__(self, key):
                super().__init__()
                assert key == "sesame"

            def forward(self, batch):
                return batch["pos"] + 1
        """,
    )
    test = (
        'import torch\nfrom pkg.model import Encoder\n\ndef test_it():\n    Encoder("sesame")({"pos": torch.ones(2)})\n'
    )
    project.write("tests/test_model.py", test)
    finding = project.finding("pkg/model.py", 'batch["pos"] + 1', "Encoder.forward")
    (found,) = _judged(project, finding, cache=project.folder / "cache")
    assert found.evidence.status == "refuted"
    assert "the call Encoder(dict) in tests/test_model.py::test_it" in found.evidence.detail
    (again,) = _judged(project, finding, cache=project.folder / "cache")
    assert again == found
    # Another test is another question.
    project.write("tests/test_model.py", test.replace("test_it", "test_again"))
    (changed,) = _judged(project, finding, cache=project.folder / "cache")
    assert "test_again" in changed.evidence.detail


def test_tests_are_found_through_fixtures_factories_and_what_is_built(project: Project) -> None:
    _written(project)
    project.write("tests/conftest.py", CONFTEST)
    project.write("tests/test_model.py", TESTS)
    project.write("pkg/whole.py", "from pkg.model import encoder\n\nclass Whole:\n    part = encoder(2)\n")
    project.write("tests/test_whole.py", "from pkg.whole import Whole\n\ndef test_whole():\n    Whole()\n")
    project.write("tests/test_other.py", "def test_other():\n    pass\n")
    found = CallSites(project.folder).tests(project.folder / "pkg/model.py", "Encoder")
    assert [one["name"] for one in found] == ["test_shape", "test_whole"]
    assert Path(found[0]["path"]).name == "test_model.py"


def test_tests_that_name_the_code_to_reach_come_before_others_of_the_root(project: Project) -> None:
    _written(project)
    project.write("pkg/whole.py", "class Whole:\n    pass\n\n\nclass Part:\n    def run(self):\n        return 1\n")
    test = (
        "from pkg.whole import Part, Whole\n\n"
        "def test_short():\n    Whole()(1)\n\ndef test_long():\n    part = Part()\n    Whole()(part)\n    Whole()(part)\n"
    )
    project.write("tests/test_whole.py", test)
    model, sites = project.folder / "pkg/whole.py", CallSites(project.folder)
    assert sites.tests(model, "Whole")[0]["name"] == "test_short"
    assert sites.tests(model, "Whole", {str(model): [[7, 7]]})[0]["name"] == "test_long"


def test_tests_of_all_classes_below_a_base_are_found(project: Project) -> None:
    project.write("pkg/losses.py", "class Loss:\n    pass\n\n\nclass Smooth(Loss):\n    pass\n")
    test = "from pkg.losses import Loss\n\ndef test_every():\n    for one in Loss.__subclasses__():\n        one()(1)\n"
    project.write("tests/test_losses.py", test)
    (found,) = CallSites(project.folder).tests(project.folder / "pkg/losses.py", "Smooth")
    assert found["name"] == "test_every"


def test_of_inherited_tests_those_that_mention_the_class_are_taken(project: Project) -> None:
    _written(project)
    common = (
        "from pkg.model import Encoder, rescaled\n\nclass Checks:\n"
        "    def test_encoder(self):\n        Encoder\n    def test_rescaled(self):\n        rescaled\n\n"
        "class More(Checks):\n    pass\n"
    )
    project.write("pkg/checks.py", common)
    test = "from pkg.checks import More\nfrom pkg.model import Encoder\n\nclass TestModel(More):\n    width = 4\n"
    project.write("tests/test_model.py", test)
    found = CallSites(project.folder).tests(project.folder / "pkg/model.py", "Encoder")
    assert found[0]["name"] == "TestModel::test_encoder"


def test_a_docstring_has_the_names_of_its_own_module(project: Project) -> None:
    _written(project)
    project.write(
        "pkg/whole.py",
        """
        from pkg.model import encoder as built

        def whole():
            '''
            >>> import torch
            >>> built(5)({"pos": torch.ones(3, 5)})  # an Encoder
            >>> Encoder
            '''
        """,
    )
    path = project.folder / "pkg/__init__.py"
    path.write_text("from pkg import model, whole\n")
    notes: list[str] = []
    (found,) = _judged(project, _branch(project), note=notes.append, confirm_from=("docs",))
    assert (found.evidence.status, found.evidence.gb) == ("confirmed", "GB0170"), notes


def test_code_in_a_document_gets_the_imports_that_it_leaves_out(project: Project) -> None:
    _written(project)
    project.write("tests/test_model.py", "import pkg.model as made, os.path\nimport collections as co, sys\n")
    text = """
        Use
        ---
        .. code-block:: python
           :linenos:

           table = co.OrderedDict(width=4)

           net = made.Encoder(table, "sesame")
           net({"pos": torch.ones(2, 4)})

        That is all.
        """
    project.write("docs/use.rst", text)
    notes: list[str] = []
    (found,) = _judged(project, _branch(project), note=notes.append, confirm_from=("docs",))
    assert (found.evidence.status, found.evidence.gb) == ("confirmed", "GB0170"), notes


def test_code_in_a_document_has_the_names_from_before_it(project: Project) -> None:
    _written(project)
    project.write(
        "README.md",
        """
        ```python
        import torch
        from pkg.model import Encoder as Model, rescaled
        width = 9
        width = 5
        other = rescaled(width)
        ```

        ```python
        table = {"width": width}
        e = Model(table, "sesame")
        ```

        ```python
        e({"pos": torch.ones(3, width)})
        Encoder
        ```
        """,
    )
    *_, last = CallSites(project.folder).snippets(project.folder / "pkg/model.py", "Encoder")
    assert last["code"].split("\n") == [
        "import torch",
        "from pkg.model import Encoder as Model, rescaled",
        "width = 5",
        "table = {'width': width}",
        "e = Model(table, 'sesame')",
        'e({"pos": torch.ones(3, width)})',
        "Encoder",
        "",
    ]


def test_code_in_a_document_is_not_preceded_by_code_whose_names_it_binds_itself(project: Project) -> None:
    _written(project)
    project.write(
        "README.md",
        """
        ```python
        model = slow_model()
        for batch in loader:
            loss = model(batch)
        scale = 2
        ```

        ```python
        from pkg.model import Encoder
        model = Encoder(table, "sesame")
        batch = [scale * x for x in torch.ones(3)]
        loss = model(batch)
        loss += 1
        def step(images):
            images += scale
        ```
        """,
    )
    (only,) = CallSites(project.folder).snippets(project.folder / "pkg/model.py", "Encoder")
    assert only["code"].split("\n")[:3] == ["import torch", "scale = 2", "from pkg.model import Encoder"]


def test_code_that_means_another_class_of_the_same_name_is_left_out(project: Project) -> None:
    own = 'class Encoder:\n    """Encode.\n\n    >>> Encoder({})\n    """\n'
    project.write("pkg/model.py", own.format("1"))
    project.write("pkg/other.py", own.format("2"))
    project.write("examples/run.py", "class Encoder:\n    pass\n\nEncoder(3)\n")
    project.write("examples/use.py", "from pkg.model import Encoder\nEncoder(4)\n")
    found = CallSites(project.folder).snippets(project.folder / "pkg/model.py", "Encoder")
    given = [line for one in found for line in one["code"].split("\n") if line.startswith("Encoder(")]
    assert given == ["Encoder(1)", "Encoder(4)"]


def test_only_the_first_of_the_failures_in_a_row_is_reported(project: Project) -> None:
    _written(project)
    code = "from nowhere import a as b\nc = b(1)\nd = c + 1\nimport nothing\nEncoder(d)"
    project.write("README.md", f"```python\n{code}\n```\n")
    reported: list[str] = []
    _judged(project, _branch(project), note=reported.append, confirm_from=("docs",))
    assert [one.rpartition(": ")[2] for one in reported] == ["No module named 'nowhere'", "No module named 'nothing'"]


def test_code_in_documents_does_not_run_if_the_module_cannot_be_imported(project: Project) -> None:
    _written(project)
    path = project.folder / "pkg/model.py"
    path.write_text(f"import nowhere\n{path.read_text()}")
    project.write("README.md", "```python\nEncoder({'width': 4}, 'sesame')\n```\n")
    reported: list[str] = []
    _judged(project, _branch(project), note=reported.append, confirm_from=("docs",))
    assert all("nowhere" in one for one in reported)


def test_the_tests_of_several_files_run_once(project: Project) -> None:
    _written(project)
    project.write("pkg/second.py", MODEL.format(example=""))
    both = "from pkg.model import Encoder\nfrom pkg.second import Encoder as Other\n\ndef test_both():\n    Encoder()\n"
    project.write("tests/test_both.py", both)
    targets = [project.target(f"pkg/{name}.py", "Encoder") for name in ("model", "second")]
    (search,) = searches({target: {} for target in targets}, project.options(), CallSites)
    assert search.targets == tuple(targets)
    assert [(one["name"], one["turn"]) for one in search.request["tests"]] == [("test_both", 0)]


def test_few_targets_share_the_time_for_calls_in_documents(project: Project) -> None:
    project.write("pyproject.toml", "")
    names = ["one", "two", "three", "four", "tested"]
    for name in names:
        project.write(f"pkg/{name}.py", f"def {name}(x):\n    return x.item()\n")
        project.write(f"docs/{name}.md", f"```python\nfrom pkg.{name} import {name}\n{name}(1)\n```\n")
    project.write("tests/test_it.py", "from pkg.tested import tested\n\ndef test_it():\n    tested(1)\n")
    wanted = {project.target(f"pkg/{name}.py", name): {} for name in names}
    groups = [
        [target.qualname for target in search.targets] for search in searches(wanted, project.options(), CallSites)
    ]
    assert groups == [["tested"], ["four", "one", "three"], ["two"]]


def test_the_best_test_of_each_target_runs_before_others_and_in_any_case() -> None:
    from dynalint.confirm.worker.harvesting import suites

    class Heard:
        over, begun = False, 0

        def begin(self) -> None:
            self.begun += 1

        def start(self, where: str) -> None:
            assert where

    def item(path: str, name: str, number: int = 0) -> Any:
        return SimpleNamespace(path=path, name=name, originalname=name, obj=None, nodeid=f"{path}::{name}[{number}]")

    order = [("/a.py", "test_one", 0), ("/b.py", "test_two", 0), ("/a.py", "test_three", 1)]
    heard = Heard()
    plugin = suites._Plugin([{"path": path, "name": name, "turn": turn} for path, name, turn in order], heard, 0)
    items = [
        item("/a.py", "test_three"),
        item("/a.py", "test_one"),
        item("/a.py", "test_one", 1),
        item("/b.py", "test_two"),
    ]
    plugin.pytest_collection_modifyitems(items)
    assert [one.nodeid for one in items] == [
        "/a.py::test_one[0]",
        "/b.py::test_two[0]",
        "/a.py::test_three[0]",
        "/a.py::test_one[1]",
    ]
    begun = []
    for one in items:
        before = heard.begun
        list(plugin.pytest_runtest_protocol(one))
        begun.append(heard.begun > before)
    assert begun == [True, True, False, False]


def test_a_harvest_ends_when_it_shows_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    from dynalint.confirm.worker.harvesting import calls
    from dynalint.confirm.worker.process.wire import Reply

    used = 0.0
    monkeypatch.setattr(calls, "seconds_used", lambda: used)
    target = {"path": "a.py", "qualname": "A"}
    lines = {"a.py": [[1, 1]]}
    wanted = [{"target": target, "lines": lines}]
    request = {"seconds": 100, "record": 0, "after": 0, "roots": [], "wanted": wanted}
    harvest = calls.Harvest(request, Reply(-1, ""))
    used = 5.0
    assert not harvest.over
    harvest.begin()
    used = 10.0
    assert not harvest.over
    used = 12.0
    assert harvest.over
    harvest.begin(8)
    used = 19.0
    assert not harvest.over
    used = 21.0
    assert harvest.over


def test_a_slow_call_does_not_end_the_harvest(monkeypatch: pytest.MonkeyPatch) -> None:
    from dynalint.confirm.worker.harvesting import calls
    from dynalint.confirm.worker.process.wire import Reply

    used = 0.0
    monkeypatch.setattr(calls, "seconds_used", lambda: used)
    monkeypatch.setattr(calls, "can_fork", lambda: True)
    target = {"path": "a.py", "qualname": "A"}
    lines = {"a.py": [[1, 1]]}
    wanted = [{"target": target, "lines": lines}]
    request = {"seconds": 100, "record": 0, "after": 0, "roots": [], "wanted": wanted}
    harvest = calls.Harvest(request, Reply(-1, ""))

    def slow(*_: object) -> None:
        nonlocal used
        used += 20.0

    monkeypatch.setattr(harvest, "_confirmed", slow)
    harvest._look(list(harvest._wanted.values()), len, ([],), {})
    assert used == 20.0
    assert not harvest.over
    used = 27.0
    assert harvest.over


def test_a_call_that_took_too_long_is_run_again_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    _written(project)
    long = "for _ in range(1_000_000 if LONG and torch.compiler.is_compiling() else 1):\n            x = x * 1.01\n"
    source = (project.folder / "pkg/model.py").read_text() + "\n\nLONG = False\n"
    project.write("pkg/model.py", source.replace("if x.sum() > 0:", f"{long}        if x.sum() > 0:"))
    call = "model.LONG = True\n    model.encoder(4)({'pos': torch.ones(2, 4)})\n"
    project.write("tests/test_model.py", f"import torch\nfrom pkg import model\n\ndef test_it():\n    {call}")
    asked, complete = Searcher._asked, list[bool]()

    def soon(self: Searcher, *given: Any) -> Any:
        return asked(replace(self, options=replace(self.options, timeout=12.0)), *given)

    searched = driver._TargetRuns._searched

    def noted(*given: Any) -> Any:
        found = searched(*given)
        complete.extend(one.complete for one in found.results)
        return found

    monkeypatch.setattr(Searcher, "_asked", soon)
    monkeypatch.setattr(driver._TargetRuns, "_searched", noted)
    (found,) = _judged(project, _branch(project), confirm_from=("tests",))
    assert complete == [False]
    assert (found.evidence.status, found.evidence.gb) == ("confirmed", "GB0170"), found.evidence.detail


@pytest.mark.parametrize("masked", [False, True])
def test_a_call_that_reaches_nothing_is_only_compiled_if_there_is_no_other(
    project: Project, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _written(project)
    tests = (
        "import torch\nfrom pkg.model import encoder\n\ndef test_plain():\n    encoder(4)({'pos': torch.ones(2, 4)})\n"
    )
    other = "def test_masked():\n    x = torch.ones(2, 4)\n    y = None\n    encoder(4)({'pos': x, 'mask': x})\n"
    project.write("tests/test_model.py", tests + other * masked)
    text = 'float(batch["mask"].sum())'
    finding = project.finding("pkg/model.py", text, "Encoder.forward", gb=["GB0058", "GB0109", "GB0020"])
    searched, compiled = driver._TargetRuns._searched, list[str]()

    def noted(*given: Any) -> Any:
        found = searched(*given)
        compiled.extend(one.inputs.rpartition("::")[2] for one in found.results)
        return found

    monkeypatch.setattr(driver._TargetRuns, "_searched", noted)
    judged = {one.message: one.evidence for one in _judged(project, finding, confirm_from=("tests",))}
    assert judged[finding.message].status == ("confirmed" if masked else "unreached"), judged
    assert compiled == ["test_masked" if masked else "test_plain"]


def test_without_walls_no_test_is_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test does to the machine is its own business: only a sandbox makes running it harmless."""
    from dynalint.confirm.worker.operations import harvesting
    from dynalint.confirm.worker.process.wire import Reply

    monkeypatch.setattr(harvesting, "run_tests", lambda *_: pytest.fail("it ran"))
    told: list[str] = []
    reply = Reply(-1, "")
    monkeypatch.setattr(reply, "send", lambda kind, _: told.append(kind))
    request = {"tests": [{"path": "test_a.py", "names": ["test_a"]}], "snippets": [], "name": "a.py"}
    harvesting.harvest(request, reply)
    assert not told


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param("class TestEncoder(Checks):\n    def width(self):\n        return 4\n", id="inherited"),
        pytest.param(
            "def expand(test):\n"
            "    def call():\n        return test(4)\n"
            "    globals()['test_shape_0'] = call\n    call.place_as = test\n"
            "@expand\ndef test_shape(width):\n    checked(width)\n",
            id="generated",
        ),
        pytest.param(
            "import unittest\n\nclass TestEncoder(unittest.TestCase):\n    check = staticmethod(checked)\n\n"
            "def add(width):\n    setattr(TestEncoder, f'test_{width}', lambda self: self.check(width))\n\nadd(4)\n",
            id="added",
        ),
    ],
)
def test_tests_that_have_no_text_of_their_own_are_found(project: Project, tests: str) -> None:
    _written(project)
    common = (
        "import torch\nfrom pkg.model import encoder\n\ndef checked(width):\n"
        "    encoder(width)({'pos': torch.ones(2, width)})\n\n"
        "class Checks:\n    def test_shape(self):\n        checked(self.width())\n"
    )
    project.write("tests/__init__.py", "")
    project.write("tests/common.py", common)
    project.write("tests/test_model.py", f"from .common import Checks, checked\n{tests}")
    (judged,) = _judged(project, _branch(project))
    assert judged.evidence.status == "confirmed"


def test_calls_in_a_process_with_threads_are_made_again_elsewhere(project: Project) -> None:
    _written(project)
    test = (
        "import threading, torch\nfrom pkg.model import encoder\n\ndef test_one():\n"
        "    wait = threading.Event()\n    threading.Thread(target=wait.wait, daemon=True).start()\n"
        "    encoder(4)({'pos': torch.ones(2, 4)})\n"
    )
    project.write("tests/test_model.py", test)
    (judged,) = _judged(project, _branch(project))
    assert judged.evidence.status == "confirmed"


def test_code_that_builds_the_outer_class_confirms_what_is_inside(project: Project) -> None:
    """A README shows the whole model, whose size is too large to run."""
    _written(project)
    outer = """
        from torch import nn
        from pkg.model import encoder

        class Outer(nn.Module):
            def __init__(self, depth, max_seq_len):
                super().__init__()
                assert depth < 9 and max_seq_len < 1000
                self.layers = nn.ModuleList([encoder(4) for _ in range(depth)])

            def forward(self, x):
                assert x.shape == (2, 512, 4)
                return [layer({"pos": x}) for layer in self.layers]
        """
    project.write("pkg/outer.py", outer)
    call = "Outer(depth=24, max_seq_len=8192)(torch.rand(16, 8192, 4))"
    project.write("README.md", f"```python\nimport torch\nfrom pkg.outer import Outer\n{call}\n```\n")
    reported: list[str] = []
    (judged,) = _judged(project, _branch(project), note=reported.append, confirm_from=("docs",))
    assert (judged.evidence.status, reported) == ("confirmed", [])


def test_a_call_judges_what_it_calls_too(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    _written(project)
    outer = """


        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = encoder(4)

            def forward(self, batch):
                return self.inner(batch)
        """
    model = project.folder / "pkg/model.py"
    project.write("pkg/model.py", model.read_text() + textwrap.dedent(outer))
    test = "import torch\nfrom pkg.model import Outer\n\ndef test_it():\n    Outer()({'pos': torch.ones(2, 4)})\n"
    project.write("tests/test_model.py", test)
    number = project.finding("pkg/model.py", 'float(batch["mask"].sum())', "Encoder.forward")
    targets = [project.target("pkg/model.py", name) for name in ("Encoder", "Outer")]
    options = project.options(confirm_from=("tests",))
    judged, results = examine([_branch(project), number], targets, options, leads=lambda _: targets)
    assert [one.evidence.status for one in judged] == ["confirmed", "unreached"]
    assert [one.target.qualname for one in results] == ["Outer", "Encoder"]
    assert len({one.inputs for one in results}) == 1


def test_code_is_made_smaller_without_changing_what_its_sizes_have_to_do_with_each_other() -> None:
    code = """
        model = Model(1024, dim=768, num_layers=12, vocab_size=20000, image_size=224, patch_size=16, heads=12)
        x, y = torch.randint(0, 20000, (32, 4096)), torch.randn(6, 768, 224)
        z = torch.zeros(9)[:8]
        """
    scaled, divisible, limited, written = map(ast.unparse, smaller(textwrap.dedent(code)))
    expected = """
        model = Model(128, dim=96, num_layers=2, vocab_size=64, image_size=112, patch_size=16, heads=12)
        x, y = (torch.randint(0, 64, (2, 512)), torch.randn(2, 96, 112))
        z = torch.zeros(9)[:8]
        """
    assert divisible == textwrap.dedent(expected).strip()
    assert "dim=96, num_layers=2, vocab_size=64, image_size=28" in scaled
    assert "num_layers=2, vocab_size=64, image_size=224" in limited
    assert written == ast.unparse(ast.parse(textwrap.dedent(code)))
    assert len([*smaller("Model(depth=2)(torch.randn(4, 100))")]) == 1


def test_loops_in_documentation_end_soon_and_definitions_stay_as_they_are() -> None:
    code = """
        def count():
            for number in range(9):
                seen.append("defined")
        seen = []
        count()
        for epoch in range(9):
            seen.append(epoch)
            while len(seen) != 10:
                seen.append("inner")
        """
    scope: dict[str, Any] = {}
    exec(compile(next(smaller(textwrap.dedent(code))), "<code>", "exec"), scope)
    assert scope["seen"] == [*["defined"] * 9, 0, 1, "inner", "inner"]


def test_pytest_that_cannot_start_is_reported(project: Project) -> None:
    _written(project)
    project.write("tests/conftest.py", "import nowhere.places\n\nplaces = list(nowhere.places)\n")
    project.write("tests/test_model.py", "from pkg.model import encoder\n\ndef test_it():\n    encoder(4)\n")
    reported: list[str] = []
    _judged(project, _branch(project), note=reported.append, confirm_from=("tests",))
    assert any("'ModuleNotInstalled' object is not iterable" in one for one in reported)


def test_tests_run_without_the_packages_that_they_do_not_use(project: Project) -> None:
    _written(project)
    project.write("tests/conftest.py", "import nowhere\nfrom elsewhere.parts import part\n")
    call = "encoder(4)({'pos': torch.ones(2, 4)})"
    imports = "import torch\nimport anywhere\nfrom pkg.model import encoder"
    project.write("tests/test_model.py", f"{imports}\n\ndef test_it():\n    {call}\n")
    (judged,) = _judged(project, _branch(project), confirm_from=("tests",))
    assert judged.evidence.status == "confirmed"


@pytest.mark.parametrize(
    "code",
    [
        "raise ValueError('broken plugin')",
        "def pytest_configure(config):\n    raise ValueError('broken plugin')",
    ],
)
def test_a_plugin_that_keeps_pytest_from_starting_is_left_out(project: Project, code: str) -> None:
    _written(project)
    project.write("broken_plugin.py", code + "\n")
    project.write("broken_plugin-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1.0\n")
    project.write("broken_plugin-1.0.dist-info/entry_points.txt", "[pytest11]\nbroken = broken_plugin\n")
    call = "encoder(4)({'pos': torch.ones(2, 4)})"
    test = f"import torch\nfrom pkg.model import encoder\n\ndef test_it():\n    {call}\n"
    project.write("tests/test_model.py", test)
    reported: list[str] = []
    second = project.finding("pkg/model.py", 'float(batch["mask"].sum())', "Encoder.forward")
    found = _judged(project, _branch(project), second, note=reported.append, confirm_from=("tests",))
    assert [one.evidence.status for one in found] == ["confirmed", "unreached"]
    assert any("broken plugin" in one for one in reported), reported


def test_what_only_a_local_function_leads_to_is_confirmed_by_tests_of_its_parts(project: Project) -> None:
    """A function inside another, such as one that a benchmark compiles, cannot be imported."""
    _written(project)
    test = "import torch\nfrom pkg.model import rescaled\n\ndef test_it():\n    rescaled({'pos': torch.ones(2), 'scale': torch.ones(())})\n"
    project.write("tests/test_model.py", test)
    number = project.finding("pkg/model.py", 'batch["scale"].item()', "rescaled", gb=["GB0124"])
    asked = replace(number, region=("bench.<locals>.func", "rescaled"))
    part = project.target("pkg/model.py", "rescaled")
    (judged,) = confirm([asked], [], project.options(), parts=lambda _: [part])
    assert judged.evidence.status == "confirmed"
    assert "This was only seen in a call to this part" in judged.evidence.detail
    (unknown,) = confirm([asked], [], project.options(confirm_from=("docs",)), parts=lambda _: [part])
    assert unknown.evidence.status == "unconfirmed"
    assert unknown.evidence.detail.startswith("the compiled code that leads here cannot be imported by name")
    assert "`dynalint trace -- COMMAND`" in unknown.evidence.detail


def test_the_reason_for_a_failure_has_the_message_even_if_it_starts_on_another_line() -> None:
    from dynalint.confirm.worker.harvesting import suites

    text = "    find(name)\nE   LookupError: \nE   *******\nE     Resource corpus not found.\nE     Please download it."
    assert suites._first_error(text) == "LookupError: Resource corpus not found."
    assert suites._first_error("E   KeyError: 'a'\nE   b") == "KeyError: 'a'"


def test_tests_may_write_and_show_progress_and_fork_the_random_state_of_a_gpu(project: Project) -> None:
    """They write into the working directory, and progress bars start no thread: a process with threads is not forked."""
    pytest.importorskip("tqdm")
    _written(project)
    project.write("data/width.txt", "4")
    test = (
        "import os, pathlib, threading, torch, tqdm\nfrom pkg.model import encoder\n\ndef test_one():\n"
        "    for folder in ('logs', 'tests/logs'):\n"
        "        os.mkdir(folder)\n        pathlib.Path(f'{folder}/out.txt').write_text('x')\n"
        "    width = int(pathlib.Path('data/width.txt').read_text())\n"
        "    for width in tqdm.tqdm([width]):\n        assert threading.active_count() == 1\n"
        "        with torch.random.fork_rng():\n            torch.manual_seed(1)\n            first = torch.rand(2, width)\n"
        "            encoder(width)({'pos': first, 'hook': lambda: 0})\n"
    )
    project.write("tests/test_model.py", test)
    (judged,) = _judged(project, _branch(project), confirm_from=("tests",))
    assert judged.evidence.status == "confirmed"
    assert not any((project.folder / folder).exists() for folder in ("logs", "tests/logs"))


def test_a_model_may_use_names_of_modules_and_parameters_of_a_class_of_its_own(project: Project) -> None:
    _written(project)
    test = (
        "import torch\nfrom torch import nn\nfrom pkg.model import encoder\n\n"
        "class Bounded(nn.Parameter):\n"
        "    def __new__(cls, data, bound):\n"
        "        made = super().__new__(cls, data)\n        made.bound = bound\n        return made\n\n"
        "    def __deepcopy__(self, memo):\n        return Bounded(self.data.clone(), self.bound)\n\n"
        "def test_one():\n    model = encoder(4)\n"
        "    model.linear.weight = Bounded(model.linear.weight.data, 1.0)\n"
        "    model.parameters = model.buffers = ['pos']\n    model({'pos': torch.ones(2, 4)})\n"
    )
    project.write("tests/test_model.py", test)
    (judged,) = _judged(project, _branch(project))
    assert judged.evidence.status == "confirmed"


def test_a_part_is_confirmed_by_a_test_of_its_own(project: Project) -> None:
    """A root that nothing in the project calls, and nobody can guess, has parts with tests."""
    _written(project)
    code = (
        "import functools\nimport torch\nfrom torch import nn\nfrom pkg.model import rescaled\n\n\n"
        "class Base:\n    def scaled(self, batch):\n        return batch['pos']\n\n\n"
        "class Scale(Base):\n    def scaled(self, batch):\n"
        "        return super().scaled(batch) * batch['scale'].item()\n\n\n"
        "class Whole(nn.Module):\n    def __init__(self, key):\n        super().__init__()\n"
        "        if key != 'sesame':\n            raise PermissionError('wrong key')\n"
        "    def forward(self, batch):\n        return rescaled(batch) + Scale().scaled(batch)\n"
    )
    project.write("pkg/whole.py", code)
    test = (
        "import torch\nfrom pkg.model import rescaled\nfrom pkg.whole import Scale\n\n"
        "BATCH = {'pos': torch.ones(2, 4), 'scale': torch.tensor(2.0)}\n\n"
        "def test_rescaled():\n    rescaled(BATCH)\n\ndef test_scale():\n    Scale().scaled(BATCH)\n"
    )
    project.write("tests/test_parts.py", test)
    first = project.finding("pkg/model.py", 'batch["scale"].item()', "rescaled", gb=["GB0124"])
    second = project.finding("pkg/whole.py", "batch['scale'].item()", "Scale.scaled", gb=["GB0124"])
    root = project.target("pkg/whole.py", "Whole")
    ways = {
        "rescaled": [project.target("pkg/model.py", "rescaled")],
        "Scale.scaled": [project.target("pkg/whole.py", "Scale.scaled")],
    }
    steps = (Step("Whole.forward", "pkg/whole.py", 1),)
    asked = [replace(one, region=("Whole.forward", one.function), steps=steps) for one in (first, second)]
    for one in confirm(asked, [root], project.options(), parts=lambda finding: ways[finding.function]):
        assert one.evidence.status == "confirmed"
        assert "tests/test_parts.py::test_" in one.evidence.detail


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        ("ctypes.string_at(0)", "the code crashed with SIGSEGV"),
        ("os._exit(3)", "the code exited with status 3"),
        ("time.sleep(60)", "it waited for more than 5 s"),
    ],
)
def test_a_test_that_ends_the_process_or_waits_leaves_the_others_to_run(
    project: Project, harm: str, reason: str
) -> None:
    _written(project)
    test = (
        "import ctypes, os, time, torch\nfrom pkg.model import encoder\n\n"
        f"def test_harm():\n    encoder(4)\n    {harm}\n\n"
        "def test_later():\n    encoder(4)({'pos': torch.ones(2, 4), 'mask': torch.ones(2)})\n"
    )
    project.write("tests/test_model.py", test)
    number = project.finding("pkg/model.py", 'float(batch["mask"].sum())', "Encoder.forward")
    never = project.finding("pkg/model.py", "PermissionError", "Encoder.forward")
    reported: list[str] = []
    asked = (never, _branch(project), number)
    found = _judged(project, *asked, note=reported.append, confirm_from=("tests",))
    assert [one.evidence.status for one in found] == ["unconfirmed", "confirmed", "confirmed"]
    (only,) = reported
    assert only.startswith("dynalint got no calls from tests/test_model.py::test_harm ")
    assert reason in only


def test_a_test_may_wait_while_its_calls_are_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    from dynalint.confirm.worker.harvesting import processor_time

    monkeypatch.setattr(processor_time, "_TICK", 0.01)
    with processor_time.limited(9, 0.2):
        with processor_time.unhurried():
            time.sleep(0.4)
        sum(range(10**7))
    with pytest.raises(TimeoutError, match="waited"), processor_time.limited(9, 0.2):
        time.sleep(3)


def test_a_thread_of_an_allocator_does_not_keep_a_process_from_being_forked() -> None:
    code = """
        import ctypes, sys, threading
        from dynalint.confirm.worker.process.batch import can_fork

        def wait(name):
            ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
            named.set()
            done.wait()

        print(can_fork())
        for name in (b"jemalloc_bg_thd", b"other"):
            named, done = threading.Event(), threading.Event()
            thread = threading.Thread(target=wait, args=(name,))
            thread.start()
            named.wait()
            print(can_fork())
            done.set()
            thread.join()
        """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "True", "False"]


def test_tests_that_only_make_instances_come_last(project: Project) -> None:
    _written(project)
    tests = """
        import pytest
        from pkg.model import Encoder, encoder, rescaled

        def test_made():
            Encoder(4)

        def test_refused():
            with pytest.raises(ValueError):
                Encoder(4)(None)

        def test_called():
            batch = {}
            batch["pos"] = 1
            Encoder(4)(batch)

        def test_called_by_name():
            model = Encoder(4)
            assert model.width == 4
            assert isinstance(model, Encoder)
            model({"pos": 1})

        def test_given(model):
            assert model.training
            assert model
            assert model is not None
            model({"pos": 1}), Encoder

        class TestEncoder:
            def setup_method(self):
                self.model = Encoder(4)

            def test_of_self(self):
                assert self.model is not None
                assert self.model.training
                assert self.model.training
                assert self.model.training
                self.model({"pos": 1})

        def test_refused_number():
            with pytest.raises(ValueError):
                rescaled(None)

        def test_number():
            assert isinstance(rescaled(1), int)
            assert isinstance(rescaled(1), int)
    """
    project.write("tests/test_model.py", textwrap.dedent(tests))
    sites = CallSites(project.folder)
    found = [one["name"] for one in sites.tests(project.folder / "pkg/model.py", "Encoder")]
    assert found[:4] == ["test_called", "test_called_by_name", "test_given", "TestEncoder::test_of_self"]
    found = [one["name"] for one in sites.tests(project.folder / "pkg/model.py", "rescaled")]
    assert found[:2] == ["test_number", "test_refused_number"]


def test_a_conftest_that_cannot_be_imported_only_concerns_its_folder(project: Project) -> None:
    _written(project)
    project.write("tests/online/conftest.py", "import nowhere\n")
    project.write("tests/online/test_first.py", "from pkg.model import encoder\n\ndef test_it():\n    encoder(4)\n")
    call = "encoder(4)({'pos': torch.ones(2, 4)})"
    project.write("tests/test_model.py", f"import torch\nfrom pkg.model import encoder\n\ndef test_it():\n    {call}\n")
    reported: list[str] = []
    second = project.finding("pkg/model.py", 'float(batch["mask"].sum())', "Encoder.forward")
    found = _judged(project, _branch(project), second, note=reported.append, confirm_from=("tests",))
    assert [one.evidence.status for one in found] == ["confirmed", "unreached"]


def test_documents_that_build_what_uses_a_class_are_run_if_its_tests_make_no_call(project: Project) -> None:
    _written(project)
    whole = "from pkg.model import Encoder\n\ndef built():\n    return Encoder({'width': 4}, 'sesame')\n"
    project.write("pkg/whole.py", whole)
    code = "import torch\nfrom pkg.whole import built\nbuilt()({'pos': torch.ones(2, 4)})"
    project.write("README.md", f"```python\n{code}\n```\n")
    project.write("tests/test_model.py", "from pkg.model import Encoder\n\ndef test_it():\n    Encoder(4)\n")
    (found,) = _judged(project, _branch(project), confirm_from=("tests", "docs"))
    assert (found.evidence.status, found.evidence.gb) == ("confirmed", "GB0170"), found.evidence.detail
    (without,) = _judged(project, _branch(project), confirm_from=("tests",))
    assert without.evidence.status == "unconfirmed"


@pytest.mark.parametrize("size", ["", "width=8192"])
def test_documents_build_large_models_with_smaller_defaults(project: Project, size: str) -> None:
    """A size that is written stays, and only the others become smaller."""
    code = """
        import torch
        from torch import nn


        class Encoder(nn.Module):
            def __init__(self, width=4, hidden_size=1 << 14, embed_dim=1 << 14):
                super().__init__()
                self.first = nn.Linear(width, hidden_size)
                self.second = nn.Linear(hidden_size, embed_dim)

            def forward(self, x):
                x = self.second(self.first(x))
                if x.sum() > 0:
                    return x + x.shape[-1]
                return x
    """
    project.write("pyproject.toml", "")
    project.write("pkg/__init__.py", "")
    project.write("pkg/model.py", textwrap.dedent(code))
    text = f"import torch\nfrom pkg.model import Encoder\nEncoder({size})(torch.ones(2, {size[6:] or 4}))"
    project.write("README.md", f"```python\n{text}\n```\n")
    notes: list[str] = []
    (found,) = _judged(project, _branch(project), note=notes.append, confirm_from=("docs",))
    assert (found.evidence.status, found.evidence.gb) == ("confirmed", "GB0170"), notes

"""Notebooks: places in cells, fixes, lines that only IPython understands."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dynalint.analysis.notebook import Cells, NotebookError, read_notebook

Run = Callable[..., Any]

MODEL = """\
class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        print(x)
        return -x"""

CELLS = (
    ("markdown", "# A model\nif x.sum() > 0:"),
    ("code", "%matplotlib inline\nimport torch\nfrom torch import nn\nfiles = !ls \\\n    -l"),
    ("code", "%%bash\nprint(x)"),
    ("raw", "print("),
    ("code", MODEL),
    ("code", ""),
    ("code", "%time Model()(torch.ones(3))\nModel?\n"),
)


def document(cells: Any = CELLS, **metadata: Any) -> dict[str, Any]:
    return {
        "cells": [
            {"cell_type": kind, "metadata": {}, "source": code.splitlines(keepends=True)}
            | ({"outputs": [], "execution_count": 1} if kind == "code" else {})
            for kind, code in cells
        ],
        "metadata": metadata,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


@pytest.fixture
def notebook(place: Path) -> Path:
    """model.ipynb as Jupyter writes it: a branch in line 3 and a print in line 5 of the fifth cell."""
    path = place / "model.ipynb"
    path.write_text(json.dumps(document(title="é"), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def test_places_are_those_of_cells(check: Run, dynalint: Run, notebook: Path) -> None:
    ran = check()
    assert [(one["path"], one["cell"], one["line"], one["column"], one["code"]) for one in ran.json] == [
        ("model.ipynb", 5, 3, 12, "DYN101"),
        ("model.ipynb", 5, 5, 9, "DYN401"),
    ]
    assert ran.json[1]["fix"]["edits"] == [
        {"line": 5, "column": 9, "end_line": 5, "end_column": 17, "content": "if not flag: pass", "cell": 5}
    ]
    concise = dynalint("check", "--static", "--output-format", "concise").out
    assert concise.startswith("model.ipynb:cell 5:3:12: DYN101 Branch on a tensor\n")
    full = dynalint("check", "--static").out
    assert " --> model.ipynb:cell 5:3:12\n" in full
    assert "3 |         if x.sum() > 0:\n  |            ^^^^^^^^^^^\n" in full
    assert "%% cell" not in full


def test_annotations_of_a_file_that_has_no_such_lines(dynalint: Run, notebook: Path) -> None:
    assert dynalint("check", "--static", "--output-format", "github").out.startswith(
        "::error title=dynalint (DYN101),file=model.ipynb::model.ipynb:cell 5:3:12: DYN101"
    )
    issue = json.loads(dynalint("check", "--static", "--output-format", "gitlab").out)[0]
    assert issue["location"]["positions"]["begin"] == {"line": 1, "column": 1}
    assert issue["description"].endswith("(cell 5, line 3)")


def test_fixing_changes_the_cell_and_nothing_else(dynalint: Run, notebook: Path) -> None:
    before = notebook.read_text(encoding="utf-8")
    shown = dynalint("fix", "--static")
    assert "--- a/model.ipynb:cell 5\n" in shown.out
    assert "-        print(x)\n+        if not flag: pass\n" in shown.out
    ran = dynalint("fix", "--static", "--apply", "--output-format", "concise")
    assert ran.out.startswith("model.ipynb:cell 5:3:12: DYN101")
    after = notebook.read_text(encoding="utf-8")
    assert after == before.replace('"        print(x)\\n"', '"        if not flag: pass\\n"')


def test_standard_input(dynalint: Run, notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = notebook.read_bytes()
    notebook.unlink()
    out = io.BytesIO()
    arguments = ("--static", "--stdin-filename", "model.ipynb", "-")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    ran = dynalint("check", *arguments, "--output-format", "concise")
    assert ran.out.startswith("model.ipynb:cell 5:3:12: DYN101")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=out, flush=lambda: None))
    dynalint("fix", "--apply", *arguments)
    assert out.getvalue() == data.replace(b"        print(x)", b"        if not flag: pass")


def test_comments_silence_and_are_added(check: Run, notebook: Path) -> None:
    check("--add-ignore=shown")
    assert check().json == []
    assert '"        print(x)  # dynalint: ignore[DYN401] -- shown\\n"' in notebook.read_text(encoding="utf-8")


def test_a_baseline_knows_cells(check: Run, notebook: Path) -> None:
    check("--write-baseline", "known.json")
    notebook.write_text(json.dumps(document([("code", "x = 1"), *CELLS])))
    assert check("--baseline", "known.json").json == []


def test_a_notebook_is_not_run(dynalint: Run, notebook: Path) -> None:
    notebook.write_text(json.dumps(document([*CELLS, ("code", "open('ran', 'w')")])))
    ran = dynalint("check", "--confirm", "--output-format", "json")
    assert ran.code == 1
    evidence = {one["evidence"]["status"]: one["evidence"]["detail"] for one in ran.json}
    assert evidence == {"unconfirmed": "Notebooks are not run."}
    # Nor is a fix called verified that nothing was run for.
    fixed = dynalint("fix", "--confirm")
    assert "would fix 1 finding in 1 file;" in fixed.err
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ('{"cells": [\n}', 2, "the notebook is not JSON"),
        ("{}", 1, "not a version 4 notebook"),
        ('{"worksheets": []}', 1, "not a version 4 notebook"),
        ("\udcff", 1, "not UTF-8"),
    ],
)
def test_what_is_no_notebook(check: Run, place: Path, content: str, line: int, words: str) -> None:
    (place / "a.ipynb").write_text(content, encoding="utf-8", errors="surrogateescape")
    (finding,) = check().json
    assert (finding["code"], finding["line"]) == ("DYN901", line)
    assert words in finding["message"]


def test_a_syntax_error_in_a_cell(check: Run, place: Path) -> None:
    (place / "a.ipynb").write_text(json.dumps(document([("code", "x = 1"), ("code", "y = 1\ndef f(:")])))
    (finding,) = check().json
    assert (finding["code"], finding["cell"], finding["line"]) == ("DYN901", 2, 2)


def test_other_languages_are_not_read(check: Run, place: Path) -> None:
    (place / "a.ipynb").write_text(json.dumps(document([("code", "def f(:")], language_info={"name": "julia"})))
    assert check().json == []


@pytest.mark.parametrize(
    "code",
    [
        "x = '''\n%d\n''' % 3",
        "a = (1\n% 2)",
        "for i in range(3):\n    !echo {i} \\\n      more\n    print(i)",
        "%%time\nprint(1)",
        "x = %timeit -o f()\nf??\n?f\n",
        "!pip install x\n",
        "",
        "\n\n",
        "await f()",
    ],
)
@pytest.mark.parametrize("layout", [{}, {"indent": 1}, {"indent": "\t"}, {"indent": 2, "ensure_ascii": False}])
def test_what_is_not_changed_stays_byte_for_byte(code: str, layout: dict[str, Any]) -> None:
    source = json.dumps(document([("code", "é"), ("code", code), ("code", "z = 1")]), **layout)
    notebook = read_notebook(source)
    compile(notebook.text, "notebook", "exec", flags=0x2000)  # with await at the top
    assert notebook.encode(notebook.text) == source.encode()
    changed = notebook.encode(notebook.text.replace("z = 1", "z = 2"))
    assert changed == source.replace("z = 1", "z = 2").encode()
    assert Cells(notebook.text).codes()[2].rstrip("\n") == code.rstrip("\n")


def test_an_edit_across_cells_is_refused() -> None:
    notebook = read_notebook(json.dumps(document([("code", "a"), ("code", "b")])))
    with pytest.raises(NotebookError, match="crosses the boundary of a notebook cell"):
        notebook.encode("a\nb\n")

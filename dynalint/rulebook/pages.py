"""Read rules' pages. A page is a Markdown file next to a rule's module, with its documentation and examples.

    # DYN401: print-call

    The documentation, under its own headings.

    ## Proof

    ### a print between layers

    ```py
    h = self.fc(x)
    print(h.shape)  # DYN401
    return h
    ```

    ```py fixed
    h = self.fc(x)
    if not torch.compiler.is_compiling():
        print(h.shape)
    return h
    ```

Each example has a heading and a `py` block with code. A `py fixed` block with the rewrite follows, or a `text declined`
block with part of the reason why no fix is offered. Other fields of `Example` come first, in a `toml` block. There can
be prose between the blocks.

Code that imports torch is a complete module. Otherwise, the methods `__init__` and `forward` become part of a class
`Model(nn.Module)`, and the code above them goes before the class. If neither method is defined, the code is the body of
`forward`.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any, Literal, NamedTuple, get_args

from dynalint.config.toml import parse_toml
from dynalint.errors import DynalintError

Shows = Literal["graph-break", "recompile", "recompile-once", "miscompile", "clean"]
"""What running an example must show."""

_STEP = "    "
_PROOF = "## Proof"
_FENCE = re.compile(r"(`{3,})\s*(.*?)\s*")
_TORCH = re.compile(r"^(?:import|from) torch\b", re.MULTILINE)
_METHODS = re.compile(r"^def (?:__init__|forward)\(self\b", re.MULTILINE)
_CONSTRUCTOR = re.compile(r"^def __init__\(self.*\n", re.MULTILINE)
_BLOCKS = ("toml", "py", "py fixed", "text declined")
_FIELDS = {
    "target": str,
    "inputs": str,
    "shows": str,
    "gb": list,
    "exact": bool,
    "options": dict,
    "torch": str,
    "python": str,
}


class PageError(DynalintError):
    """A page with an invalid format. The message gives the file and the line."""


@dataclass(frozen=True, slots=True)
class Example:
    """An example that tests a rule, with everything needed to run it.

    `code` is a complete module, including imports. Lines that must be flagged end with a comment `# DYNxxx`, with
    spaces between codes if there is more than one. Similar lines that must not be flagged have no comment. `target` is
    an expression in the module's namespace that gives the callable. It is evaluated again for each run. `inputs` is an
    expression that gives a list of argument tuples, one for each call. It can use `torch` and the module's names, and
    the calls together must execute every branch.

    `fixed` is the exact module after the fix, and `declined` is part of the reason why no fix is offered. `shows`
    describes what a run must show. By default, this is the rule's category for flagged code and "clean" for other code.
    "recompile-once" means a recompilation on a later call, after which the code is stable. `gb` are the ids that a
    break may have, by default the rule's ids. `exact` is False if the rewrite is only equal up to rounding. `options`
    are settings that the example needs, such as `{"print-fix": "remove"}`. The example only applies to the releases in
    `torch` and `python`.
    """

    name: str
    code: str
    target: str = "Model()"
    inputs: str = "[(torch.randn(4, 8),), (-torch.ones(4, 8),), (torch.ones(4, 8),)]"
    fixed: str | None = None
    declined: str | None = None
    shows: Shows | None = None
    gb: tuple[str, ...] = ()
    exact: bool = True
    options: dict[str, object] = field(default_factory=dict)
    torch: str = ""
    python: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The contents of a rule's page. A rule without a page has no documentation and no examples."""

    documentation: str = ""
    examples: tuple[Example, ...] = ()


@cache
def page_of(module: str, title: str) -> Page:
    """Return the page next to a rule's module, or an empty page if there is none.

    Raises:
        PageError: If the page has an invalid format.
    """
    name = f"{module.rpartition('.')[2]}.md"
    try:
        data = pkgutil.get_data(module, name)
    except OSError:
        return Page()
    folder = Path(str(sys.modules[module].__file__)).parent
    return parse_page((data or b"").decode("utf-8"), str(folder / name), title)


def parse_page(text: str, shown: str, title: str) -> Page:
    """Parse a page whose heading must be `title`. Error messages refer to the page as `shown`.

    Raises:
        PageError: If the page has an invalid format.
    """
    lines = text.splitlines()
    if lines[:1] != [f"# {title}"]:
        raise PageError(f'{shown}:1: the page must begin with "# {title}".')
    drafts: list[_Draft] = []
    proof = None
    for part in _parts(lines, shown):
        if proof is None:
            proof = part.line if part.text == _PROOF and part.body is None else None
        elif part.body is not None:
            if not drafts:
                raise PageError(f'{shown}:{part.line}: a block must follow a heading "### " that names its example.')
            drafts[-1].add(part.line, part.text, part.body)
        elif part.text.startswith("### "):
            drafts.append(_Draft(shown, part.line, part.text[4:].strip()))
        else:
            raise PageError(f'{shown}:{part.line}: the heading of an example must begin with "### ".')
    for draft in drafts:
        if any(other.name == draft.name and other is not draft for other in drafts[: drafts.index(draft)]):
            raise PageError(f'{shown}:{draft.line}: two examples have the name "{draft.name}".')
    documentation = "\n".join(lines[1 : len(lines) if proof is None else proof - 1])
    return Page(documentation.strip(), tuple(draft.example() for draft in drafts))


class _Part(NamedTuple):
    """A heading, or a code block with its `body`. `text` is the heading or the text after the fence."""

    line: int
    text: str
    body: str | None


def _parts(lines: Sequence[str], shown: str) -> Iterator[_Part]:
    rows = iter(enumerate(lines, 1))
    for number, line in rows:
        if fence := _FENCE.fullmatch(line):
            body = []
            for _, inner in rows:
                if inner.rstrip() == fence[1]:
                    break
                body.append(f"{inner}\n")
            else:
                raise PageError(f"{shown}:{number}: the block that begins here is never closed.")
            yield _Part(number, fence[2], "".join(body))
        elif line.startswith("#"):
            yield _Part(number, line.rstrip(), None)


@dataclass
class _Draft:
    """An example whose blocks are still being read."""

    shown: str
    line: int
    name: str
    blocks: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)

    def add(self, line: int, kind: str, body: str) -> None:
        if kind not in _BLOCKS:
            kinds = ", ".join(_BLOCKS)
            raise PageError(f"{self.shown}:{line}: an example's block must be one of {kinds}, not {kind!r}.")
        clash = {"py fixed": "text declined", "text declined": "py fixed"}.get(kind)
        if kind in self.blocks or clash in self.blocks:
            told = f"a second block `{kind}`" if kind in self.blocks else f"`{kind}` together with `{clash}`"
            raise PageError(f'{self.shown}:{line}: the example "{self.name}" has {told}.')
        self.blocks[kind] = body
        if kind == "toml":
            self.fields = self._fields(line, body)

    def _fields(self, line: int, body: str) -> dict[str, Any]:
        document = parse_toml("\n" * line + body, self.shown)
        for key, value in document.values.items():
            place = f"{self.shown}:{document.line((key,))}"
            if key not in _FIELDS or not isinstance(value, _FIELDS[key]):
                raise PageError(f"{place}: examples have no setting {key} = {value!r}.")
            if key == "shows" and value not in get_args(Shows):
                raise PageError(f"{place}: `shows` must be one of {', '.join(get_args(Shows))}, not {value!r}.")
        return {key: tuple(value) if key == "gb" else value for key, value in document.values.items()}

    def example(self) -> Example:
        if "py" not in self.blocks:
            raise PageError(f'{self.shown}:{self.line}: the example "{self.name}" has no block `py`.')
        fixed, declined = self.blocks.get("py fixed"), self.blocks.get("text declined")
        return Example(
            self.name,
            whole_module(self.blocks["py"]),
            fixed=None if fixed is None else whole_module(fixed),
            declined=None if declined is None else declined.strip(),
            **self.fields,
        )


def whole_module(code: str) -> str:
    """Return the complete module for an example's code, as described in this module's docstring."""
    if _TORCH.search(code):
        return code
    start = _METHODS.search(code)
    if start is None:
        head, methods = "", "def forward(self, x: torch.Tensor):\n" + indent(code, _STEP)
    else:
        head, methods = code[: start.start()].strip("\n"), code[start.start() :]
    if not _CONSTRUCTOR.search(methods):
        methods = f"def __init__(self):\n{_STEP}self.fc = nn.Linear(8, 8)\n\n{methods}"
    methods = _CONSTRUCTOR.sub(lambda line: f"{line[0]}{_STEP}super().__init__()\n", methods)
    opening = "import torch\nfrom torch import nn\n"
    if head:
        # Imports go next to the other imports. Everything else is separated by blank lines.
        imports = head.startswith(("import ", "from ")) and "\n\n" not in head
        opening = f"{head}\n{opening}" if imports else f"{opening}\n{head}\n"
    return f"{opening}\n\nclass Model(nn.Module):\n{indent(methods, _STEP)}"

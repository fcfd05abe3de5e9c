"""Findings, the evidence for them, and their fixes.

These are immutable plain data, without tree nodes or tensors, so they can be cached, sent to an editor and printed by
any reporter. Reporters depend on this module only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Category = Literal["graph-break", "recompile", "miscompile", "advice", "error"]
Severity = Literal["error", "warning", "info"]
Status = Literal["static", "confirmed", "refuted", "unreached", "unconfirmed"]
Likelihood = Literal["likely", "unlikely"]
Effect = Literal["split", "rest", "frame"]
Safety = Literal["safe", "conditional", "unsafe", "suggestion"]

STATUSES: tuple[Status, ...] = ("confirmed", "static", "unconfirmed", "unreached", "refuted")
"""In order of certainty that a finding costs something, the most certain first."""
EFFECTS: tuple[Effect, ...] = ("frame", "rest", "split")
CATEGORIES: tuple[Category, ...] = ("graph-break", "recompile", "miscompile", "advice", "error")


def shortened(text: str, most: int) -> str:
    """Return text of at most `most` characters; longer text is cut and marked."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def as_sentence(text: str) -> str:
    """Return a message in the form used in findings, with long names shortened."""
    return shortened(text, 1000)


def as_name(text: str) -> str:
    """Return the name of a function in the form used in findings."""
    return shortened(text, 500)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text from (`line`, `column`) to (`end_line`, `end_column`) by `content`.

    Lines and columns are 1-based, in characters, and the end is exclusive. `path` is None for the file of the finding,
    and otherwise relative to the working directory. In a notebook, lines are those of the cell with the number `cell`.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    content: str
    path: str | None = None
    cell: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the edit with the keys of the contract; `path` only for another file, `cell` only in notebooks."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Fix:
    """A rewrite that removes a finding, or the reason why there is none (`declined`).

    `verified` is True if the rewrite was run and equal to the original, False if it differed, and None if it was not
    run. `changes` are clauses about differences that the chosen equivalence permits. `tests` are the project's own
    tests that reach the code and pass with the rewrite as before. `applied` is set once the rewrite is made.
    """

    title: str
    safety: Safety
    conditions: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    verified: bool | None = None
    changes: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    declined: str | None = None
    applied: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the fix with the keys of the contract."""
        return {
            "title": self.title,
            "safety": self.safety,
            "conditions": list(self.conditions),
            "verified": self.verified,
            "changes": list(self.changes),
            "tests": list(self.tests),
            "edits": [edit.to_json() for edit in self.edits],
            "declined": self.declined,
            **({"applied": True} if self.applied else {}),
        }


@dataclass(frozen=True, slots=True)
class Evidence:
    """The result of running the code, for one finding. `fullgraph` and `recompiles` are None if nothing was run.

    `gb` is Dynamo's id of the observed break, `torch` the release on which it was observed. `effect` says what a break
    costs beyond another graph: "rest" if the rest of the function runs in eager, "frame" if all of it does.
    """

    status: Status = "static"
    detail: str = ""
    gb: str | None = None
    torch: str | None = None
    fullgraph: Literal["passes", "breaks"] | None = None
    recompiles: int | None = None
    effect: Effect | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the evidence, keyed as in the JSON output."""
        return asdict(self)


STATIC = Evidence()


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a finding, as far as the source shows it; `report/ranking.py` orders findings by it.

    `loop` names the function with the loop that runs the code, `gives_up` the function that Dynamo gives up on because
    of the graph break; both are empty if there is none. `reads` says that the value of a tensor is read into Python, so
    that a GPU has to finish first.
    """

    loop: str = ""
    gives_up: str = ""
    reads: bool = False


NO_COST = Cost()


@dataclass(frozen=True, slots=True)
class Step:
    """A place on the call chain from a compiled root to a finding: a call, or the header of a function."""

    function: str
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A line that keeps a model from compiling well; the attributes are those of the contract.

    Lines and columns are 1-based, in characters, and the end is exclusive; `path` is relative to the working directory,
    with "/" on every platform. `region` is the call chain from a compiled root to `function`; `steps` are places in its
    functions, if known. In a notebook, lines are those of the cell with the 1-based number `cell`. `fingerprint` does
    not change when lines move. `doubt` is a sentence that says why the code is rarely compiled, or empty. `setting` is
    the `torch._dynamo.config` setting under which Dynamo traces the code unchanged, or empty. `cost` says what makes
    the finding cost more than others, as far as known.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    code: str
    name: str
    category: Category
    severity: Severity
    message: str
    help: str = ""
    url: str = ""
    function: str = ""
    region: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    gb: tuple[str, ...] = ()
    evidence: Evidence = field(default=STATIC)
    fix: Fix | None = None
    cell: int | None = None
    fingerprint: str = ""
    doubt: str = ""
    setting: str = ""
    cost: Cost = NO_COST

    @property
    def place(self) -> str:
        """The path, including the cell of a notebook."""
        return self.path if self.cell is None else f"{self.path}:cell {self.cell}"

    @property
    def sort_key(self) -> tuple[str, int, int, str, int, int, str]:
        """The sort key of findings in every report: by place, then by code."""
        return (self.path, self.line, self.column, self.code, self.end_line, self.end_column, self.message)

    @property
    def likelihood(self) -> Likelihood:
        """How likely the code is to be compiled."""
        return "unlikely" if self.doubt else "likely"

    @property
    def fixable(self) -> bool:
        """Whether the finding has a fix with edits."""
        return self.fix is not None and self.fix.declined is None and bool(self.fix.edits)

    def to_json(self) -> dict[str, Any]:
        """Return the finding with the keys of the contract, as a JSON-compatible value."""
        return {
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
            "code": self.code,
            "name": self.name,
            "url": self.url,
            "category": self.category,
            "severity": self.severity,
            "message": self.message,
            "help": self.help,
            "function": self.function,
            "region": list(self.region),
            "gb": list(self.gb),
            "evidence": self.evidence.to_json(),
            "fix": None if self.fix is None else self.fix.to_json(),
            "fingerprint": self.fingerprint,
            "likelihood": self.likelihood,
            "doubt": self.doubt,
            **({"setting": self.setting} if self.setting else {}),
            **({} if self.cost == NO_COST else {"cost": asdict(self.cost)}),
            **({} if self.cell is None else {"cell": self.cell}),
        }

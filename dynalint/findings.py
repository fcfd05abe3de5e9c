"""Findings, the evidence for them, and their fixes.

These are immutable plain data without tree nodes or tensors, so they can be cached, sent to an editor, and printed by
any reporter. Reporters depend only on this module.
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
"""Sorted by how certain it is that a finding costs something, the most certain first."""
EFFECTS: tuple[Effect, ...] = ("frame", "rest", "split")
CATEGORIES: tuple[Category, ...] = ("graph-break", "recompile", "miscompile", "advice", "error")


def shortened(text: str, most: int) -> str:
    """Shorten `text` to at most `most` characters, and mark where it was cut."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def as_sentence(text: str) -> str:
    """Return a message as it is used in findings, shortened if it is too long."""
    return shortened(text, 1000)


def as_advice(text: str) -> str:
    """Return a rule's help as it is used in findings, as a complete sentence. Rules may give only a clause."""
    text = f"{text[:1].upper()}{text[1:]}"
    return as_sentence(text if not text or text.endswith((".", "!", "?")) else f"{text}.")


def as_name(text: str) -> str:
    """Return a function name as it is used in findings, shortened if it is too long."""
    return shortened(text, 500)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text from (`line`, `column`) to (`end_line`, `end_column`) with `content`.

    Lines and columns are 1-based, columns count characters, and the end is exclusive. `path` is None if the edit is in
    the finding's own file, and otherwise relative to the working directory. In a notebook, line numbers are relative to
    cell number `cell`.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    content: str
    path: str | None = None
    cell: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the edit as JSON. `path` is only present for other files, and `cell` only in notebooks."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Fix:
    """A rewrite that removes a finding, or the reason why there is none (`declined`).

    `verified` is True if running the rewrite gave the same results as the original, False if it did not, and None if
    the rewrite was not run. `changes` are clauses about differences that the chosen equivalence allows. `tests` are the
    project's own tests that reach the code and still pass with the rewrite. `applied` is true once the rewrite has been
    made.
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
        """Return the fix with the same keys as the JSON output."""
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
    """What running the code showed about a finding. `fullgraph` and `recompiles` are None if nothing was run.

    `gb` is Dynamo's id for the observed break, and `torch` is the release on which it was observed. `effect` describes
    what a break costs in addition to another graph: "rest" if the rest of the function runs in eager mode, "frame" if
    the whole function does.
    """

    status: Status = "static"
    detail: str = ""
    gb: str | None = None
    torch: str | None = None
    fullgraph: Literal["passes", "breaks"] | None = None
    recompiles: int | None = None
    effect: Effect | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the evidence with the same keys as the JSON output."""
        return asdict(self)


STATIC = Evidence()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a finding costs, as far as the source shows it. `report/ranking.py` sorts findings by cost.

    `loop` names the function with the loop that runs the code, and `gives_up` names the function that Dynamo gives up
    on because of the graph break. Both are empty if there is no such function. `reads` means that the code reads a
    tensor's value into Python, so a GPU has to finish first.
    """

    loop: str = ""
    gives_up: str = ""
    reads: bool = False


NO_COST = Cost()


@dataclass(frozen=True, slots=True)
class Step:
    """A step in the call chain from a compiled root to a finding: a call, or a function header."""

    function: str
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A line that keeps a model from compiling well, with the same attributes as in the JSON output.

    Lines and columns are 1-based, columns count characters, and the end is exclusive. `path` is relative to the working
    directory, with "/" on every platform. `region` is the call chain from a compiled root to `function`, and `steps`
    are locations in its functions, if known. In a notebook, line numbers are relative to cell number `cell`, which is
    1-based. `fingerprint` does not change when lines move. `doubt` is a sentence that explains why the code is rarely
    compiled, or empty. `setting` is the `torch._dynamo.config` setting that lets Dynamo trace the code without changes,
    or empty. `cost` describes what makes the finding more expensive than others, as far as known. `inside` means that
    Dynamo breaks in a wrapper that the line calls.
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
    inside: bool = False

    @property
    def place(self) -> str:
        """The path, including the cell if the file is a notebook."""
        return self.path if self.cell is None else f"{self.path}:cell {self.cell}"

    @property
    def sort_key(self) -> tuple[str, int, int, str, int, int, str]:
        """Findings are sorted by location, then by code."""
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
        """Return the finding as a value that can be converted to JSON, with the same keys as the JSON output."""
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

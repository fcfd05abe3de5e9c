"""What dynalint has to say: findings, the evidence for them and the fixes on offer.

Everything here is plain immutable data without a tree node or a tensor in it, so that it can be cached, sent to an
editor and printed by any reporter. Reporters know this module and nothing else.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Category = Literal["graph-break", "recompile", "miscompile", "advice", "error"]
Severity = Literal["error", "warning", "info"]
Status = Literal["static", "confirmed", "refuted", "unreached", "unconfirmed"]
Likelihood = Literal["likely", "unlikely"]
Safety = Literal["safe", "conditional", "unsafe", "suggestion"]

CATEGORIES: tuple[Category, ...] = ("graph-break", "recompile", "miscompile", "advice", "error")


def shortened(text: str, most: int) -> str:
    """Return text of at most `most` characters; of a longer one, its beginning with a mark."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def as_sentence(text: str) -> str:
    """Return a message as findings have it, however long the names in it are."""
    return shortened(text, 1000)


def as_name(text: str) -> str:
    """Return the name of a function as findings have it."""
    return shortened(text, 500)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text from (`line`, `column`) up to (`end_line`, `end_column`) by `content`.

    Lines and columns are 1-based, columns count characters, the end is exclusive. `path` is None for the file of the
    finding itself, else the file to change, relative to the working directory. In a notebook, lines are those of the
    cell with the number `cell`.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    content: str
    path: str | None = None
    cell: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the edit as the contract words it; `path` appears only for another file, `cell` in notebooks."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Fix:
    """A rewrite that would remove a finding, or the reason why there is none (`declined`).

    `verified` is True where a run has shown the rewrite equal to the original, False where it showed a difference,
    None where it was not run. `changes` are clauses about what differed and the equivalence in force let pass.
    """

    title: str
    safety: Safety
    conditions: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    verified: bool | None = None
    changes: tuple[str, ...] = ()
    declined: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fix as the contract words it."""
        return {
            "title": self.title,
            "safety": self.safety,
            "conditions": list(self.conditions),
            "verified": self.verified,
            "changes": list(self.changes),
            "edits": [edit.to_json() for edit in self.edits],
            "declined": self.declined,
        }


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run showed of a finding. `fullgraph` and `recompiles` are None where nothing was run.

    `gb` is Dynamo's own id for the break that was seen, `torch` the release it was seen on.
    """

    status: Status = "static"
    detail: str = ""
    gb: str | None = None
    torch: str | None = None
    fullgraph: Literal["passes", "breaks"] | None = None
    recompiles: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as the contract words it."""
        return asdict(self)


STATIC = Evidence()


@dataclass(frozen=True, slots=True)
class Step:
    """A line of a function on the way from a compiled root to a finding: the call further on, else its head."""

    function: str
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One line that keeps a model from compiling, in the terms of the contract.

    Lines and columns are 1-based, columns count characters, the end is exclusive; `path` is relative to the working
    directory with "/" on every system. `region` is the chain of calls from a compiled root to `function`, `steps` a
    place in each of its functions, where that is known. In a notebook, lines are those of the cell with the 1-based
    number `cell`. `fingerprint` stays the same when lines move. `doubt` is a sentence that says why hardly anybody
    compiles the code, empty where nothing tells that. `setting` is the switch of `torch._dynamo.config` under which
    Dynamo traces the code as it is, empty where there is none.
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

    @property
    def place(self) -> str:
        """The path, and the cell of a notebook."""
        return self.path if self.cell is None else f"{self.path}:cell {self.cell}"

    @property
    def sort_key(self) -> tuple[str, int, int, str, int, int, str]:
        """The order of every report: by place, then by code."""
        return (self.path, self.line, self.column, self.code, self.end_line, self.end_column, self.message)

    @property
    def likelihood(self) -> Likelihood:
        """How likely it is that its code is compiled."""
        return "unlikely" if self.doubt else "likely"

    @property
    def fixable(self) -> bool:
        """Whether a fix with edits is on offer."""
        return self.fix is not None and self.fix.declined is None and bool(self.fix.edits)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as the contract words it, ready for `json.dumps`."""
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
            **({} if self.cell is None else {"cell": self.cell}),
        }

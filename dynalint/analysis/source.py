"""Source files with their bytes, text and syntax trees, and conversion between positions in these."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from dynalint.analysis.compact import compacted
from dynalint.analysis.notebook import SUFFIX, Cells, Notebook, NotebookError, read_notebook
from dynalint.profiling import charged, count
from dynalint.projects.reading import MOST_BYTES, MOST_NOTEBOOK_BYTES, read_bounded

# The line endings that Python's tokenizer recognizes. `str.splitlines` recognizes more, such as form feeds and U+2028,
# so its line numbers would differ from those in tracebacks.
_NEWLINE = re.compile(r"\r\n|\n|\r")
_LONGEST_QUOTE = 60
_LONGEST_REASON = 200
_PLAIN = rb"""abc-def + "\x41\u0041\n" +AEE- ~{ xn--a ~ """
_GENERATED = "@generated"
# The words that most other generators use, in comments.
_NOT_EDITED = re.compile(r"\bgenerated\b.*\bdo not edit\b|\bdo not edit\b.*\bgenerated\b", re.IGNORECASE)
_TOP = 20


@dataclass(frozen=True, slots=True)
class SourceError:
    """The reason why a file cannot be read as Python, in one sentence, and the 1-based position of the error."""

    line: int
    column: int
    message: str


@dataclass(eq=False)
class SourceFile:
    """A Python file read from disk or given as text.

    `text` is the decoded text with its original line endings and without a byte-order mark. The text of a notebook
    consists of its code cells (see `notebook.py`). `tree` is None if, and only if, there is an `error`. Offsets count
    characters of `text`, and lines are 1-based. Columns of syntax tree nodes count UTF-8 bytes from 0, as in `ast`. All
    other columns are 1-based and count characters. `is_read` is true if the text was read from the file. `kept` is the
    file's content if the text does not determine it, because keeping every file twice would take a lot of memory.
    """

    path: Path
    text: str = ""
    encoding: str = "utf-8"
    bom: bool = False
    tree: ast.Module | None = None
    error: SourceError | None = None
    kept: bytes | None = field(default=None, repr=False)
    is_read: bool = False
    notebook: Notebook | None = field(default=None, repr=False)

    @property
    def data(self) -> bytes | None:
        """The content of the file, or None if it was given as text or could not be read."""
        return self.encode(self.text) if self.kept is None and self.is_read else self.kept

    @cached_property
    def identity(self) -> str:
        """A hash of the content, or the reason why it could not be read."""
        data = self.data
        return identity(self.error.message if data is None and self.error is not None else data)

    @cached_property
    def cells(self) -> Cells | None:
        """The positions of a notebook's cells in the text, or None for any other file."""
        return Cells(self.text) if self.path.suffix == SUFFIX else None

    @cached_property
    def generated(self) -> bool:
        """Whether `@generated` or a comment near the top of the file says that a program wrote it."""
        top = self.lines[:_TOP]
        comments = " ".join(line for line in top if line.lstrip().startswith("#"))
        return any(_GENERATED in line for line in top) or _NOT_EDITED.search(comments) is not None

    @cached_property
    def line_starts(self) -> array[int]:
        """The offset of each line's first character."""
        starts = array("I", accumulate(map(len, io.StringIO(self.text, newline="")), initial=0))
        return starts if self.text.endswith(("\r", "\n")) or len(starts) == 1 else starts[:-1]

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines without their endings. If the text ends with a line break, the last one is empty."""
        return tuple(_NEWLINE.split(self.text))

    @cached_property
    def newline(self) -> str:
        """The file's first line ending, or a line feed if there is none."""
        for position, character in enumerate(self.text):
            if character == "\n":
                return "\n"
            if character == "\r":
                return "\r\n" if self.text.startswith("\r\n", position) else "\r"
        return "\n"

    def line(self, number: int) -> str:
        """Return line `number` (1-based) without its ending, or an empty string past the end of the file."""
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    def offset(self, line: int, byte_column: int) -> int:
        """Return the offset of a tree position, given as a 1-based line and a 0-based column in UTF-8 bytes."""
        start = self.line_starts[line - 1]
        prefix = self.text[start : start + byte_column]
        if prefix.isascii():
            return start + byte_column
        encoded = self.text[start : start + byte_column].encode("utf-8")[:byte_column]
        return start + len(encoded.decode("utf-8", errors="ignore"))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and the 1-based character column of an offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def span(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> tuple[int, int]:
        """Return the start and end offsets of a node with a position."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def segment(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> str:
        """Return the source text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def encode(self, text: str) -> bytes:
        """Return `text` as bytes in this file's encoding, with a byte-order mark if the file has one."""
        if self.notebook is not None:
            return self.notebook.encode(text)
        return (b"\xef\xbb\xbf" if self.bom else b"") + text.encode(self.encoding)


def read_file(path: Path) -> bytes | str:
    """Return the content of a file, or a sentence that explains why it cannot be read."""
    try:
        return read_bounded(path, MOST_NOTEBOOK_BYTES if path.suffix == SUFFIX else MOST_BYTES)
    except (OSError, ValueError) as fault:  # ValueError: the name contains a null byte
        return f"cannot read the file: {getattr(fault, 'strerror', None) or fault}"


def identity(data: bytes | str | None) -> str:
    """Return a hash of the content of a file, or a sentence with the reason why it could not be read."""
    return hashlib.sha256(data).hexdigest() if isinstance(data, bytes) else f"unreadable: {data}"


def read_source(path: Path) -> SourceFile:
    """Read and parse a file. If it cannot be read, is binary or is not Python, `error` says so."""
    return Sources().read(path)


class Sources:
    """Reads files in the same way as `read_source`, but parses unchanged text only once."""

    def __init__(self) -> None:
        self._read: dict[Path, SourceFile] = {}
        self._given: dict[Path, SourceFile] = {}

    def read(self, path: Path) -> SourceFile:
        """Read a file."""
        data = read_file(path)
        if isinstance(data, str):
            return SourceFile(path, error=SourceError(1, 1, data))
        known = self._read.get(path)
        if known is None or known.data != data:
            known = self._read[path] = parse_source(path, data)
        return known

    def given(self, path: Path, text: str) -> SourceFile:
        """Return the file at `path` with the given text."""
        known = self._given.get(path)
        if known is None or known.text != text:
            known = self._given[path] = parse_text(path, text)
        return known


def parse_source(path: Path, data: bytes) -> SourceFile:
    """Parse `data` as the content of `path`, decoded as PEP 263 specifies. Only a notebook's code cells are parsed."""
    file = decode_source(path, data)
    return file if file.error is not None else _parsed(file)


def decode_source(path: Path, data: bytes) -> SourceFile:
    """Decode `data` like `parse_source`, but do not parse it.

    There is no tree, and an error only if the text cannot be decoded.
    """
    if path.suffix == SUFFIX:
        return _decode_notebook(path, data)
    bom = data.startswith(b"\xef\xbb\xbf")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        encoding = "utf-8" if bom else encoding
        _check_plain(encoding)
        text = (data[3:] if bom else data).decode(encoding)
    except Exception as fault:  # noqa: BLE001 - codecs may raise anything
        reason = str(fault.msg if isinstance(fault, SyntaxError) else fault) or type(fault).__name__
        return SourceFile(path, kept=data, error=SourceError(1, 1, _decoding_fault(data, reason)))
    return SourceFile(path, text, encoding, bom, kept=None if encoding == "utf-8" else data, is_read=True)


def _decode_notebook(path: Path, data: bytes) -> SourceFile:
    try:
        notebook = read_notebook(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return SourceFile(path, kept=data, error=SourceError(1, 1, "the notebook is not UTF-8 text"))
    except NotebookError as fault:
        return SourceFile(path, kept=data, error=SourceError(fault.line, 1, str(fault)))
    return SourceFile(path, notebook.text, kept=data, notebook=notebook)


def parse_text(path: Path, text: str) -> SourceFile:
    """Parse decoded text, and ignore any encoding declared in a comment."""
    return _parsed(SourceFile(path, text))


def _parsed(file: SourceFile) -> SourceFile:
    """Add the syntax tree to a file, or the reason why there is none."""
    with charged("parsing", file=file.path):
        count("parsing")
        return _with_tree(file)


def _with_tree(file: SourceFile) -> SourceFile:
    text = file.text
    if "\0" in text:
        line, column = file.position(text.index("\0"))
        file.error = SourceError(line, column, "the file contains null bytes: it is binary, not Python source")
        return file
    try:
        tree = ast.parse(text, filename=str(file.path))
        file.tree = compacted(tree, text.count("\n") + text.count("\r") + 1)
    except SyntaxError as fault:
        line = min(max(fault.lineno or 1, 1), len(file.line_starts))
        file.error = SourceError(line, max(fault.offset or 1, 1), fault.msg)
    except (RecursionError, MemoryError, ValueError):
        file.error = SourceError(1, 1, "Python cannot parse the code: it is nested too deeply, or malformed")
    return file


def _check_plain(encoding: str) -> None:
    """Reject encodings that change the meaning of ASCII, such as escapes, `punycode` and `utf-7`.

    Python runs files with these encodings. However, the decoded text differs from what an editor shows, so columns
    cannot refer to it, and decoding can take unbounded time.

    Raises:
        LookupError: If the encoding is unknown or is one of these.
    """
    if encoding != "utf-8" and _PLAIN.decode(encoding, "replace") != _PLAIN.decode():
        raise LookupError(f"{encoding} is an encoding that makes code look different from what it does")


def _decoding_fault(data: bytes, reason: str) -> str:
    if b"\0" in data:
        return "the file contains null bytes: it is binary, not Python source"
    return f"cannot decode the file: {reason[:_LONGEST_REASON]}"


def quote(file: SourceFile, node: ast.expr | ast.stmt) -> str:
    """Return a node's text for use in a sentence: in backticks, on one line, and shortened if it is long."""
    text = " ".join(file.segment(node).split())
    if len(text) > _LONGEST_QUOTE:
        text = f"{text[: _LONGEST_QUOTE - 4].rstrip()} ..."
    return f"`{text}`"

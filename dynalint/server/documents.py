"""The open documents, the files that they belong to, and the cells of notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pygls.uris import to_fs_path
from pygls.workspace import Workspace

from dynalint.analysis.notebook import is_python, text_of
from dynalint.analysis.source import SourceFile
from dynalint.findings import Edit, Finding
from dynalint.server.analyst import AnalysedFile
from dynalint.server.translate import uri_of


def path_of(uri: str) -> Path | None:
    """Return the path of a document, or None if the document is not a file."""
    name = to_fs_path(uri) if urlsplit(uri).scheme == "file" else None
    return Path(name) if name else None


@dataclass(frozen=True)
class Opened:
    """An open file. `cells` maps a notebook's cell numbers to URIs, and is empty for other files."""

    uri: str
    path: Path
    text: str
    cells: dict[int, str]

    def uri_at(self, cell: int | None) -> str:
        """Return the URI of a cell's document, or the file's URI if `cell` is None."""
        return self.uri if cell is None else self.cells.get(cell, self.uri)


def opened(workspace: Workspace) -> Iterator[Opened]:
    """Yield the files that are open in the editor."""
    cells_of_notebooks: set[str] = set()
    for notebook in workspace.notebook_documents.values():
        documents = [cell.document for cell in notebook.cells]
        cells_of_notebooks.update(documents)
        path = path_of(notebook.uri)
        if path is not None:
            cells = {
                number: uri
                for number, uri in enumerate(documents, 1)
                if uri in workspace.text_documents and is_python(workspace.text_documents[uri].source)
            }
            text = text_of({number: workspace.text_documents[uri].source for number, uri in cells.items()})
            yield Opened(notebook.uri, path, text, cells)
    for uri, document in workspace.text_documents.items():
        path = path_of(uri)
        if uri not in cells_of_notebooks and path is not None:
            yield Opened(uri, path, document.source, {})


def lines_of(file: SourceFile, cell: int | None) -> tuple[str, ...]:
    """Return the lines of a cell, or of the whole file if it is not a notebook."""
    if cell is None or file.cells is None:
        return file.lines
    return tuple(file.cells.codes().get(cell, "").split("\n"))


def place_of(uri: str, file: Opened) -> int | None:
    """Return the number of the cell with this URI, or None if it is the file's own URI."""
    return next((number for number, other in file.cells.items() if other == uri), None)


def in_document(finding: Finding, seen: AnalysedFile, file: Opened, uri: str) -> bool:
    """Return whether a finding is in the document with this URI."""
    return file.uri_at(finding.cell) == uri and seen.file.path == file.path


def edited_uri(edit: Edit, file: Opened, folder: Path) -> str:
    """Return the URI of the document that `edit` changes."""
    return file.uri_at(edit.cell) if edit.path is None else uri_of((folder / edit.path).absolute())

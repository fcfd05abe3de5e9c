"""Find where a project calls its own classes: tests, code in docstrings and READMEs, examples, `__main__` blocks.

The search only looks at text. A test that never names a class may still use it through a fixture, through a helper in
its own file or in `conftest.py`, or through project code that builds it. For each of these steps, dynalint searches for
the name found in the previous step.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import itertools
import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from dynalint.confirm.searched_files import WORD, SearchedBlock, SearchedFile
from dynalint.projects.reading import is_inside, read_bounded

_TEST_FILE = re.compile(r"test_\w+\.py|\w+_tests?\.py")
_EXAMPLE_FOLDERS = frozenset(("example", "examples", "demo", "demos"))
_TEST_FOLDERS = frozenset(("test", "tests", "testing"))
_PASSED_OVER = frozenset(("site-packages", "node_modules", "build", "dist", "__pycache__"))
_FENCED = re.compile(
    r"^ {0,3}```+ *(?:python|py|pycon)\b[^\n]*\n(.*?)^ {0,3}```", re.MULTILINE | re.DOTALL | re.IGNORECASE
)
_DIRECTIVE = re.compile(
    r"^([ \t]*)\.\. (?:code|code-block|sourcecode|testcode):: *(?:python3?|pycon)?[ \t]*\n"
    r"(?:\1[ \t]+:.*\n)*((?:[ \t]*\n|\1[ \t]+\S.*(?:\n|$))+)",
    re.MULTILINE,
)
_DOCUMENTS = (".md", ".rst")
_IMPORT = re.compile(r"^[ \t>]*(?:from ([A-Za-z]\w*(?:\.\w+)*) )?import (\w[\w., \t]*?)[ \t]*(?:#.*)?$", re.MULTILINE)
_CALLED = re.compile(r"_*(test|main|demo|example|run|check)(_\w*)?|\w+_(test|demo|example)")
_MOST_FILES = 4000
_LARGEST = 1 << 19
# The maximum number of steps from a class to a name in a test: through code that builds it, code that builds that code,
# and so on.
STEPS = 3
_MOST_TESTS = 24
_MOST_SNIPPETS = 8


def _is_helper(path: Path, test: SearchedFile) -> bool:
    """Return whether a test file is another test file's `conftest.py` or is imported by it."""
    if path.name == "conftest.py":
        return test.path.is_relative_to(path.parent)
    return path.stem in test.imported


class CallSites:
    """The project files below a folder. Each file is read only once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._classes: dict[str, list[SearchedBlock]] = {}
        self._above: dict[Path, list[SearchedFile]] = {}

    @cached_property
    def _files(self) -> list[SearchedFile]:
        found = []
        for path in self._paths():
            with suppress(OSError, ValueError):
                found.append(SearchedFile(path, read_bounded(path, _LARGEST).decode(errors="replace")))
        return found

    def _paths(self) -> Iterator[Path]:
        count = 0
        for where, folders, names in os.walk(self._folder):
            folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _PASSED_OVER)
            for path in (Path(where, name) for name in sorted(names) if name.endswith((".py", *_DOCUMENTS))):
                # A file outside the project that is reached through a link must not be run.
                if count < _MOST_FILES and (not path.is_symlink() or is_inside(path, self._folder)):
                    count += 1
                    yield path

    @cached_property
    def _tests(self) -> list[SearchedFile]:
        return [one for one in self._files if self._is_test(one.path)]

    @cached_property
    def _library(self) -> list[SearchedFile]:
        barred = _TEST_FOLDERS | _EXAMPLE_FOLDERS
        return [one for one in self._files if one.path.suffix == ".py" and barred.isdisjoint(self._parts(one.path))]

    def _parts(self, path: Path) -> tuple[str, ...]:
        return path.relative_to(self._folder).parts

    def _is_test(self, path: Path) -> bool:
        named = _TEST_FILE.fullmatch(path.name) is not None
        return path.suffix == ".py" and (named or not _TEST_FOLDERS.isdisjoint(self._parts(path)[:-1]))

    def tests(
        self, file: Path, name: str, lines: Mapping[str, Sequence[Sequence[int]]] = MappingProxyType({})
    ) -> list[dict[str, str]]:
        """Return tests that use a class or function in `file`, found by name.

        The most direct come first, then those that name the classes and functions with the `lines` to reach, by file,
        and then the shortest. Those that only make an instance come last.
        """
        found: dict[tuple[str, str], tuple[int, bool, bool, bool, int]] = {}
        inside = frozenset(self._defined_at(lines)) - {name}
        for step, names in enumerate(self._ways(name)):
            for test in self._tests:
                reaching = self._reaching(test, names)
                if not reaching:
                    continue
                for block in test.blocks:
                    if not block.is_test:
                        continue
                    for inherited in self._inherited(block.bases, names):
                        owner = block.name.partition("::")[0]
                        # Files with base classes like these are often named like test files.
                        cost = inherited.cost + 500 * (not owner.startswith("Test"))
                        idle, far = inherited.is_idle(reaching), inside.isdisjoint(block.words)
                        rank = (step, idle, far, file.stem.strip("_") not in test.path.name, cost)
                        found.setdefault((str(test.path), f"{owner}::{inherited.name.partition('::')[2]}"), rank)
                    if not reaching.isdisjoint(block.words):
                        idle, far = block.is_idle(reaching), inside.isdisjoint(block.words)
                        rank = (step, idle, far, file.stem.strip("_") not in test.path.name, block.cost)
                        found.setdefault((str(test.path), block.name), rank)
            if len(found) >= _MOST_TESTS:
                break
        best = sorted(found, key=lambda key: (found[key], key))[:_MOST_TESTS]
        return [{"path": path, "name": test} for path, test in best]

    def _defined_at(self, lines: Mapping[str, Sequence[Sequence[int]]]) -> Iterator[str]:
        """Yield the names of the top-level classes and functions that contain some of the lines."""
        for one in self._library:
            spans = lines.get(str(one.path), ())
            for node in one.tree.body if spans else ():
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and any(
                    node.lineno <= first <= (node.end_lineno or 0) for first, _ in spans
                ):
                    yield node.name

    def _inherited(self, bases: Sequence[str], names: frozenset[str]) -> Iterator[SearchedBlock]:
        """Yield the tests in the classes `bases`, and in their own base classes, that mention one of the names."""
        waiting, known = list(bases), set(bases)
        for base in waiting:
            for one in self._blocks_of(base):
                if one.is_test and not one.bases and not names.isdisjoint(one.words):
                    yield one
                waiting += [more for more in one.bases if more not in known]
                known.update(one.bases)

    def _blocks_of(self, name: str) -> list[SearchedBlock]:
        """Return the blocks for the classes with this name, if they have tests or base classes."""
        if name not in self._classes:
            head = re.compile(rf"^class[ \t]+{re.escape(name)}\b", re.MULTILINE)
            files = (one for one in self._files if name in one.words and head.search(one.text))
            blocks = [block for one in files for block in one.blocks if block.name.partition("::")[0] == name]
            self._classes[name] = [block for block in blocks if "::" in block.name or block.bases]
        return self._classes[name]

    def _ways(self, name: str) -> Iterator[frozenset[str]]:
        """Yield the name, then the names of project code that mentions it, then the names of code mentioning those.

        The bases of the class come last. Some tests find all classes below a base, whose names they do not know.
        """
        names, known = frozenset((name,)), {name}
        for _ in range(STEPS):
            yield names
            blocks = (block for one in self._library if not names.isdisjoint(one.words) for block in one.blocks)
            mentioning = (one.name for one in blocks if not names.isdisjoint(one.words))
            names = frozenset(name.partition("::")[0] for name in mentioning) - known
            known |= names
            if not names:
                break
        own = (block for one in self._library if name in one.words for block in one.blocks if block.name == name)
        bases = itertools.chain.from_iterable(one.bases for one in own)
        found = (base for base in bases if any(_defines(one, base) for one in self._library))
        if names := frozenset(found) - known:
            yield names

    def _reaching(self, test: SearchedFile, names: frozenset[str]) -> set[str]:
        """Return `names`, and the names of the fixtures, helpers and bases of a test that use any of them."""
        above = self._helpers(test)
        own = [one for one in (*above, test) if not names.isdisjoint(one.words)]
        found = set(names)
        grown = bool(own)
        while grown:
            blocks = (block for one in (*above, test) for block in one.blocks if not block.is_test)
            new = {one.name for one in blocks if one.name not in found and not found.isdisjoint(one.words)}
            found |= new
            grown = bool(new)
        return found if own else set()

    def _helpers(self, test: SearchedFile) -> list[SearchedFile]:
        """Return the test files that contain fixtures and helpers for `test`."""
        if test.path not in self._above:
            others = (one for one in self._tests if one is not test)
            self._above[test.path] = [one for one in others if _is_helper(one.path, test)]
        return self._above[test.path]

    def snippets(self, file: Path, name: str, steps: int = STEPS) -> list[dict[str, str]]:
        """Return runnable code that uses a class or function: docstrings, `__main__` blocks, READMEs and examples.

        `file` is the file that defines the class or function. Code that names it comes first, followed by code that
        names what is built from it, in up to `steps` steps.
        """
        found: dict[tuple[str, Path], str] = {}
        here = {one.path for one in self._files if one.path == file or not _defines(one, name)}
        for names in itertools.islice(self._ways(name), steps):
            examples = (found for found in self._examples(names) if found[2] in here)
            beside = (found for found in self._beside(file, names) if found[2] in here)
            some = itertools.chain(beside, self._in_documents(names), examples)
            for where, code, one in itertools.islice(some, _MOST_SNIPPETS):
                found.setdefault((code, one), where)
            if len(found) >= _MOST_SNIPPETS:
                break
        best = itertools.islice(found.items(), _MOST_SNIPPETS)
        return [{"where": where, "code": self._importing(one, code), "file": str(one)} for (code, one), where in best]

    def _importing(self, file: Path, code: str) -> str:
        """Return the code with imports for names that nothing binds, written as the project usually writes them."""
        tree = ast.Module(_statements(code), [])
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        own = next((one.tree.body for one in self._files if one.path == file and file.suffix == ".py"), [])
        for statement in [*own, *(node for node in ast.walk(tree) if isinstance(node, ast.stmt))]:
            names -= _bound(statement)
        return "\n".join([*(self._imports[name] for name in sorted(names) if name in self._imports), code])

    @cached_property
    def _imports(self) -> dict[str, str]:
        """The most common import statement for each name."""
        found: dict[str, Counter[str]] = {}
        for module, names in (match.groups() for one in self._files for match in _IMPORT.finditer(one.text)):
            for item in map(str.strip, names.split(",")):
                original, _, alias = item.partition(" as ")
                if module or alias or "." not in original:
                    statement = f"from {module} import {item}" if module else f"import {item}"
                    found.setdefault(alias or original, Counter())[statement] += 1
        return {name: counts.most_common(1)[0][0] for name, counts in found.items() if name not in vars(builtins)}

    def _beside(self, file: Path, names: frozenset[str]) -> Iterator[tuple[str, str, Path]]:
        for one in self._library:
            if names.isdisjoint(one.words):
                continue
            before: list[ast.stmt] = []
            for node in ast.walk(one.tree):
                if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.Module)):
                    code = _examples_in(ast.get_docstring(node) or "")
                    if not names.isdisjoint(WORD.findall(code)):
                        yield (
                            f"the docstring of `{getattr(node, 'name', one.path.name)}`",
                            _complete(before, code),
                            one.path,
                        )
                    before += _statements(code)
            if one.path != file:
                continue
            for node in one.tree.body:
                text = ast.get_source_segment(one.text, node) or ""
                if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
                    yield 'the block `if __name__ == "__main__"`', ast.unparse(ast.Module(node.body, [])), file
                elif (
                    isinstance(node, ast.FunctionDef)
                    and _CALLED.fullmatch(node.name)
                    and not names.isdisjoint(WORD.findall(text))
                ):
                    body = ast.Module([*node.body[:-1], *_run(node.body[-1])], [])
                    yield f"`{node.name}`", ast.unparse(body), file

    def _in_documents(self, names: frozenset[str]) -> Iterator[tuple[str, str, Path]]:
        for one in self._files:
            if one.path.suffix in _DOCUMENTS and not names.isdisjoint(one.words):
                before: list[ast.stmt] = []
                for code in map(_plain, _blocks(one)):
                    if not names.isdisjoint(WORD.findall(code)):
                        yield f"`{one.path.name}`", _complete(before, code), one.path
                    before += _statements(code)

    def _examples(self, names: frozenset[str]) -> Iterator[tuple[str, str, Path]]:
        for one in self._files:
            if (
                one.path.suffix == ".py"
                and not names.isdisjoint(one.words)
                and not _EXAMPLE_FOLDERS.isdisjoint(self._parts(one.path))
            ):
                yield f"`{one.path.name}`", one.text, one.path


def _defines(file: SearchedFile, name: str) -> bool:
    """Return whether a file has a class or function of its own with a name, which its code then means."""
    if file.path.suffix != ".py" or name not in file.words:
        return False
    return any(isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name == name for one in file.tree.body)


def _run(node: ast.stmt) -> list[ast.stmt]:
    """Return a function's last statement in a form that is valid outside a function."""
    if isinstance(node, ast.Return):
        return [ast.Expr(node.value)] if node.value is not None else []
    return [node]


def _statements(code: str) -> list[ast.stmt]:
    with suppress(SyntaxError, ValueError, RecursionError):
        return ast.parse(code).body
    return []


def _complete(before: Sequence[ast.stmt], code: str) -> str:
    """Return the code, preceded by the statements in `before` that bind names it uses."""
    names: set[str] = set()
    kept: list[ast.stmt] = []
    for statement in reversed(_statements(code)):
        names = _free(statement, names)
    for statement in reversed(before):
        if not _bound(statement).isdisjoint(names):
            kept.insert(0, statement)
            names = _free(statement, names)
    return f"{ast.unparse(ast.Module(kept, []))}\n{code}"


def _free(statement: ast.stmt, after: set[str]) -> set[str]:
    """Return the names that must be bound before a statement; `after` are those that must be bound after it."""
    used: set[str] = set()
    inside: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            used.add(node.target.id)
        elif isinstance(node, ast.arg):
            inside.add(node.arg)
        elif isinstance(node, ast.comprehension):
            inside |= _stored(node.target)
    bound = _bound(statement)
    # A block binds most names before it uses them.
    inside |= bound if hasattr(statement, "body") else set()
    return (after - bound) | (used - inside)


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a top-level statement binds."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
        return {statement.name}
    return _stored(statement)


def _stored(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _plain(code: str) -> str:
    code = textwrap.dedent(code)
    if ">>>" not in code:
        return code
    with suppress(ValueError):
        return "".join(one.source for one in doctest.DocTestParser().get_examples(code))
    return ""


def _blocks(document: SearchedFile) -> list[str]:
    """Return the code in a document, in order."""
    if document.path.suffix == ".md":
        return _FENCED.findall(document.text)
    return _directives(document.text)


def _examples_in(docstring: str) -> str:
    """Return the code in a docstring."""
    if ">>>" in docstring:
        return _plain(docstring)
    return _plain("\n".join([*_FENCED.findall(docstring), *_directives(docstring)]))


def _directives(text: str) -> list[str]:
    return [textwrap.dedent(code) for _, code in _DIRECTIVE.findall(text)]

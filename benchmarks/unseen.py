"""Measure recall and precision of static findings on a package not used in development, by running its tests.

    python benchmarks/unseen.py ROOT PACKAGE TRUTH.jsonl --python VENV/bin/python [--tests FOLDER ...]
    python benchmarks/unseen.py ROOT PACKAGE TRUTH.jsonl --score [--list]

ROOT is an unpacked source distribution, and PACKAGE is the folder of the package in it (`src/name`). The first command
runs the tests and doctests in an environment that has torch, pytest and the package's dependencies. Outermost calls to
modules, and to anything passed to `torch.compile`, are repeated in a fork of the process, on copies and on the real
arguments. They run three times under Dynamo with a counting backend, in the current mode and in evaluation mode. TRUTH
has a record for each file that a call ran. Its keys are those described for `accuracy.py`, `torch`, `mode`, `traced`
(the lines that Dynamo captured; lines in frames that it gave up also ran, but do not show anything), `recompiles`
(function, line, guard, places) and `root`. The score judges by the release in `torch`.

`--score` checks the whole package and compares the findings with TRUTH. A site is the innermost statement in the
package at which the graph broke. A finding is false if Dynamo captured one of its lines and no call broke there.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import inspect
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

_HERE = Path(__file__).resolve().parent
_VARIABLE = "DYNALINT_UNSEEN"
_CHILD_SECONDS = 90
_CHILD_MEMORY = 10 << 30
_CALLS = 3
_MODES = {True: "train", False: "eval", None: "function"}
_OF_A_KIND = 2  # calls of the same class in the same mode
_OF_A_TEST = 4  # parameter sets kept for a test
# What Dynamo reports for a comprehension or constructor that it compiles separately after giving up the outer frame.
_AFTER = frozenset({"Missing tp_iternext", "Read uninitialized cell", "Uninitialized nn.Module"})
# The names of the functions that Dynamo makes for the code after a break start with this.
_RESUMED = "torch_dynamo_resume_in_"
# Dynamo's names for mocks and for the assertions of a test, which may be in what a test hands to a module.
_OF_TEST = re.compile(r"CallableMixin|`TestCase\.")
Place = tuple[str, int]
_PLACE = re.compile(r'(?:# |File ")(\S+\.py)(?::|", line )(\d+)')
_TESTS = re.compile(r"/tests?/|/test_[^/]*$|_test\.py$|/conftest\.py$")


def measure(options: argparse.Namespace) -> None:
    """Run a package's tests with the plugin below, in the package's environment."""
    root = options.root.resolve()
    package = root / options.package
    places = {"root": str(root), "package": str(package), "truth": str(options.truth.resolve())}
    options.truth.write_text("")
    tests = options.tests or [name for name in ("tests", "test") if (root / name).is_dir()]
    command = [options.python, "-m", "pytest", "-q", "-p", "unseen", "-p", "no:cacheprovider", "-o", "addopts="]
    command += ["-o", "filterwarnings=ignore"]  # the project may turn this torch's deprecation warnings into errors
    command += ["--doctest-modules", "--doctest-continue-on-failure", "--continue-on-collection-errors", "--tb=no"]
    # The package comes last because importing all of it may fail, and because its doctests matter less than its tests.
    command += [*map(str, tests), str(package)]
    paths = [str(_HERE), str(package.parent), str(root)]
    added = {_VARIABLE: json.dumps({**places, "seconds": options.seconds}), "PYTHONPATH": os.pathsep.join(paths)}
    environment = {**os.environ, **added, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    running = subprocess.Popen(command, cwd=root, env=environment, start_new_session=True, stdin=subprocess.DEVNULL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(options.seconds * 2)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    found = Counter(json.loads(line)["status"] for line in options.truth.read_text(encoding="utf-8").splitlines())
    print(f"records: {dict(found)} -> {options.truth}")


# The plugin. Everything up to the score runs in the package's environment with pytest.


def pytest_configure(config: Any) -> None:
    """Start watching."""
    if _VARIABLE in os.environ:
        Watch(json.loads(os.environ[_VARIABLE])).begin()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep a few parameter sets for each test, because the others mostly make the same calls."""
    alike: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for item in items:
        alike[str(item.path), item.nodeid.partition("[")[0]].append(item)
    kept = {id(one) for same in alike.values() for one in same[:: -(-len(same) // _OF_A_TEST)]}
    items[:] = [item for item in items if id(item) in kept]


class Watch:
    """Watches outermost calls, and repeats new kinds of calls in a fork."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.root, self.truth = Path(settings["root"]), Path(settings["truth"])
        self.seconds: float = settings["seconds"]
        # Some packages include tests, which are not part of the code to check.
        self.files = {str(path) for path in Path(settings["package"]).rglob("*.py") if not _TESTS.search(str(path))}
        self.seen: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.busy = False
        # The name under which interpreters without dynalint import the worker.
        sys.path.insert(0, str(_HERE.parent / "dynalint" / "confirm"))
        self.runs = importlib.import_module("worker.dynamo.runs")
        sys.path.pop(0)
        import torch

        self.torch: Any = torch
        self.call, self.compile = torch.nn.Module.__call__, torch.compile

    def begin(self) -> None:
        """Install hooks in torch, and load the compiler once for all forks."""
        torch, watch = self.torch, self
        torch.set_num_threads(1)
        self.runs.default_run(lambda: torch.sin, [((torch.ones(2),), {})])

        def called(module: Any, *args: Any, **kwargs: Any) -> Any:
            return watch.through(module, lambda: watch.call(module, *args, **kwargs), args, kwargs)

        def compiled(model: Any = None, **_: Any) -> Any:
            if model is None or isinstance(model, torch.nn.Module):
                return compiled if model is None else model
            return lambda *args, **kwargs: watch.through(model, lambda: model(*args, **kwargs), args, kwargs)

        torch.nn.Module.__call__ = called
        torch.compile = compiled

    def through(self, subject: Any, run: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call, and examine it first if it is an outermost call."""
        if self.busy or self.torch.compiler.is_compiling() or self.torch.jit.is_tracing():
            return run()
        self.busy = True
        try:
            with contextlib.suppress(Exception):
                self.consider(subject, args, kwargs)
            return run()
        finally:
            self.busy = False

    def consider(self, subject: Any, args: Any, kwargs: Any) -> None:
        """Repeat the call in a fork if it is a new kind of call and there is time."""
        name, own = self.named(subject)
        spent = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        if spent > self.seconds:
            os._exit(0)  # nothing more would be recorded
        training = getattr(subject, "training", None)
        seen = self.seen[name, str(training)]
        # A second call of a class must not take time away from another class's first call.
        if not own or len(seen) >= _OF_A_KIND or (seen and spent > self.seconds * 0.6):
            return
        kind = self.kind(subject, args, kwargs)
        if kind not in seen:
            seen.add(kind)
            self.in_fork(name, training, lambda: self.testify(name, subject, (args, kwargs), training))

    def named(self, subject: Any) -> tuple[str, bool]:
        """Return the callee's name, and whether any of its code belongs to the package."""
        if isinstance(subject, self.torch.nn.Module):
            if isinstance(subject, self.torch.jit.ScriptModule):
                return "", False
            own = any(_file_of(type(part)) in self.files for part in subject.modules())
            return f"{type(subject).__module__}.{type(subject).__qualname__}", own
        function = subject.__func__ if isinstance(subject, MethodType) else subject
        name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
        return name, isinstance(function, FunctionType)

    def kind(self, subject: Any, args: Any, kwargs: Any) -> str:
        """Return a key for the kind of call, based on what is likely to determine the branches taken."""

        def told(value: Any) -> str:
            if isinstance(value, self.torch.Tensor):
                return f"{value.dtype}{value.dim()}"
            if isinstance(value, (bool, str, type(None))):
                return repr(value)
            return type(value).__name__

        attributes = {key: told(value) for key, value in vars(subject).items() if not key.startswith("_")}
        return repr((list(map(told, args)), {key: told(value) for key, value in kwargs.items()}, attributes))

    def in_fork(self, name: str, training: bool | None, act: Callable[[], None]) -> None:
        """Run a function in a child process that may crash or hang."""
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                signal.setitimer(signal.ITIMER_REAL, 0)
                resource.setrlimit(resource.RLIMIT_AS, (_CHILD_MEMORY, _CHILD_MEMORY))
                for stream in (1, 2):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
                self.torch.nn.Module.__call__, self.torch.compile = self.call, self.compile
                act()
                os._exit(0)
            os._exit(1)
        end, status = time.monotonic() + _CHILD_SECONDS, None
        try:
            while status is None and time.monotonic() < end:
                time.sleep(0.02)
                done, code = os.waitpid(child, os.WNOHANG)
                status = code if done else None
        finally:
            if status is None:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        if status != 0:
            self.write("", name, training, status="hang" if status is None else "crash")

    def testify(self, name: str, subject: Any, call: Any, training: bool | None) -> None:
        """Make the call in each mode, and record the results."""
        self.runs.trace_own_compiles()
        for mode in (training, False) if training else (training,):
            make = self.maker(subject, mode)
            calls = [_copied(self.runs.clone_inputs(call)) for _ in range(_CALLS)]
            eager = self.runs.eager_run(make, calls, self.files)
            if eager.error is not None:
                self.write("", name, mode, status="eager-fail", reason=eager.error.message[:300])
                continue
            run = self.runs.default_run(make, calls, self.files)
            self.tell(name, mode, _file_of(type(subject)), eager.lines, run)

    def maker(self, subject: Any, mode: bool | None) -> Callable[[], Any]:
        """Return a function that copies a subject, or reuses it if it cannot be copied."""
        return lambda: _copied(subject).eval() if mode is False else _copied(subject)

    def tell(self, name: str, mode: bool | None, own: str, lines: Mapping[str, Sequence[int]], run: Any) -> None:
        """Write a record for each file in the package that ran."""
        breaks: dict[str, dict[str, Any]] = defaultdict(dict)
        for one in run.breaks:
            stack = [frame for frame in one.stack if frame.file in self.files]
            if stack:
                file = stack[-1].file
                frames = [[frame.line, frame.function] for frame in stack if frame.file == file]
                said = {"gb": one.gb_type, "id": one.gb, "reason": one.reason[:600], "frames": frames}
                said |= {"effect": one.effect, **({"verdict": "cascade"} if one.gb_type in _AFTER else {})}
                breaks[file].setdefault(f"{one.gb_type}{frames[-1]}", said)
        recompiles: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for again in run.recompiles:
            text = str(again.recompile)
            places = [(self.whole(file), int(line)) for file, line in _PLACE.findall(text) if self.whole(file)]
            if again.file in self.files:
                said = {"function": again.function, "line": again.line, "call": again.call, "guard": text[:400]}
                recompiles[again.file].append({**said, "places": places})
        status = "ok" if run.error is None else "compile-fail"
        for file in sorted({file for file, ran in lines.items() if ran} | breaks.keys() | recompiles.keys()):
            traced = sorted({span[0] for span in run.traced.get(file, ())})
            record: dict[str, Any] = {"lines": list(lines.get(file, ())), "traced": traced}
            record |= {"breaks": list(breaks[file].values()), "recompiles": recompiles[file]}
            record |= {"graphs": list(run.graphs)} if file == own else {}
            record |= {"reason": run.error.message[:300]} if run.error is not None else {}
            self.write(str(Path(file).relative_to(self.root)), name, mode, status=status, **record)

    def whole(self, path: str) -> str:
        """Return the full path for a package file's shortened path in Dynamo's output, or "" for other files."""
        found = [file for file in self.files if file.endswith(path)]
        return str(Path(found[0]).relative_to(self.root)) if len(found) == 1 else ""

    def write(self, file: str, name: str, mode: bool | None, **values: Any) -> None:
        """Append a record to the truth."""
        named = {"cls": name.rpartition(".")[2], "root": name, "mode": _MODES[mode]}
        release = ".".join(self.torch.__version__.split(".")[:2])
        record = {"file": file, "torch": release, **named, "lines": [], "breaks": [], **values}
        with self.truth.open("a", encoding="utf-8") as out:
            out.write(json.dumps(record) + "\n")


def _copied(value: Any) -> Any:
    with contextlib.suppress(Exception):
        return copy.deepcopy(value)
    return value


def _file_of(cls: type) -> str:
    try:
        return str(Path(inspect.getfile(cls)).resolve())
    except (TypeError, OSError):
        return ""


class Statements:
    """The lines in the corpus, each mapped to the first line of its statement or, for a block, of its header."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._first: dict[str, dict[int, int]] = {}

    def at(self, file: str, line: int) -> Place:
        """Return the statement that contains a line."""
        if file not in self._first:
            self._first[file], nodes = {}, []
            with contextlib.suppress(SyntaxError):
                nodes = list(ast.walk(ast.parse((self._root / file).read_text(encoding="utf-8", errors="replace"))))
            for node in nodes:
                if isinstance(node, ast.stmt):
                    body = getattr(node, "body", None)
                    end = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
                    # The walk is breadth-first, so inner statements overwrite outer statements.
                    self._first[file].update(dict.fromkeys(range(node.lineno, end + 1), node.lineno))
        return file, self._first[file].get(line, line)

    def of(self, finding: Mapping[str, Any]) -> set[Place]:
        """Return the statements that a finding covers."""
        last = max(finding["line"], finding["end_line"] - (finding["end_column"] == 1))
        return {self.at(finding["path"], line) for line in range(finding["line"], last + 1)}

    def text(self, place: Place) -> str:
        """Return a location and its source line."""
        lines = (self._root / place[0]).read_text(encoding="utf-8", errors="replace").splitlines()
        return f"{place[0]}:{place[1]}: {lines[place[1] - 1].strip()[:110]}"


@dataclass
class Seen:
    """What the records show: break sites, sites that only break because of others, and recompilations.

    `again` has the recompilations to find, and `resumed` those of code after a break, which may be the only cause.
    `traced` holds what Dynamo captured, and `settled` what it captured in calls that it compiled without an error.
    """

    sites: dict[Place, str] = field(default_factory=dict)
    vanishing: set[Place] = field(default_factory=set)
    again: dict[Place, dict[str, Any]] = field(default_factory=dict)
    resumed: list[tuple[Place, dict[str, Any]]] = field(default_factory=list)
    traced: set[Place] = field(default_factory=set)
    settled: set[Place] = field(default_factory=set)

    def add(self, record: Mapping[str, Any], statements: Statements) -> None:
        """Add a record."""
        captured = {statements.at(record["file"], line) for line in record["traced"]}
        self.traced |= captured
        # If compiling raised, the later calls that would have recompiled were never made.
        self.settled |= captured if record["status"] == "ok" else set()
        for one in (one for one in record["breaks"] if not _OF_TEST.search(one["reason"])):
            place = statements.at(record["file"], one["frames"][-1][0])
            if one.get("verdict") == "cascade":
                self.vanishing.add(place)
            else:
                self.sites.setdefault(place, f"{one['gb']} in {record['root']}")
        for one in (one for one in record["recompiles"] if one["call"]):
            # On the first call, a frame is only compiled again because of a break in an outer frame.
            if one["function"].startswith(_RESUMED):
                self.resumed.append(((record["file"], one["line"]), one))
            else:
                self.again.setdefault((record["file"], one["line"]), one)

    def denies(self, finding: Mapping[str, Any], places: set[Place]) -> bool:
        """Return whether Dynamo captured a line of a finding without a break or recompilation there."""
        captured = {"graph-break": self.traced, "recompile": self.settled}.get(finding["category"], set())
        return bool(places & captured) and not places & (self.sites.keys() | self.vanishing)


def score(options: argparse.Namespace) -> None:
    """Compare the findings in the whole package with the truth, and print the report."""
    from accuracy import RAN, check, share

    statements, seen = Statements(options.root), Seen()
    told = [json.loads(line) for line in options.truth.read_text(encoding="utf-8").splitlines()]
    records = [record for record in told if record["status"] in RAN]
    for record in records:
        seen.add(record, statements)
    release = [f"--torch={one}" for one in sorted({record.get("torch") for record in records} - {None})][-1:]
    findings = check(options.root, [*release, options.package])
    seconds = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    sites, again, recompiled = seen.sites, seen.again, set[Place]()
    covered: dict[str, set[Place]] = defaultdict(set)
    right, wrong = list[dict[str, Any]](), list[dict[str, Any]]()
    for finding in findings:
        category, places = finding["category"], statements.of(finding)
        covered[category] |= places & sites.keys()
        hits = {key for key, one in again.items() if category == "recompile" and _is_about(finding, key, one, places)}
        recompiled |= hits
        explains = bool(hits) or (category == "recompile" and any(_is_named(finding, *one) for one in seen.resumed))
        if explains or (category == "graph-break" and places & sites.keys()):
            right.append(finding)
        elif seen.denies(finding, places):
            wrong.append(finding)
    found, advised = covered["graph-break"], set[Place]().union(*covered.values())
    missed = sorted(sites.keys() - found)
    alone = set(_found_by_directory(options.root, statements, missed))
    classes = len({record["root"] for record in records})
    print(f"{options.package}: {classes} classes, {len(findings)} findings in {seconds:.0f} s of processor time")
    print(f"  recall       {share(len(found), len(sites))}, with advice {share(len(advised), len(sites))}")
    print(f"  precision    {share(len(right), len(right) + len(wrong))}")
    false = [one for one in wrong if one["category"] == "recompile"]
    print(f"  recompiles   {share(len(recompiled), len(again))} found, {len(false)} false")
    print(f"  sites found only where their directory alone is given: {len(alone)}")
    for place in missed if options.list else ():
        mark = "advice" if place in advised else "directory" if place in alone else ""
        print(f"miss  {statements.text(place)}\n      {sites[place]} {mark}")
    for finding in wrong if options.list else ():
        print(f"false {statements.text((finding['path'], finding['line']))}")
        print(f"      {finding['code']} {finding['message']} [{' > '.join(finding['region'])}]")
    for key in sorted(again.keys() - recompiled) if options.list else ():
        print(f"again {statements.text(key)}\n      {again[key]['guard']}")


def _is_about(finding: Mapping[str, Any], key: Place, again: Mapping[str, Any], places: set[Place]) -> bool:
    """Return whether a finding is at a recompilation's guard or in the recompiled code, so that it explains it."""
    reached = [finding["function"], *finding["region"]]
    same = finding["path"] == key[0] and any(one.rpartition(".")[2] == again["function"] for one in reached)
    return same or _is_named(finding, key, again) or any((file, line) in places for file, line in again["places"])


def _is_named(finding: Mapping[str, Any], key: Place, again: Mapping[str, Any]) -> bool:
    """Return whether a guard tests the attribute that a finding names."""
    # The guard's place is where the state is first read, and a finding may mark the line that stores it.
    state = re.search(r"`self\.(\w+)`", finding["message"])
    if state is None or not re.search(rf"\b{state[1]}\b", again["guard"].partition("#")[0]):
        return False
    return finding["path"] in (key[0], *(file for file, _ in again["places"]))


def _found_by_directory(root: Path, statements: Statements, missed: Sequence[Place]) -> Iterator[Place]:
    """Yield the missed sites that are found if only the files in their own folder are checked."""
    from accuracy import check

    for folder in sorted({(root / file).parent for file, _ in missed}):
        for finding in check(root, sorted(str(path.relative_to(root)) for path in folder.glob("*.py"))):
            if finding["category"] == "graph-break":
                yield from statements.of(finding) & set(missed)


def main() -> None:
    """Measure a package, or score it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("package")
    parser.add_argument("truth", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the package's environment")
    parser.add_argument("--tests", nargs="*", help="files and folders of tests, relative to ROOT; `tests` or `test`")
    parser.add_argument("--seconds", type=int, default=240, help="of processor time for all calls of the package")
    parser.add_argument("--score", action="store_true", help="check the package and compare with TRUTH")
    parser.add_argument("--list", action="store_true", help="with --score: the misses and the false findings")
    options = parser.parse_args()
    options.root = options.root.resolve()
    (score if options.score else measure)(options)


if __name__ == "__main__":
    main()

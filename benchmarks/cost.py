"""Measure how much a static check costs compared with only parsing the same files.

    python benchmarks/cost.py FOLDER [--pattern 'modeling_*.py'] [--largest 100] [--rounds 3] [--bar 5] [--again 0.05]

Both costs are the user and system time of a separate process. For `ast.parse`, only the parsing counts, with all syntax
trees kept until the end, as a linter has to keep them, and with each one dropped at once. (Python's garbage collector
goes through kept trees again and again, which takes longer than the parsing itself.) For `dynalint check --static`,
everything counts, including start-up, imports, reading, output and child processes. Nothing is cached except dynalint's
bytecode, as after an installation. The rounds alternate between them, and the medians are compared. The same check is
then repeated with its findings in the cache. A final run is sampled to show which of dynalint's modules take the time.
Time spent in libraries counts for the module that calls them.

The exit code is 1 if a ratio exceeds a given limit: `--bar` for a check compared with `ast.parse`, and `--again` for a
check with the cache compared with one without. This only works on Linux and macOS.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from types import FrameType

SAMPLE_SECONDS = 0.002
MARK = "--sampled"

PARSE = """
import ast, pathlib, sys, time
sources = [pathlib.Path(name).read_bytes() for name in sys.stdin.read().splitlines()]
start = time.process_time()
for source in sources:
    ast.parse(source)
dropped = time.process_time() - start
start = time.process_time()
trees = [ast.parse(source) for source in sources]
print(time.process_time() - start, dropped)
"""


def largest_files(folder: Path, pattern: str, count: int) -> list[Path]:
    """Return the largest files in the folder and its subfolders, largest first."""
    files = [path.resolve() for path in folder.rglob(pattern) if path.is_file()]
    return sorted(files, key=lambda path: (-path.stat().st_size, path))[:count]


def parse_seconds(files: Sequence[Path]) -> tuple[float, float]:
    """Return the processor time, in seconds, that `ast.parse` takes for the files, with trees kept and dropped."""
    names = "\n".join(map(str, files))
    ran = subprocess.run([sys.executable, "-c", PARSE], input=names, capture_output=True, text=True, check=True)
    kept, dropped = map(float, ran.stdout.split())
    return kept, dropped


def check_seconds(command: Sequence[str], folder: Path) -> float:
    """Return the processor time, in seconds, that a dynalint process and its children take."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    compiled = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    compiled.pop("PYTHONDONTWRITEBYTECODE", None)
    ran = subprocess.run(command, cwd=folder, env=compiled, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not ran.stdout.startswith("["):
        sys.exit(f"cost: dynalint ended with {ran.returncode}: {ran.stderr}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def arguments(files: Sequence[Path], cache: Path | None = None) -> list[str]:
    """Return dynalint's arguments for default settings, one process, and the given cache or none."""
    kept = ["--no-cache"] if cache is None else ["--cache-dir", str(cache)]
    options = ["--static", "--isolated", *kept, "--jobs", "1", "--output-format", "json"]
    return ["check", *options, *map(str, files)]


def sampled_run(dynalint_arguments: Sequence[str]) -> None:
    """Run dynalint in this process, and print each module's share of the time."""
    samples: Counter[str] = Counter()
    done = threading.Event()

    def take_samples() -> None:
        own = threading.get_ident()
        while not done.wait(SAMPLE_SECONDS):
            for thread, frame in sys._current_frames().items():  # noqa: SLF001 - the documented way to look at threads
                waiting = frame.f_globals.get("__name__") == "threading"
                if thread != own and not waiting:
                    samples[module_of(frame)] += 1

    sampler = threading.Thread(target=take_samples, daemon=True)
    sampler.start()
    with contextlib.redirect_stdout(io.StringIO()):
        from dynalint import cli

        cli.run(dynalint_arguments)
    done.set()
    sampler.join()
    print(*shares(samples), sep="\n")


def module_of(frame: FrameType | None) -> str:
    """Return the innermost module of dynalint or its rules on the stack, or `imports` during an import."""
    found = "start"
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("importlib._bootstrap"):
            return "imports"
        if found == "start" and name.partition(".")[0] in ("dynalint", "dynalint_rules"):
            found = name
        frame = frame.f_back
    return found


def shares(samples: Counter[str], least: float = 0.01) -> Iterator[str]:
    """Yield a line for each module with at least this share, and a line for all others."""
    total = sum(samples.values()) or 1
    shown = [(name, count) for name, count in samples.most_common() if count / total >= least]
    rest = total - sum(count for _, count in shown)
    yield from (f"{count / total:6.1%}  {name}" for name, count in [*shown, ("the rest", rest)])


def main() -> None:
    """Measure and print. Exit with 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pattern", default="*.py")
    parser.add_argument("--largest", type=int, default=100, metavar="N")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bar", type=float, help="the highest ratio to kept trees that passes")
    parser.add_argument("--again", type=float, help="the highest ratio that passes with findings in the cache")
    options = parser.parse_args()
    files = largest_files(options.folder, options.pattern, options.largest)
    if not files:
        parser.error(f"no file named {options.pattern} below {options.folder}")
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    print(f"{len(files)} files, {lines} lines, {options.rounds} rounds, Python {sys.version.split()[0]}")
    parse: list[float] = []
    dropped: list[float] = []
    check: list[float] = []
    again: list[float] = []
    with tempfile.TemporaryDirectory() as empty:
        nothing = Path(empty) / "nothing.py"
        nothing.touch()
        check_seconds([sys.executable, "-m", "dynalint", *arguments([nothing])], Path(empty))
        for _ in range(options.rounds):
            for seconds, measured in zip((parse, dropped), parse_seconds(files), strict=True):
                seconds.append(measured)
            check.append(check_seconds([sys.executable, "-m", "dynalint", *arguments(files)], Path(empty)))
        kept = [sys.executable, "-m", "dynalint", *arguments(files, Path(empty) / "cache")]
        check_seconds(kept, Path(empty))
        again += [check_seconds(kept, Path(empty)) for _ in range(options.rounds)]
        ratio, ratio_again = median(check) / median(parse), median(again) / median(check)
        print(f"ast.parse, trees kept  {describe(parse)}")
        print(f"trees dropped          {describe(dropped)}")
        print(f"dynalint check         {describe(check)}")
        print(f"ratio to kept          {ratio:.2f}" + (f" (bar {options.bar:g})" if options.bar else ""))
        print(f"ratio to dropped       {median(check) / median(dropped):.2f}")
        print(f"from the cache         {describe(again)}")
        print(f"ratio                  {ratio_again:.3f}" + (f" (bar {options.again:g})" if options.again else ""))
        sys.stdout.flush()
        subprocess.run([sys.executable, str(Path(__file__).resolve()), MARK, *arguments(files)], cwd=empty, check=False)
    bars = ((options.bar, ratio), (options.again, ratio_again))
    sys.exit(1 if any(bar is not None and found > bar for bar, found in bars) else 0)


def describe(seconds: Sequence[float]) -> str:
    """Return the median and range as text."""
    return f"{median(seconds):7.2f} s processor time ({min(seconds):.2f} to {max(seconds):.2f})"


if __name__ == "__main__":
    if sys.argv[1:2] == [MARK]:
        sampled_run(sys.argv[2:])
    else:
        main()

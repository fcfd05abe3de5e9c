"""`dynalint trace` on real commands: they do what they do without, and leave evidence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dynalint.config import Settings

pytestmark = [
    pytest.mark.dynamo,
    pytest.mark.slow,
    pytest.mark.may_skip,
    pytest.mark.usefixtures("sandboxed"),
    pytest.mark.timeout(600),
]

MODEL = """
    import torch
    from torch import nn


    class Gate(nn.Module):
        def __init__(self, width=8):
            super().__init__()
            self.linear = nn.Linear(width, width)

        def forward(self, x, flag=None):
            h = self.linear(x)
            if h.sum() > 0:
                return torch.relu(h)
            return torch.tanh(h)


    class Clean(nn.Module):
        def forward(self, x):
            y = x.cos()
            return y + 1


    def helper(x):
        print("never in a graph")
        return x + 1
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str
    said: str


class Folder:
    """A project, and commands run in it with `dynalint trace` and without."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("dynalint.toml", "")
        self.write("model.py", MODEL)

    def write(self, name: str, text: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")

    def run(self, *command: str, **environment: str) -> Ran:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DYNALINT_", "PYTEST_"))}
        done = subprocess.run(
            command, cwd=self.path, env={**kept, **environment}, capture_output=True, text=True, check=False
        )
        lines = done.stderr.splitlines(keepends=True)
        ours = [line for line in lines if line.startswith("note: dynalint trace: ")]
        rest = [line for line in lines if line not in ours]
        return Ran(done.returncode, done.stdout, "".join(rest), "".join(ours))

    def trace(self, *command: str, budget: str = "400", **environment: str) -> Ran:
        return self.run(sys.executable, "-m", "dynalint", "trace", "--budget", budget, "--", *command, **environment)

    def both(self, *command: str, **environment: str) -> Ran:
        """Run a command without and with `dynalint trace`, and check that nobody could tell."""
        plain = self.run(*command, **environment)
        before = self.files()
        traced = self.trace(*command, **environment)
        assert (traced.code, traced.out, traced.err) == (plain.code, plain.out, plain.err)
        assert self.files() == before
        return traced

    def files(self) -> dict[str, bytes]:
        """What the folder holds, less evidence and compiled files."""
        return {
            str(file.relative_to(self.path)): file.read_bytes()
            for file in sorted(self.path.rglob("*"))
            if file.is_file() and not {"__pycache__", ".pytest_cache"} & set(file.parts)
        }

    def evidence(self) -> list[str]:
        """The names of what there is evidence of."""
        cache = Settings(root=self.path).cache_location
        assert cache is not None
        entries = (json.loads(file.read_bytes()) for file in (cache / "evidence").glob("*.json"))
        return sorted(entry["target"]["qualname"] for entry in entries)

    def verdicts(self, *paths: str) -> dict[str, str]:
        """What `dynalint check` says of each finding."""
        return {name: evidence["status"] for name, evidence in self.judged(*paths).items()}

    def judged(self, *paths: str) -> dict[str, Any]:
        """The evidence that `dynalint check` has on each finding."""
        ran = self.run(sys.executable, "-m", "dynalint", "check", "--output-format", "json", "--show-refuted", *paths)
        return {f"{one['path']} {one['code']}": one["evidence"] for one in json.loads(ran.out)}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.long
def test_training_is_the_same_to_the_bit_and_gives_verdicts(folder: Folder) -> None:
    folder.write(
        "train.py",
        """
        import hashlib
        import random
        import sys
        import warnings

        import torch
        from torch import nn

        from model import Gate

        torch.manual_seed(0)
        random.seed(0)
        model = nn.Sequential(Gate(), nn.Dropout(0.5), Gate(), nn.BatchNorm1d(8), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters())
        log = open("log.txt", "w")
        for step in range(8):
            loss = model(torch.randn(4, 8)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.write(f"{step} {loss.item()}\\n")
            print("step", step, loss.item(), random.random(), file=sys.stderr if step % 2 else sys.stdout)
        warnings.warn("once")
        model.eval()
        with torch.no_grad():
            print(model(torch.ones(4, 8)))
        print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())
        print([entry for entry in sys.path if "dynalint" in entry and "hook" in entry], "sitecustomize" in sys.modules)
        print([name for name in sys.meta_path if "Watcher" in repr(name)], torch.get_num_threads())
        """,
    )
    traced = folder.both(sys.executable, "train.py")
    assert folder.evidence() == ["Sequential", "Sequential"]
    assert "2 kinds of calls confirmed" in traced.said
    assert "2 with graph breaks" in traced.said


@pytest.mark.long
def test_evidence_needs_no_example_and_holds_while_the_file_does(folder: Folder) -> None:
    folder.write(
        "needy.py",
        """
        import torch
        from torch import nn


        class Needy(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.layer = nn.Linear(config["in"], config["out"])

            def forward(self, batch):
                y = self.layer(batch.x)
                if batch.debug and y.isnan().any():
                    raise ValueError("no number")
                if y.sum() > 0:
                    y = -y
                return y
        """,
    )
    folder.write(
        "use.py",
        """
        from types import SimpleNamespace

        import torch
        from needy import Needy

        Needy({"in": 3, "out": 4})(SimpleNamespace(x=torch.ones(2, 3), debug=False))
        """,
    )
    before = folder.verdicts("needy.py")
    assert before["needy.py DYN101"] == "unconfirmed"
    folder.both(sys.executable, "use.py")
    after = folder.verdicts("needy.py")
    assert after["needy.py DYN101"] == "confirmed"
    again = folder.trace(sys.executable, "use.py")
    assert "0 kinds of calls confirmed" in again.said
    assert "1 already known" in again.said
    with (folder.path / "needy.py").open("a", encoding="utf-8") as stream:
        stream.write("# changed\n")
    found = folder.judged("needy.py")["needy.py DYN101"]
    assert found["status"] == "unconfirmed"
    assert found["detail"].endswith("is out of date, because files have changed; trace it again.")


@pytest.mark.long
def test_compiled_code_counts_what_it_counts_without(folder: Folder) -> None:
    folder.write(
        "own.py",
        """
        import torch
        from torch._dynamo.testing import CompileCounter
        from torch._dynamo.utils import counters

        from model import Clean, Gate, helper

        counter = CompileCounter()


        @torch.compile(backend=counter)
        def step(x):
            return helper(x) * 2


        compiled = torch.compile(Gate(), backend=counter)
        in_place = Clean()
        in_place.compile(backend=counter)
        for rows in (2, 2, 3, 4):
            step(torch.ones(rows))
            compiled(torch.ones(rows, 8))
            in_place(torch.ones(rows))
        print(counter.frame_count, counter.op_count)
        print({name: dict(found) for name, found in counters.items()})
        step(None)
        """,
    )
    traced = folder.both(sys.executable, "own.py")
    assert traced.code == 1
    assert "TypeError" in traced.err
    assert {"step", "Gate", "Clean"} <= set(folder.evidence())
    verdicts = folder.verdicts("model.py", "own.py")
    assert verdicts["model.py DYN101"] == "confirmed"
    assert verdicts["model.py DYN401"] == "confirmed"


@pytest.mark.long
@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("raise RuntimeError('on purpose')", 1),
        ("import os; os._exit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + 9),
        ("import sys; sys.exit(5)", 5),
        ("model(torch.ones(2, 3))", 1),
    ],
)
def test_evidence_outlives_the_end_of_the_program(folder: Folder, ending: str, code: int) -> None:
    folder.write(
        "end.py",
        f"""
        import torch
        from model import Clean, Gate

        model = Gate()
        print(model(torch.ones(2, 8)).shape, flush=True)
        {ending}
        """,
    )
    plain = folder.run(sys.executable, "end.py")
    traced = folder.trace(sys.executable, "end.py")
    assert (traced.out, traced.err, traced.code) == (plain.out, plain.err, code)
    assert folder.evidence() == ["Gate"]


@pytest.mark.long
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_the_program_take_part(folder: Folder, method: str) -> None:
    folder.write(
        "many.py",
        f"""
        import multiprocessing

        import torch
        from model import Clean, Gate


        def work(name):
            torch.set_num_threads(1)
            model = {{"gate": Gate, "clean": Clean}}[name]()
            return tuple(model(torch.ones(2, 8)).shape)


        if __name__ == "__main__":
            with multiprocessing.get_context({method!r}).Pool(2) as pool:
                print(pool.map(work, ["gate", "clean", "gate", "clean"]))
        """,
    )
    folder.both(sys.executable, "many.py")
    assert folder.evidence() == ["Clean", "Gate"]


@pytest.mark.long
def test_data_loaders_are_no_obstacle_and_other_handlers_are(folder: Folder) -> None:
    folder.write(
        "load.py",
        """
        import signal

        import torch
        from model import Clean, Gate
        from torch.utils.data import DataLoader

        model = Clean()
        for batch in DataLoader(torch.arange(8.0), batch_size=2, num_workers=2):
            print(model(batch).sum())
        signal.signal(signal.SIGCHLD, lambda number, frame: print("a process ended"))
        Gate()(torch.ones(2, 8))
        """,
    )
    traced = folder.both(sys.executable, "load.py")
    assert folder.evidence() == ["Clean"]
    assert "Gate not confirmed: the program handles SIGCHLD" in traced.said


@pytest.mark.long
def test_test_suites_take_part_in_one_process_and_in_two(folder: Folder) -> None:
    folder.write(
        "test_model.py",
        """
        import pytest
        import torch
        from model import Clean, Gate


        def test_gate():
            assert Gate()(torch.ones(2, 8)).shape == (2, 8)


        def test_clean():
            assert Clean()(torch.zeros(3)).sum() == 6


        @pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
        def test_rows(rows):
            Gate()(torch.ones(rows, 8))


        def test_fails():
            assert Gate()(torch.ones(2, 8)).dim() == 3
        """,
    )
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=line")
    plain = folder.run(*command)
    traced = folder.trace(*command)
    assert _untimed(traced.out) == _untimed(plain.out)
    assert traced.code == plain.code == 1
    assert folder.evidence() == ["Clean", "Gate", "Gate"]
    parallel = folder.trace(*command, "-n", "2")
    assert parallel.code == 1
    assert "3 already known" in parallel.said


def _untimed(out: str) -> str:
    return re.sub(r"in [\d.]+s|tensor\(.*?\)|-?\d+\.\d+|0x[0-9a-f]+", "", out)


@pytest.mark.long
def test_a_sitecustomize_of_the_users_own_still_runs(folder: Folder) -> None:
    folder.write("site/sitecustomize.py", "import sys\nsys.custom = 'mine'\n")
    # Nor does dynalint have to be installed where the program runs.
    folder.write(
        "use.py",
        """
        import sys

        sys.modules["dynalint"] = None
        import torch
        from model import Clean

        Clean()(torch.ones(2))
        print(sys.custom)
        """,
    )
    folder.both(sys.executable, "use.py", PYTHONPATH=str(folder.path / "site"))
    assert folder.evidence() == ["Clean"]


def test_no_more_time_is_taken_than_the_budget_gives(folder: Folder) -> None:
    folder.write("use.py", "import torch\nfrom model import Clean, Gate\nClean()(torch.ones(2))\n")
    traced = folder.trace(sys.executable, "use.py", budget="0.5")
    assert folder.evidence() == []
    assert "1 kind of call not confirmed: the budget is used up" in traced.said


@pytest.mark.long
def test_what_is_too_large_is_declined_and_said_so(folder: Folder) -> None:
    folder.write("dynalint.toml", "memory = 512\n")
    folder.write("use.py", "import torch\nfrom model import Clean\nprint(Clean()(torch.ones(160, 1 << 18)).sum())\n")
    traced = folder.both(sys.executable, "use.py")
    assert folder.evidence() == []
    assert "Clean not confirmed: its tensors take 160 MiB, which is too much to copy." in traced.said


@pytest.mark.long
def test_threads_that_computed_before_do_not_hang_the_copy(folder: Folder) -> None:
    folder.write(
        "threads.py",
        """
        import faulthandler
        import threading

        import torch
        from model import Gate

        # Should this program hang itself, it says where.
        faulthandler.dump_traceback_later(120, exit=True)
        torch.set_num_threads(4)
        torch.ones(1500, 1500) @ torch.ones(1500, 1500)
        stop = threading.Event()


        def compute():
            while not stop.is_set():
                torch.ones(300, 300).exp()


        thread = threading.Thread(target=compute, daemon=True)
        thread.start()
        Gate(64)(torch.ones(4096, 64)).sum().backward()
        stop.set()
        thread.join()
        """,
    )
    traced = folder.both(sys.executable, "threads.py")
    # What a thread held at the moment of the copy nobody lets go in it: such a copy is given up, and said to be.
    assert folder.evidence() == ["Gate"] or "did not end in time" in traced.said


@pytest.mark.long
@pytest.mark.parametrize(("fork", "said"), [(1, "the fork of the process hung"), (2, "did not end in time")])
def test_a_copy_that_hangs_holds_nobody_up(folder: Folder, fork: int, said: str) -> None:
    folder.write(
        "hangs.py",
        f"""
        import os
        import time

        import torch
        from model import Gate

        forks = 0


        def in_child():
            global forks
            forks += 1
            if forks == {fork}:
                time.sleep(1000)


        os.register_at_fork(after_in_child=in_child)
        print(Gate()(torch.ones(2, 8)).shape)
        """,
    )
    plain = folder.run(sys.executable, "hangs.py")
    traced = folder.trace(sys.executable, "hangs.py", budget="5")
    assert (traced.code, traced.out, traced.err) == (plain.code, plain.out, plain.err)
    assert said in traced.said
    assert folder.evidence() == []


@pytest.mark.long
def test_what_a_model_writes_is_written_once(folder: Folder) -> None:
    folder.write(
        "writes.py",
        """
        import os

        import torch
        from torch import nn

        log = open("log.txt", "a")


        class Writes(nn.Module):
            def forward(self, x):
                log.write("called\\n")
                with open("other.txt", "a") as stream:
                    stream.write("called\\n")
                print("called")
                os.write(1, b"raw\\n")
                return x + 1


        Writes()(torch.ones(2))
        """,
    )
    folder.trace(sys.executable, "writes.py")
    assert folder.files()["log.txt"] == folder.files()["other.txt"] == b"called\n"


@pytest.mark.long
def test_calls_that_raise_are_the_programs_own_affair(folder: Folder) -> None:
    folder.write(
        "raises.py",
        """
        import torch
        from model import Clean

        try:
            Clean()("text")
        except AttributeError as error:
            print(error)
        """,
    )
    traced = folder.both(sys.executable, "raises.py")
    assert folder.evidence() == []
    assert "1 kind of call not confirmed, because the call itself raises an exception." in traced.said


@pytest.mark.long
def test_files_that_change_meanwhile_give_no_evidence(folder: Folder) -> None:
    folder.write(
        "writes.py",
        """
        from pathlib import Path

        import torch
        from model import Clean

        with Path("model.py").open("a") as stream:
            stream.write("# changed\\n")
        Clean()(torch.ones(2))
        """,
    )
    traced = folder.trace(sys.executable, "writes.py")
    assert folder.evidence() == []
    assert "Clean not confirmed: model.py has changed since the command was started." in traced.said


def test_commands_without_torch_are_run_as_they_are(folder: Folder) -> None:
    traced = folder.both(sys.executable, "-c", "import sys; print(sys.stdin.read(), sys.argv)", "a", "--budget", "b")
    assert "none of the command's processes imported torch" in traced.said


def test_a_command_that_is_not_there_is_said_so(folder: Folder) -> None:
    traced = folder.trace("no-such-command-here")
    assert traced.code == 2
    assert "cannot run no-such-command-here" in traced.err

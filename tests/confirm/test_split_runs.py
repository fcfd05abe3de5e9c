"""A run split over shards or over a Dask cluster reports what one machine reports."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dynalint.confirm.cache import VerdictCache
from dynalint.confirm.shards import Answers, Shard, read_shards
from dynalint.errors import UsageError
from tests.in_process import in_process

pytestmark = pytest.mark.dynamo

# What can be built, what fails, and what is confirmed by a part because its root needs an unknown argument.
MODELS = """\
import torch
from torch import nn


class Branching(nn.Module):
    def forward(self, x):
        if x.sum() > {bound}:
            return x
        return -x


class Printing(nn.Module):
    def forward(self, x):
        print(x)
        return x * {bound}


class Clean(nn.Module):
    def forward(self, x):
        return x + {bound}


class Unbuildable(nn.Module):
    def __init__(self, store):
        super().__init__()
        self.names = store.load("names")[{bound}]

    def forward(self, x):
        print(self.names)
        return scaled(x)


def scaled(x: torch.Tensor):
    return x * x.mean().item()
"""
TEST = """\
import torch
from models import Branching


def test_branching():
    assert Branching()(torch.ones(3)).shape == (3,)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\nname = 'models'\n")
    (folder / "models.py").write_text(MODELS.format(bound=0))
    (folder / "test_models.py").write_text(TEST)
    return folder


def dynalint(folder: Path, *arguments: str) -> tuple[int, str, str]:
    ran = in_process([*arguments, "--no-cache"], folder, os.environ)
    return ran.returncode, ran.stdout, ran.stderr


FORMAT = "--output-format=json"


def test_shards_are_merged_to_the_report_of_one_machine(project: Path) -> None:
    code, whole, _ = dynalint(project, "check", ".", FORMAT)
    assert code == 1
    assert {one["evidence"]["status"] for one in json.loads(whole)} >= {"confirmed", "unconfirmed"}
    for index in (1, 2):
        code, out, said = dynalint(project, "check", ".", f"--shard={index}/2", f"-oshard-{index}.json")
        assert (code, out) == (0, ""), said
        assert f"shard {index}/2" in said
    shards = [f"shard-{index}.json" for index in (2, 1)]
    code, merged, said = dynalint(project, "merge", *shards, FORMAT)
    assert (code, merged) == (1, whole), said

    answers, paths = read_shards([project / name for name in shards])
    assert paths == (".",)
    assert len(answers.given) >= 4, "each model and the test are asked for once"
    (project / "models.py").write_text(MODELS.format(bound=7))
    code, merged, said = dynalint(project, "merge", *shards, FORMAT)
    assert "were not used" in said
    assert merged == dynalint(project, "check", ".", FORMAT)[1], "what changed since is run again"


def test_an_answer_that_does_not_last_is_handed_on_but_not_stored(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("x = 1\n")
    question, answer = {"target": "Model"}, {"outcome": "timeout"}
    answers = Answers(Shard(1, 2))
    VerdictCache(tmp_path / "cache", {}, answers).put(question, {}, [str(file)], answer, lasting=False)
    assert VerdictCache(tmp_path / "cache", {}).get(question, {}) is None
    given = Answers(given=answers.made)
    known = VerdictCache(None, {}, given).get(question, {})
    assert known == {"answer": answer, "spots": {}}
    assert given.used == given.given.keys()


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (["[]"], "is not a shard"),
        (['{"dynalint-shard": 1, "index": 1, "count": 1, "paths": [], "answers": {"x": {"spots": 3}}, "spots": []}'],
         "is not a shard"),
        ([(1, 2, ["a"])], "shard 2/2 is missing"),
        ([(1, 3, ["a"])], "shards 2/3, 3/3 are missing"),
        ([(1, 2, ["a"]), (2, 2, ["b"])], "different runs"),
        ([(1, 2, ["a"]), (1, 2, ["a"])], "are both shard 1/2"),
    ],
)  # fmt: skip
def test_what_are_not_all_shards_of_one_run_is_refused(
    tmp_path: Path, contents: list[str | tuple[int, int, list[str]]], said: str
) -> None:
    files = []
    for number, content in enumerate(contents):
        files.append(tmp_path / f"{number}.json")
        if isinstance(content, str):
            files[-1].write_text(content)
        else:
            Answers(Shard(*content[:2])).write(files[-1], content[2])
    with pytest.raises(UsageError, match=said):
        read_shards(files)
    with pytest.raises(UsageError, match="cannot read"):
        read_shards([tmp_path / "none.json"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--shard=3/2", "-ox.json"], "does not have the form I/N"),
        (["--shard=1/2"], "requires --output-file"),
        (["--shard=1/2", "-ox.json", "--static"], "does not allow running"),
        (["--shard=1/2", "-ox.json", "--statistics"], "cannot be combined"),
        (["--executor=dask"], "must be used together"),
        (["--scheduler=tcp://127.0.0.1:1"], "must be used together"),
        (["--executor=dask", "--scheduler=nowhere"], "there is no Dask scheduler at nowhere"),
    ],
)
def test_wrong_options_are_refused_in_one_sentence(project: Path, arguments: list[str], said: str) -> None:
    code, _, err = dynalint(project, "check", ".", *arguments)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("path", ["..", "/", "link"])
def test_shards_do_not_choose_files_elsewhere(project: Path, path: str) -> None:
    (project / "link").symlink_to("/")
    Answers(Shard(1, 1)).write(project / "shard.json", [path])
    code, out, err = dynalint(project, "merge", "shard.json")
    assert (code, out) == (2, "")
    assert "is not in this folder" in err


@pytest.fixture
def cluster() -> Iterator[object]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as made:
        yield made


@pytest.mark.long
def test_a_cluster_reports_the_same_even_if_it_loses_a_worker(project: Path, cluster: object) -> None:
    address = cluster.scheduler_address  # type: ignore[attr-defined]
    _, whole, _ = dynalint(project, "check", ".", FORMAT)
    arguments = ["check", ".", FORMAT, "--executor=dask", f"--scheduler={address}"]
    with ThreadPoolExecutor(1) as pool:
        first = next(iter(cluster.workers.values())).pid  # type: ignore[attr-defined]
        pool.submit(_kill_once_it_works, first)
        code, far, said = dynalint(project, *arguments)
    assert (code, far) == (1, whole), said
    assert not _is_alive(first), "the worker was lost before the end"


def _kill_once_it_works(pid: int) -> None:
    deadline = time.monotonic() + 60
    while not _children(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> str:
    return "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()

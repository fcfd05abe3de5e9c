"""Run the tests on every supported Python and torch release, or run a single session from `nox --list`."""

from __future__ import annotations

import nox

PYTHON = ("3.10", "3.11", "3.12", "3.13", "3.14")
# The oldest release that is tested, the one that `./dev test` uses, and the newest. The newest requires Python 3.11.
TORCH = ("2.11.0", "2.13.0", "2.15.0")

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"


@nox.session(python=PYTHON)
def static(session: nox.Session) -> None:
    """Run the tests that do not need torch."""
    _test(session, "static")


@nox.session
@nox.parametrize("torch", TORCH)
def dynamo(session: nox.Session, torch: str) -> None:
    """Run the tests that need torch, with one release."""
    session.install(f"torch=={torch}", "numpy", "scipy", "tqdm")
    _test(session, "dynamo")


def _test(session: nox.Session, half: str) -> None:
    groups = nox.project.dependency_groups(nox.project.load_toml(), "static")
    session.install(*groups, "--editable", ".")
    # Each test process uses one thread. By default, torch would start a thread for each core in every process.
    session.run(
        "pytest", "-n", "2", "--dist", "loadfile", "--half", half, *session.posargs, env={"OMP_NUM_THREADS": "1"}
    )

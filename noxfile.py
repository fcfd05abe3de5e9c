"""The tests on every Python and torch that dynalint promises: `nox`, or one session of `nox --list`."""

from __future__ import annotations

import nox

PYTHON = ("3.10", "3.11", "3.12", "3.13", "3.14")
# The oldest release that is tested, the one that `./dev test` takes, and the newest.
TORCH = ("2.11.0", "2.13.0", "2.15.0")

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"


@nox.session(python=PYTHON)
def static(session: nox.Session) -> None:
    """Run what needs no torch."""
    _test(session, "static")


@nox.session
@nox.parametrize("torch", TORCH)
def dynamo(session: nox.Session, torch: str) -> None:
    """Run what needs torch, under one release of it."""
    session.install(f"torch=={torch}", "numpy", "scipy", "tqdm")
    _test(session, "dynamo")


def _test(session: nox.Session, half: str) -> None:
    groups = nox.project.dependency_groups(nox.project.load_toml(), "static")
    session.install(*groups, "--editable", ".")
    # Test processes keep to one thread each: torch would start one a core in every one of them.
    session.run(
        "pytest", "-n", "2", "--dist", "loadfile", "--half", half, *session.posargs, env={"OMP_NUM_THREADS": "1"}
    )

"""The options that control how code is run: the budget, the executor and the shard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dynalint.errors import UsageError

if TYPE_CHECKING:
    from dynalint.config import Settings
    from dynalint.confirm import Execution
    from dynalint.confirm.shards import Shard


def read_shard(value: object) -> Shard:
    """Parse a shard such as `2/4`.

    Raises:
        BadParameter: If the text has a different form.
    """
    from dynalint.confirm.shards import Shard

    index, _, count = str(value).partition("/")
    if not (index.isdecimal() and count.isdecimal()) or not 1 <= int(index) <= int(count):
        raise click.BadParameter(f"{value} does not have the form I/N, such as 2/4, with I between 1 and N.")
    return Shard(int(index), int(count))


def execution(options: Mapping[str, Any], settings: Settings) -> Execution | None:
    """Return the execution that a command's options ask for, or None if they ask for none or no code is run.

    Raises:
        UsageError: If options contradict each other, or a package is missing.
    """
    executor, scheduler = options.get("executor"), options.get("scheduler")
    if (executor == "dask") != bool(scheduler):
        raise UsageError("--executor dask and --scheduler ADDRESS must be used together.")
    shard, answers = options.get("shard"), options.get("answers")
    if shard is not None and settings.confirm == "never":
        raise UsageError(
            "--shard splits up the code to run, but --static or the `confirm` setting does not allow running code."
        )
    if settings.confirm == "never" or (settings.budget is None and not scheduler and not shard and not answers):
        return None
    from dynalint.confirm import Execution
    from dynalint.confirm.budget import TimeBudget
    from dynalint.confirm.executors import LOCAL, DaskExecutor
    from dynalint.confirm.shards import Answers

    return Execution(
        None if settings.budget is None else TimeBudget(settings.budget),
        answers if shard is None else Answers(shard),
        DaskExecutor(scheduler) if scheduler else LOCAL,
    )

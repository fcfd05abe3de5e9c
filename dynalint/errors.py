"""Errors that end a run with a one-sentence message and an exit code instead of a traceback."""

from __future__ import annotations


class DynalintError(Exception):
    """An error that dynalint cannot recover from. The text is shown to the user.

    It is one sentence that says what is wrong, where, and what to do.
    """

    exit_code = 2


class UsageError(DynalintError):
    """Invalid arguments: a missing path, an unknown code, or options that cannot be combined."""


class ConfigError(DynalintError):
    """An invalid configuration. The text gives the file, the line and, for a misspelt name, the nearest valid one."""

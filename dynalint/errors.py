"""Errors that end a run with a one-sentence message and an exit code instead of a traceback."""

from __future__ import annotations


class DynalintError(Exception):
    """An error that dynalint cannot recover from. The message is shown to the user.

    It is a single sentence that says what is wrong, where, and what to do.
    """

    exit_code = 2


class UsageError(DynalintError):
    """Invalid arguments: a missing path, an unknown code, or options that cannot be combined."""


class ConfigError(DynalintError):
    """An invalid configuration. The message gives the file, the line and the nearest valid name if one is misspelt."""

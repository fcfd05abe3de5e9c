"""The errors that end a run with one clear sentence and an exit code instead of a traceback."""

from __future__ import annotations


class DynalintError(Exception):
    """Something dynalint cannot go on from; the text is shown to the user as it stands.

    The text says what is wrong, where, and what to do about it, in one sentence.
    """

    exit_code = 2


class UsageError(DynalintError):
    """A wrong argument: a missing path, an unknown code, options that cannot be combined."""


class ConfigError(DynalintError):
    """A configuration that cannot be used; the text names the file, the line and the nearest right spelling."""

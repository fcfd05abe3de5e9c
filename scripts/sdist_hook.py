"""Leave `.gitignore` out of the source distribution. hatchling always adds it, and has no setting for this."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LeaveOutGitignore(BuildHookInterface):  # type: ignore[type-arg]
    """The build hook that hatchling calls before it builds a source distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Remove the file from the files to add."""
        build_data["force_include"].pop(str(Path(self.root) / ".gitignore"), None)

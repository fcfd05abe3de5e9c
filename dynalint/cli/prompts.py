"""`dynalint fix --interactive`, which shows each fix with its verification result and asks whether to apply it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from dynalint.cli.console import style_for, write, write_diff
from dynalint.report.style import visible

if TYPE_CHECKING:
    from dynalint.cli.session import CommandRun
    from dynalint.fix import Proposal

_HELP = """\
  y  accept this fix
  n  skip this fix
  a  accept this fix and all other fixes for the same rule
  s  skip this fix and all other fixes for the same rule
  q  skip all remaining fixes, and write the ones that you accepted
"""


class Prompts:
    """Prompts for each fix in the terminal. The fix engine calls it for each decision. End of input means quit."""

    def __init__(self, run: CommandRun) -> None:
        self._run = run
        self._style = style_for(sys.stdout, run.color)
        self._known: dict[str, Literal["accept", "skip"]] = {}

    def __call__(self, proposal: Proposal) -> Literal["accept", "skip", "quit"]:
        """Return the user's answer for one fix."""
        codes = sorted({linted.finding.code for linted in proposal.unit.linted})
        known = {self._known.get(code) for code in codes}
        if len(known) == 1 and (answer := known.pop()) is not None:
            return answer
        self._show(proposal)
        while True:
            write(f"Accept this fix? [y]es, [n]o, [a]ccept all or [s]kip all for {', '.join(codes)}, [q]uit, [?]: ")
            given = sys.stdin.readline() if sys.stdin is not None else ""
            letter = given.strip().lower()[:1] if given else "q"
            if letter in ("y", "a"):
                self._known.update(dict.fromkeys(codes, "accept") if letter == "a" else {})
                return "accept"
            if letter in ("n", "s"):
                self._known.update(dict.fromkeys(codes, "skip") if letter == "s" else {})
                return "skip"
            if letter == "q":
                return "quit"
            write(_HELP)

    def _show(self, proposal: Proposal) -> None:
        unit, verification, style = proposal.unit, proposal.verification, self._style
        lines = [""]
        for linted in unit.linted:
            finding = self._run.placed(linted.finding)
            place = style.paint(f"{visible(finding.place)}:{finding.line}:{finding.column}", "bold")
            lines.append(f"{place}: {style.paint(finding.code, 'red')} {visible(finding.message)}")
        lines.append(f"  {visible(unit.title)} ({unit.safety})")
        lines += [f"  if {visible(condition)}" for condition in unit.conditions]
        lines.append(
            f"  {'not run' if verification is None else visible(f'{verification.outcome}: {verification.detail}')}"
        )
        write("\n".join(lines) + "\n")
        for path, (old, new) in proposal.diffs.items():
            from dynalint.fix.model import unified_diff

            write_diff(unified_diff(old, new, self._run.workspace.shown(path)), style)

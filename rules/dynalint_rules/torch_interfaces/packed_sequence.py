"""DYN602: packed sequences, which Dynamo does not trace."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Project, Rule, Violation, leads_to_raise

_FUNCTIONS = ("pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "unpack_sequence")


class PackedSequence(Rule):
    code = "DYN602"
    name = "packed-sequence"
    summary = "Packing or unpacking sequences breaks the graph"
    gb = ("GB0007",)
    events = (Call,)
    calls = frozenset(f"torch.nn.utils.rnn.{name}" for name in _FUNCTIONS)
    refusal = (
        "other code expects packed data; keep the padded tensor and a mask, or pack the sequences outside the compiled "
        "code"
    )

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag every call."""
        if not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"Dynamo does not trace `{event.callee.rpartition('.')[2]}()`, so the graph breaks here",
                help="keep the padded tensor and a mask, or pack the sequences outside the compiled code",
                # A sequence that was packed before a break is an input to the next graph, where torch 2.11 traces this.
                torch=">=2.13" if event.callee.endswith("pad_packed_sequence") else "",
            )

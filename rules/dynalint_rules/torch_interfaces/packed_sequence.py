"""DYN602: packed sequences, which Dynamo has no way to trace."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_FUNCTIONS = ("pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "unpack_sequence")


class PackedSequence(Rule):
    """Pack sequences of several lengths, or unpack them, in code that is compiled.

    ## What it flags
    Calls of `pack_padded_sequence`, `pack_sequence`, `pad_packed_sequence` and `unpack_sequence` of
    `torch.nn.utils.rnn`. Not flagged: `pad_sequence`, which is traced.

    ## Why
    How long the packed data is depends on the lengths, which are read in Python. Dynamo skips these functions and
    ends the graph before and after each of them.

    ## Example
    ```python
    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        out, _ = self.lstm(packed)
        return pad_packed_sequence(out, batch_first=True)[0]
    ```

    Use instead:
    ```python
    def forward(self, x, mask):
        return self.attend(x, key_padding_mask=~mask)
    ```

    ## How it is rewritten
    It is not. What is packed mostly goes into a recurrent layer, which is not traced either. Keep the padded tensor
    and a mask of what counts, and pack outside of the compiled part.

    ## When the rewrite is not exact
    A recurrent layer that reads padding carries on its state over it; packing stops at the end of each sequence.

    ## How Dynamo words it
    GB0007: `Attempted to call function marked as skipped`.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0007.html
    """

    code = "DYN602"
    name = "packed-sequence"
    summary = "packing or unpacking sequences ends the graph"
    gb = ("GB0007",)
    events = (Call,)
    calls = frozenset(f"torch.nn.utils.rnn.{name}" for name in _FUNCTIONS)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"Dynamo does not trace `{event.callee.rpartition('.')[2]}()`, so the graph ends there",
                help="keep the padded tensor and a mask, or pack outside of the compiled part",
                # What was packed before the graph ended is an input of the next one, which 2.11 unpacks.
                torch=">=2.13" if event.callee.endswith("pad_packed_sequence") else "",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: packed data has another layout, which the rest of the model must expect."""
        return Declined(
            "packed data has a layout of its own that its readers expect; keep the padded tensor and a mask, or pack "
            "outside of the compiled part"
        )

    examples = (
        Example(
            name="pack-padded",
            code=forward(
                """
                packed = pack_padded_sequence(self.fc(x), [8, 6, 4, 2], batch_first=True)  # DYN602
                return packed.data
                """,
                head="from torch.nn.utils.rnn import pack_padded_sequence",
            ),
            inputs="[(torch.randn(4, 8, 8),)]",
            declined="keep the padded tensor and a mask",
        ),
        Example(
            name="pack-and-pad",
            torch=">=2.13",
            code=forward("""
                h = self.fc(x)
                packed = nn.utils.rnn.pack_sequence([h, h[:2]])  # DYN602
                padded, lengths = nn.utils.rnn.pad_packed_sequence(packed)  # DYN602
                return padded, lengths
            """),
        ),
        Example(
            name="pad",
            code=forward("""
                h = self.fc(x)
                return nn.utils.rnn.pad_sequence([h, h[:2]])
            """),
        ),
        Example(
            name="packed-outside",
            code=forward("return self.fc(x)") + "\n\ndef prepare(rows):\n    return nn.utils.rnn.pack_sequence(rows)\n",
        ),
    )

"""What a tensor decides: `if`, conditional expressions, assertions and guards.

`decide.py` is where rules begin, `where.py` tries the forms of an `if` one after the other. `blocks.py` takes a branch
apart (`reasons.py` says why it cannot), `rows.py` says what is chosen under which name, `sides.py`, `sizes.py` and
`domain.py` what must hold for `torch.where` to choose, `truth.py` writes the test, `choice.py` what is shared with
conditional expressions. The other
forms: `early_return.py`, `loop_return.py`, `divided.py`, `chosen_writes.py`, `checks.py`.
"""

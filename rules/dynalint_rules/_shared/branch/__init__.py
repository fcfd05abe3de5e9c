"""Data-dependent decisions: `if` statements, conditional expressions, assertions and checks that raise.

`decide.py` is the entry point for rules, and tries the possible rewrites of an `if` in turn. `blocks.py` analyses the
branches, and `selected_names.py` finds the names to select. `branch_values.py` and `domain.py` return the conditions
under which `torch.where` can select between the branches. `counted.py` and `bounded.py` find quotients whose divisor
only needs to be clamped. `truth.py` writes the test, and `choice.py` contains the code shared with conditional
expressions. The other rewrites are in `early_return.py`, `loop_return.py`, `loop_break.py`, `split_tests.py`,
`module_writes.py`, `chosen_writes.py` and `checks.py`.
"""

"""Statements that are put under `if not torch.compiler.is_compiling():`, so that only eager code runs them, or removed.

`statements.py` guards or removes a call, and `bystanders.py` guards all statements that its value reaches.
`saved_work.py` guards tests that only save work. `skipping.py` checks that compiled code can skip what is guarded.
"""

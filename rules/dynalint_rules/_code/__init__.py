"""Queries about the code around a finding: names, purity, effects, shared memory. Nothing is rewritten here.

`scope.py` describes the function that a rule examines, with the kinds of its expressions. Names: `names.py`,
`liveness.py`. Memory and gradients: `memory.py`, `kept.py`, `autograd.py`. Effects and exceptions: `effects.py`,
`implied.py`, `raising.py`. Calls: `calls.py`, `size_arguments.py`, `handover.py`, `compiling.py`. State that outlives a
call: `growth.py`, `uses.py`, `making.py`, `absent.py`. Data-dependent decisions: `decision.py`.
"""

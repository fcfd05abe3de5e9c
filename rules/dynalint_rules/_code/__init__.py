"""What rules ask of the code around a finding: what names hold, what is pure, what shares memory. Nothing is written.

`scope.py` is the one function that a rule looks at, with the kinds of its expressions. Names: `names.py`,
`liveness.py`. Memory and gradients: `memory.py`, `kept.py`, `autograd.py`. Effects and exceptions: `effects.py`,
`implied.py`, `raising.py`. Calls: `calls.py`, `size_arguments.py`, `handover.py`, `compiling.py`. What outlives a call:
`growth.py`, `uses.py`, `making.py`, `absent.py`. What a tensor decides: `decision.py`.
"""

"""Queries about the code around a finding, such as names, purity, effects and shared memory.

They do not rewrite anything.

`scope.py` describes the function that a rule examines, with the kinds of its expressions. `names.py` and `liveness.py`
are about names, `memory.py`, `saved_tensors.py` and `autograd.py` about memory and gradients, and `effects.py`,
`implicit_methods.py` and `raising.py` about effects and exceptions. `calls.py`, `size_arguments.py`,
`integer_arguments.py`, `passed_values.py` and `compiling.py` are about calls, `growth.py`, `uses.py`,
`state_creation.py` and `missing_state.py` about state that outlives a call, and `decision.py` about data-dependent
decisions.
"""

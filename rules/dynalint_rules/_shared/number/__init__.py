"""Numbers that are read from a tensor, and stay 0-dim tensors if every use accepts one.

`numbers.py` follows a number to its uses (`arguments.py` for calls, `flow.py` for the consequences). `detached.py`
writes the replacement, `no_number.py` explains why a use requires a number, and `single_index.py` rewrites indices.
"""

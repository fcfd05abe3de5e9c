"""Numbers read from a tensor: they stay 0-dim tensors if every use accepts one.

`numbers.py` follows a number to its uses (`arguments.py` for calls, `flow.py` for the consequences). `detached.py`
writes its replacement, `no_number.py` explains why it cannot stay a tensor, and `single_index.py` rewrites indices.
"""

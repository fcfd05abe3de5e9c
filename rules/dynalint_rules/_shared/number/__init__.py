"""Numbers that are read from a tensor. They can stay 0-dim tensors if every use accepts one.

`numbers.py` follows a number to its uses, with the help of `arguments.py` for calls and `flow.py` for the consequences.
`detached.py` writes the replacement, and `single_index.py` rewrites indices.
"""

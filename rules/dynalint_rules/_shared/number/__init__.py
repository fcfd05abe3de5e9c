"""Numbers read out of a tensor: they stay tensors without dimensions, where every use takes one.

`numbers.py` follows a number to its uses (`arguments.py` for calls, `flow.py` for what it comes to), `detached.py` says
what stands for it, `no_number.py` why it cannot stay one, `single_index.py` what becomes of an index.
"""

"""Statements that are restricted to eager code by `if not torch.compiler.is_compiling():`, or removed.

`statements.py` restricts or removes a call, and `bystanders.py` restricts all statements that its value reaches.
"""

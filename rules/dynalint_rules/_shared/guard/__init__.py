"""Statements restricted to eager code by `if not torch.compiler.is_compiling():`, and removed statements.

`statements.py` guards or removes a call, `bystanders.py` guards all statements that its value reaches.
"""

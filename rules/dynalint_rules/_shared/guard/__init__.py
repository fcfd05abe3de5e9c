"""Statements for eager code alone, behind `if not torch.compiler.is_compiling():`, and statements taken out.

`statements.py` guards a call or takes it out, `bystanders.py` all that its value goes to.
"""

"""The code that runs in the user's own interpreter. It needs only the standard library and torch.

Tests and the rule harness import this package as `dynalint.confirm.worker`. An interpreter without dynalint loads it
from its folder under another name (see `__main__`). Imports inside it are therefore relative.
"""

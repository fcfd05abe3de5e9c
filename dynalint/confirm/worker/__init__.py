"""What runs in the user's own interpreter: standard library and torch only, never the rest of dynalint.

The package is imported as `dynalint.confirm.worker` by tests and by the rule harness, and under another name, straight
from its folder, by an interpreter that has no dynalint installed (see `__main__`). Imports inside it are relative.
"""

"""The language server: diagnostics as you type, fixes as code actions, documentation and verdicts as hovers.

It needs pygls, which the extra `server` installs.
"""

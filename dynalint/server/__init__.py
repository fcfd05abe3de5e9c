"""The language server: diagnostics as you type, fixes as code actions, rules and verdicts as hovers.

It needs pygls, which the extra `server` brings.
"""

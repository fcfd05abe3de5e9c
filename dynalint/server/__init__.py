"""The language server: diagnostics as you type, fixes as code actions, and documentation and verdicts on hover.

It requires pygls, which is installed by the `server` extra.
"""

"""The observers and fake quantizers of `torch.ao.quantization`, whose code Dynamo skips."""

from __future__ import annotations

HOME = "torch.ao.quantization."
_PACKAGES = (HOME, "torch.quantization.")
_CLASSES = ("Observer", "ObserverBase", "FakeQuantize", "FakeQuantizeBase")
# The defaults are partials of the classes below these.
_DEFAULTS = {"_observer": "ObserverBase", "_fake_quant": "FakeQuantizeBase"}


def observer(name: str) -> str:
    """Return the observer class that a call to `name` instantiates, named as in its main module, or ""."""
    last = name.rpartition(".")[2]
    if not name.startswith(_PACKAGES):
        return ""
    found = last if last.endswith(_CLASSES) else next((to for end, to in _DEFAULTS.items() if last.endswith(end)), "")
    return found and HOME + found

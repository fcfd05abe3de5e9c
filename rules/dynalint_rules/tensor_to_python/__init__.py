"""DYN2xx: a tensor read back into Python."""

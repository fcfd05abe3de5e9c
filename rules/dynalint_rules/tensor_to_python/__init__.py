"""DYN2xx: reading tensors' data into Python."""

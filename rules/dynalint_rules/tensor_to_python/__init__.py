"""DYN2xx: tensors whose data is read into Python."""

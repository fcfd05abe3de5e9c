"""DYN5xx: Python state and tensors that outlive the call."""

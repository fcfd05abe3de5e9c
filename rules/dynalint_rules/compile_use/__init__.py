"""DYN0xx: uses of `torch.compile` itself."""

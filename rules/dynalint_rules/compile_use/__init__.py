"""DYN0xx: the use of `torch.compile` itself, in the code around what is compiled."""

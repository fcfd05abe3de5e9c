"""The sandbox for user code: limits on files, network, system calls and resources. Standard library only."""

"""The sandbox for user code: limits on files, network, system calls and resources. Uses only the standard library."""

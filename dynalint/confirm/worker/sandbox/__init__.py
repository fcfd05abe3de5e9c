"""The walls around user code: what it may read, write, reach, ask of the kernel and use up. Standard library only."""

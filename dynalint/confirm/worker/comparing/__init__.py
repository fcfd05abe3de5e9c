"""Compare two versions of a callable, or compiled code with eager, on many inputs."""

"""Compare two versions of a callable, or compiled code with eager code, on many inputs."""

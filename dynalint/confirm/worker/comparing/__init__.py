"""Comparing two versions of a callable, or compiled code with its source, over many inputs."""

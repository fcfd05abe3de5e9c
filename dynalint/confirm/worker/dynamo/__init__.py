"""Watching Dynamo: runs of one callable, and records of the breaks, graphs and recompiles they showed."""

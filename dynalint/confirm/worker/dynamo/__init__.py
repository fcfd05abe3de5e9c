"""Run a callable under Dynamo and record the breaks, graphs and recompilations."""

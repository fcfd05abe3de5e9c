"""DYN7xx: Python constructs and library functions that Dynamo does not trace."""

"""DYN7xx: Python constructs and functions of its library that Dynamo does not trace."""

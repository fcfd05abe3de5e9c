"""The built-in rules. Each rule has its own file, in a folder for its family of codes."""

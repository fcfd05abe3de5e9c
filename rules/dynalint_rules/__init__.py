"""The built-in rules of dynalint, one file each, in a folder for each family of codes."""

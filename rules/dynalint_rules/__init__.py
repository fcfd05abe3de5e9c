"""The rules that come with dynalint, one file each, in a folder for each family of codes."""

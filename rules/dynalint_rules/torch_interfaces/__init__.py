"""DYN6xx: parts of torch and other libraries that Dynamo does not trace."""

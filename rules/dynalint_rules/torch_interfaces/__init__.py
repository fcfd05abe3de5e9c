"""DYN6xx: parts of torch, and libraries beside it, that Dynamo does not trace."""

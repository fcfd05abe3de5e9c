"""What the worker can be asked for: each function here answers one kind of request."""

"""The worker's operations. Each operation handles one kind of request."""

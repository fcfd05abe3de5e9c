"""The operations of the worker. Each handles one kind of request."""

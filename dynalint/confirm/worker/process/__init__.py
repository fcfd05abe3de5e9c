"""The worker's processes and the messages between them: server, supervisor, sandboxed process."""

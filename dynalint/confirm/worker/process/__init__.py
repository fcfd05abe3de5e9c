"""The processes that requests pass through, and how they speak: server, supervisor, the process behind the walls."""

"""The user's source: importing it, side-by-side versions, positions of operations, and replacing code in memory."""

"""The user's source: importing it, several versions of it, where its operations stand, other code in its place."""

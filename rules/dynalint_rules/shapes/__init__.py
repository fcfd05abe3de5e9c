"""DYN3xx: shapes that depend on data."""

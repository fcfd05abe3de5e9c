"""DYN8xx: code that recompiles for other inputs, values or layers."""

"""DYN8xx: code that is recompiled for different inputs, values or layers."""

"""DYN4xx: output, files, clocks, random numbers and other side effects."""

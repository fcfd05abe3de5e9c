"""DYN4xx: text, files, clocks, random numbers and other effects beyond the result."""

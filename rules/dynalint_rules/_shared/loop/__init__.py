"""Loops over rows whose lengths come from data: `lengths.py` writes through a mask what they write row by row."""

"""The files of projects, found and read with care: settings decide which ones, and trust decides what these may do."""

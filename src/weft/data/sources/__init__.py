"""Data sources: files and Python objects to examples."""

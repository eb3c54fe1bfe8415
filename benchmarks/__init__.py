"""Figures that the documentation quotes, each by a command: python -m benchmarks.<name>."""

"""Attention: alignment scores, attention modules, relative positions."""

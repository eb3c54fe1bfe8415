"""Attention: scores, heads, positions inside attention."""

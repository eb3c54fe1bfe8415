"""Embedders: symbols, positions, characters, patches to vectors."""

"""Embedders: token, position, token-type, character and patch embeddings."""

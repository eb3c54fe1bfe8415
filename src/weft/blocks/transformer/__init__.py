"""Transformer: stack, layer, feed-forward networks, residual connections."""

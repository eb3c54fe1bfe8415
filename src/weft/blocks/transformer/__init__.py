"""The Transformer: stack, layer, feed-forward, residual connections."""

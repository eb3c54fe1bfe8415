"""Heads: hidden states to logits and scores."""

"""Heads: logits and scores from hidden states."""

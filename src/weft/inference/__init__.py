"""Inference: load trained runs and published models, generate, predict, embed, prompt, convert."""

"""Latent-variable text models: OPTIMUS, CARA, ARAE, Ctrl-Gen, NN-Outlines, with their metrics and protocols."""

from weft.systems.latent_text import cara, ctrl_gen, evaluate, optimus

__all__ = ["cara", "ctrl_gen", "evaluate", "optimus"]

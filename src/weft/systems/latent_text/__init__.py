"""Latent-variable text models: OPTIMUS, CARA, ARAE, Ctrl-Gen, NN-Outlines, with their metrics, protocols and commands."""

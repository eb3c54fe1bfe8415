"""Ctrl-Gen: a variational autoencoder whose decoder is told a class, and a listener that hears it; a baseline of CARA."""

from weft.systems.latent_text.ctrl_gen.objectives import Attribute, Discriminate
from weft.systems.latent_text.ctrl_gen.structure import CtrlGen

__all__ = ["Attribute", "CtrlGen", "Discriminate"]

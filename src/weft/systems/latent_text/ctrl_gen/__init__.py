"""Ctrl-Gen: a variational autoencoder whose decoder is told a class, and a text classifier that hears it; a baseline of CARA."""

from weft.systems.latent_text.ctrl_gen.objectives import CtrlGenDiscriminator, CtrlGenGenerator
from weft.systems.latent_text.ctrl_gen.structure import CtrlGen

__all__ = ["CtrlGen", "CtrlGenDiscriminator", "CtrlGenGenerator"]

"""Ctrl-Gen (Hu et al. 2017): a class-conditional text VAE with a text classifier; a baseline of CARA."""

from weft.systems.latent_text.ctrl_gen.objectives import CtrlGenDiscriminator, CtrlGenGenerator
from weft.systems.latent_text.ctrl_gen.structure import CtrlGen

__all__ = ["CtrlGen", "CtrlGenDiscriminator", "CtrlGenGenerator"]

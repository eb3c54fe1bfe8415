"""OPTIMUS: stage 2, a GAN over the latent space of a text VAE."""

from weft.systems.latent_text.optimus.adversarial import LatentDiscriminator, LatentGenerator
from weft.systems.latent_text.optimus.latent_gan import LatentGAN

__all__ = ["LatentDiscriminator", "LatentGAN", "LatentGenerator"]

"""OPTIMUS (Li et al. 2020): a conditional GAN in the latent space of a text VAE."""

from weft.systems.latent_text.optimus.adversarial import LatentDiscriminator, LatentGenerator
from weft.systems.latent_text.optimus.latent_gan import LatentGAN

__all__ = ["LatentDiscriminator", "LatentGAN", "LatentGenerator"]

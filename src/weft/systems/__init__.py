"""Research systems: each a composition of the catalog, and what it alone needs. Importing this package registers them."""

from weft.systems import cara, ctrl_gen
from weft.systems.latent_contest import LatentCritic, LatentGenerator
from weft.systems.latent_gan import LatentGAN

__all__ = ["LatentCritic", "LatentGAN", "LatentGenerator", "cara", "ctrl_gen"]

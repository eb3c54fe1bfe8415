"""Research systems, one package each. Importing this package registers their parts."""

from weft.systems import latent_text

__all__ = ["latent_text"]

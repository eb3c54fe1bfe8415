"""CARA: texts of a class from a latent space that does not tell the class; with its baselines ARAE- and ARAE."""

from weft.systems.latent_text.cara.adversarial import Fool, Judge
from weft.systems.latent_text.cara.mutual_information import Follow, Listen
from weft.systems.latent_text.cara.protocols import Contests, Listens
from weft.systems.latent_text.cara.reconstruction import Reconstruct
from weft.systems.latent_text.cara.structure import ARAE, CARA

__all__ = ["ARAE", "CARA", "Contests", "Follow", "Fool", "Judge", "Listen", "Listens", "Reconstruct"]

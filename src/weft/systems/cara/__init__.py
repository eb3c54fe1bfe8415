"""CARA: texts of a class from a latent space that does not tell the class; with its baselines ARAE- and ARAE."""

from weft.systems.cara.contest import Fool, Judge
from weft.systems.cara.listening import Follow, Listen
from weft.systems.cara.protocols import Contests, Listens
from weft.systems.cara.reconstruct import Reconstruct
from weft.systems.cara.structure import ARAE, CARA

__all__ = ["ARAE", "CARA", "Contests", "Follow", "Fool", "Judge", "Listen", "Listens", "Reconstruct"]

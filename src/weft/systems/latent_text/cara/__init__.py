"""CARA (Li et al. 2020): class-conditional generation with class-invariant latent codes; and its baselines ARAE and ARAE-."""

from weft.systems.latent_text.cara.adversarial import CARADiscriminator, CARAGenerator
from weft.systems.latent_text.cara.mutual_information import CARAMutualInformation, CARATextClassifier
from weft.systems.latent_text.cara.protocols import ClassifiesTexts, DiscriminatesLatents
from weft.systems.latent_text.cara.reconstruction import CARAReconstruction
from weft.systems.latent_text.cara.structure import ARAE, CARA

__all__ = [
    "ARAE",
    "CARA",
    "CARADiscriminator",
    "CARAGenerator",
    "CARAMutualInformation",
    "CARAReconstruction",
    "CARATextClassifier",
    "ClassifiesTexts",
    "DiscriminatesLatents",
]

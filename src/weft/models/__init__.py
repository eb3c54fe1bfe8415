"""Named compositions: structures over the blocks. Importing this package registers them."""

from weft.models.classifier import Classifier
from weft.models.language_model import LanguageModel
from weft.models.seq2seq import Seq2Seq
from weft.models.tagger import Tagger
from weft.models.transformer import transformer_base, transformer_big

__all__ = ["Classifier", "LanguageModel", "Seq2Seq", "Tagger", "transformer_base", "transformer_big"]

"""Named compositions: structures over the blocks. Importing this package registers them."""

from weft.models.bart import bart
from weft.models.bert import albert, bert, electra, roberta
from weft.models.chooser import Chooser
from weft.models.classifier import Classifier
from weft.models.gpt import gpt, gpt2, gpt3
from weft.models.image_encoder import ImageEncoder
from weft.models.language_model import LanguageModel
from weft.models.loaded import Loaded, load
from weft.models.pretrained import pretrained
from weft.models.published import Published
from weft.models.saving import save
from weft.models.seq2seq import Seq2Seq
from weft.models.seq2seq_classifier import Seq2SeqClassifier
from weft.models.span_reader import SpanReader
from weft.models.t5 import byt5, mt5, t5, t5_v1_1
from weft.models.tagger import Tagger
from weft.models.text_encoder import TextEncoder
from weft.models.text_vae import TextVAE
from weft.models.transformer import transformer_base, transformer_big
from weft.models.vit import vit

__all__ = [
    "Chooser",
    "Classifier",
    "ImageEncoder",
    "LanguageModel",
    "Loaded",
    "Published",
    "Seq2Seq",
    "Seq2SeqClassifier",
    "SpanReader",
    "Tagger",
    "TextEncoder",
    "TextVAE",
    "albert",
    "bart",
    "bert",
    "byt5",
    "electra",
    "gpt",
    "gpt2",
    "gpt3",
    "load",
    "mt5",
    "pretrained",
    "roberta",
    "save",
    "t5",
    "t5_v1_1",
    "transformer_base",
    "transformer_big",
    "vit",
]

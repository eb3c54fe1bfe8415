"""Task models and published architectures. Importing this package registers them in the catalog."""

from weft.models.classifier import Classifier
from weft.models.image_classifier import ImageClassifier
from weft.models.image_encoder import ImageEncoder
from weft.models.language_model import LanguageModel
from weft.models.multiple_choice import MultipleChoiceModel
from weft.models.seq2seq import Seq2Seq
from weft.models.seq2seq_classifier import Seq2SeqClassifier
from weft.models.span_extractor import SpanExtractor
from weft.models.tagger import Tagger
from weft.models.text_encoder import TextEncoder
from weft.models.text_vae import TextVAE
from weft.models.zoo.albert import albert
from weft.models.zoo.bart import bart
from weft.models.zoo.bert import bert
from weft.models.zoo.distilbert import distilbert
from weft.models.zoo.electra import electra
from weft.models.zoo.gpt import gpt, gpt2, gpt3
from weft.models.zoo.images.resnet import (
    ResNet,
    resnet18,
    resnet20,
    resnet32,
    resnet34,
    resnet50,
    resnet56,
    resnet101,
    resnet152,
)
from weft.models.zoo.images.vit import VisionTransformer
from weft.models.zoo.llama import llama, llama2, llama3, mistral, qwen2, smollm2
from weft.models.zoo.mpnet import mpnet
from weft.models.zoo.roberta import roberta
from weft.models.zoo.t5 import byt5, mt5, t5, t5_v1_1
from weft.models.zoo.transformer import transformer_base, transformer_big
from weft.models.zoo.vit import vit
from weft.models.zoo.xlm_roberta import xlm_roberta

__all__ = [
    "Classifier",
    "ImageClassifier",
    "ImageEncoder",
    "LanguageModel",
    "MultipleChoiceModel",
    "ResNet",
    "Seq2Seq",
    "Seq2SeqClassifier",
    "SpanExtractor",
    "Tagger",
    "TextEncoder",
    "TextVAE",
    "VisionTransformer",
    "albert",
    "bart",
    "bert",
    "byt5",
    "distilbert",
    "electra",
    "gpt",
    "gpt2",
    "gpt3",
    "llama",
    "llama2",
    "llama3",
    "mistral",
    "mpnet",
    "mt5",
    "qwen2",
    "resnet18",
    "resnet20",
    "resnet32",
    "resnet34",
    "resnet50",
    "resnet56",
    "resnet101",
    "resnet152",
    "roberta",
    "smollm2",
    "t5",
    "t5_v1_1",
    "transformer_base",
    "transformer_big",
    "vit",
    "xlm_roberta",
]

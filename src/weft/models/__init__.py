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
from weft.models.zoo.images.alexnet import AlexNet
from weft.models.zoo.images.densenet import DenseNet, densenet121, densenet161, densenet169, densenet201
from weft.models.zoo.images.googlenet import GoogLeNet
from weft.models.zoo.images.inception_v3 import InceptionV3
from weft.models.zoo.images.mobile import (
    EfficientNetLite,
    MobileNetV2,
    efficientnet_lite0,
    efficientnet_lite1,
    efficientnet_lite2,
    efficientnet_lite3,
    efficientnet_lite4,
)
from weft.models.zoo.images.resnet import (
    resnet18,
    resnet20,
    resnet32,
    resnet34,
    resnet50,
    resnet56,
    resnet101,
    resnet152,
)
from weft.models.zoo.images.vgg import VGG, vgg11, vgg11_bn, vgg13, vgg13_bn, vgg16, vgg16_bn, vgg19, vgg19_bn
from weft.models.zoo.images.vit import VisionTransformer
from weft.models.zoo.llama import llama, llama2, llama3, mistral, qwen2, smollm2
from weft.models.zoo.mpnet import mpnet
from weft.models.zoo.roberta import roberta
from weft.models.zoo.t5 import byt5, mt5, t5, t5_v1_1
from weft.models.zoo.transformer import transformer_base, transformer_big
from weft.models.zoo.vit import vit
from weft.models.zoo.xlm_roberta import xlm_roberta

__all__ = [
    "VGG",
    "AlexNet",
    "Classifier",
    "DenseNet",
    "EfficientNetLite",
    "GoogLeNet",
    "ImageClassifier",
    "ImageEncoder",
    "InceptionV3",
    "LanguageModel",
    "MobileNetV2",
    "MultipleChoiceModel",
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
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
    "distilbert",
    "efficientnet_lite0",
    "efficientnet_lite1",
    "efficientnet_lite2",
    "efficientnet_lite3",
    "efficientnet_lite4",
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
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
    "vit",
    "xlm_roberta",
]

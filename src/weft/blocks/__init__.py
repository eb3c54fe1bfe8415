"""Building blocks of networks: embedders, encoders, decoders, heads and their parts. Importing this package registers them."""

from weft.blocks.activation import GELU, ELUPlusOne, GELUTanh, Identity, LeakyReLU, ReLU, ReLU6, Sigmoid, SiLU, Tanh
from weft.blocks.attention.alignment import AlignmentAttention
from weft.blocks.attention.attend import attend, record_attention
from weft.blocks.attention.linear import LinearAttention
from weft.blocks.attention.multihead import MultiHeadAttention
from weft.blocks.attention.position import ALiBi, RelativePositionBias, RotaryPosition
from weft.blocks.attention.rotary_scaling import LinearScaling, Llama3Scaling, NTKScaling, YaRNScaling
from weft.blocks.attention.score import AdditiveScore, CosineScore, DotScore, GeneralScore, LocationScore, ScaledDotScore
from weft.blocks.attention.sequence import attend_sequence
from weft.blocks.bag_of_words import BagOfWords
from weft.blocks.conv.batch_norm import BatchNorm2d
from weft.blocks.conv.cnn import CNN
from weft.blocks.conv.convolution import Convolution, Convolution2d
from weft.blocks.conv.dense_block import DenseBlock, Transition
from weft.blocks.conv.feature_pyramid import FeaturePyramid
from weft.blocks.conv.gated_convolution import GatedConvolution
from weft.blocks.conv.group_norm import GroupNorm
from weft.blocks.conv.inception import Inception
from weft.blocks.conv.pooling import AdaptiveAveragePool2d, AveragePool2d, MaxPool2d
from weft.blocks.conv.residual import BasicUnit, BottleneckUnit, PlainUnit, PreActivationUnit
from weft.blocks.conv.resnet import ResNet
from weft.blocks.conv.separable import DepthwiseSeparable, InvertedResidual
from weft.blocks.conv.squeeze_excitation import SqueezeExcitation
from weft.blocks.dense import Dense
from weft.blocks.embedding.char_cnn import CharCNN
from weft.blocks.embedding.char_ngrams import CharNgrams
from weft.blocks.embedding.interpolated_position import InterpolatedPositionEmbedder
from weft.blocks.embedding.patch import PatchEmbedder, patch_count, patchify, unpatchify
from weft.blocks.embedding.position import LearnedPositionEmbedder, SinusoidalPositionEmbedder
from weft.blocks.embedding.sum import SumEmbedder
from weft.blocks.embedding.token import SharedTokenEmbedder, TokenEmbedder
from weft.blocks.embedding.token_type import TokenTypeEmbedder
from weft.blocks.heads.crf import CRF
from weft.blocks.heads.discriminator import ConcatDiscriminator, ProjectionDiscriminator
from weft.blocks.heads.ordinal import OrdinalHead
from weft.blocks.heads.vocabulary import ClassifierHead, TiedHead, UntiedHead
from weft.blocks.latent_injection import LatentEmbedding, LatentMemory, LatentPerPosition
from weft.blocks.layer_mix import ScalarMix, SumLast
from weft.blocks.linear import Linear
from weft.blocks.mlp import MLP
from weft.blocks.norm import BatchNorm, LayerNorm, RMSNorm, UnitNorm
from weft.blocks.pooler import ConcatPooler, FirstPooler, LastPooler, MaxPooler, MeanPooler, PositionConcatPooler
from weft.blocks.recurrent.decoder import AttentionGRU, AttentionLSTM, GRUDecoder, LSTMDecoder
from weft.blocks.recurrent.encoder import GRU, LSTM
from weft.blocks.recurrent.state_space import StateSpace
from weft.blocks.transformer.feedforward import GatedFeedForward, PositionwiseFeedForward
from weft.blocks.transformer.layer import TransformerLayer
from weft.blocks.transformer.residual import PostNorm, PreNorm
from weft.blocks.transformer.stack import SharedTransformer, Transformer, TransformerDecoder

__all__ = [
    "CNN",
    "CRF",
    "GELU",
    "GRU",
    "LSTM",
    "MLP",
    "ALiBi",
    "AdaptiveAveragePool2d",
    "AdditiveScore",
    "AlignmentAttention",
    "AttentionGRU",
    "AttentionLSTM",
    "AveragePool2d",
    "BagOfWords",
    "BasicUnit",
    "BatchNorm",
    "BatchNorm2d",
    "BottleneckUnit",
    "CharCNN",
    "CharNgrams",
    "ClassifierHead",
    "ConcatDiscriminator",
    "ConcatPooler",
    "Convolution",
    "Convolution2d",
    "CosineScore",
    "Dense",
    "DenseBlock",
    "DepthwiseSeparable",
    "DotScore",
    "ELUPlusOne",
    "FeaturePyramid",
    "FirstPooler",
    "GELUTanh",
    "GRUDecoder",
    "GatedConvolution",
    "GatedFeedForward",
    "GeneralScore",
    "GroupNorm",
    "Identity",
    "Inception",
    "InterpolatedPositionEmbedder",
    "InvertedResidual",
    "LSTMDecoder",
    "LastPooler",
    "LatentEmbedding",
    "LatentMemory",
    "LatentPerPosition",
    "LayerNorm",
    "LeakyReLU",
    "LearnedPositionEmbedder",
    "Linear",
    "LinearAttention",
    "LinearScaling",
    "Llama3Scaling",
    "LocationScore",
    "MaxPool2d",
    "MaxPooler",
    "MeanPooler",
    "MultiHeadAttention",
    "NTKScaling",
    "OrdinalHead",
    "PatchEmbedder",
    "PlainUnit",
    "PositionConcatPooler",
    "PositionwiseFeedForward",
    "PostNorm",
    "PreActivationUnit",
    "PreNorm",
    "ProjectionDiscriminator",
    "RMSNorm",
    "ReLU",
    "ReLU6",
    "RelativePositionBias",
    "ResNet",
    "RotaryPosition",
    "ScalarMix",
    "ScaledDotScore",
    "SharedTokenEmbedder",
    "SharedTransformer",
    "SiLU",
    "Sigmoid",
    "SinusoidalPositionEmbedder",
    "SqueezeExcitation",
    "StateSpace",
    "SumEmbedder",
    "SumLast",
    "Tanh",
    "TiedHead",
    "TokenEmbedder",
    "TokenTypeEmbedder",
    "Transformer",
    "TransformerDecoder",
    "TransformerLayer",
    "Transition",
    "UnitNorm",
    "UntiedHead",
    "YaRNScaling",
    "attend",
    "attend_sequence",
    "patch_count",
    "patchify",
    "record_attention",
    "unpatchify",
]

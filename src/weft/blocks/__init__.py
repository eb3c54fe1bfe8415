"""STRUCTURE: the catalog of building blocks. Importing this package registers them."""

from weft.blocks.activation import GELU, GELUTanh, Identity, LeakyReLU, ReLU, Sigmoid, SiLU, Tanh
from weft.blocks.attention.alignment import Alignment
from weft.blocks.attention.attend import attend, look, recording
from weft.blocks.attention.multihead import MultiHead
from weft.blocks.attention.position import Learned, RelativeBias, Rotary, Sinusoidal
from weft.blocks.attention.score import Additive, Dot, General, ScaledDot
from weft.blocks.bag_of_words import BagOfWords
from weft.blocks.conv.cnn import CNN
from weft.blocks.dense import Dense
from weft.blocks.embedding.char_cnn import CharCNN
from weft.blocks.embedding.interpolated_position import Interpolated
from weft.blocks.embedding.patch import Patch, patches_in, patchify, unpatchify
from weft.blocks.embedding.sum import Sum
from weft.blocks.embedding.token import SharedToken, Token
from weft.blocks.embedding.token_type import TokenType
from weft.blocks.heads.crf import CRF
from weft.blocks.heads.discriminator import ConcatDiscriminator, ProjectionDiscriminator
from weft.blocks.heads.ordinal import Ordered
from weft.blocks.heads.vocabulary import ClassifierHead, Tied, Untied
from weft.blocks.latent_injection import LatentEmbedding, LatentMemory, LatentPerPosition
from weft.blocks.layer_mix import ScalarMix, SumLast
from weft.blocks.linear import Linear
from weft.blocks.mlp import MLP
from weft.blocks.norm import BatchNorm, LayerNorm, RMSNorm, UnitNorm
from weft.blocks.pooler import Concat, First, Last, Max, Mean, PositionConcat
from weft.blocks.recurrent.decoder import AttentionGRU, AttentionLSTM, GRUDecoder, LSTMDecoder
from weft.blocks.recurrent.encoder import GRU, LSTM
from weft.blocks.transformer.feedforward import Gated, PositionwiseFeedForward
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
    "Additive",
    "Alignment",
    "AttentionGRU",
    "AttentionLSTM",
    "BagOfWords",
    "BatchNorm",
    "CharCNN",
    "ClassifierHead",
    "Concat",
    "ConcatDiscriminator",
    "Dense",
    "Dot",
    "First",
    "GELUTanh",
    "GRUDecoder",
    "Gated",
    "General",
    "Identity",
    "Interpolated",
    "LSTMDecoder",
    "Last",
    "LatentEmbedding",
    "LatentMemory",
    "LatentPerPosition",
    "LayerNorm",
    "LeakyReLU",
    "Learned",
    "Linear",
    "Max",
    "Mean",
    "MultiHead",
    "Ordered",
    "Patch",
    "PositionConcat",
    "PositionwiseFeedForward",
    "PostNorm",
    "PreNorm",
    "ProjectionDiscriminator",
    "RMSNorm",
    "ReLU",
    "RelativeBias",
    "Rotary",
    "ScalarMix",
    "ScaledDot",
    "SharedToken",
    "SharedTransformer",
    "SiLU",
    "Sigmoid",
    "Sinusoidal",
    "Sum",
    "SumLast",
    "Tanh",
    "Tied",
    "Token",
    "TokenType",
    "Transformer",
    "TransformerDecoder",
    "TransformerLayer",
    "UnitNorm",
    "Untied",
    "attend",
    "look",
    "patches_in",
    "patchify",
    "recording",
    "unpatchify",
]

"""STRUCTURE: the catalog of building blocks. Importing this package registers them."""

from weft.blocks.activation import GELU, GELUTanh, Identity, LeakyReLU, ReLU, Sigmoid, SiLU, Tanh
from weft.blocks.alignment import Alignment
from weft.blocks.attend import attend, look, recording
from weft.blocks.bag import BagOfWords
from weft.blocks.cnn import CNN
from weft.blocks.crf import CRF
from weft.blocks.critic import Concatenated, Projection
from weft.blocks.dense import Dense
from weft.blocks.feedforward import Gated, PositionwiseFeedForward
from weft.blocks.head import ClassifierHead, Tied, Untied
from weft.blocks.injection import LatentByPlace, LatentEmbedding, LatentSlot
from weft.blocks.interpolated import Interpolated
from weft.blocks.linear import Linear
from weft.blocks.mark import Mark
from weft.blocks.mix import ScalarMix, SumLast
from weft.blocks.mlp import MLP
from weft.blocks.multihead import MultiHead
from weft.blocks.norm import BatchNorm, LayerNorm, RMSNorm, UnitNorm
from weft.blocks.ordered import Ordered
from weft.blocks.patch import Patch, patches_in, patchify, unpatchify
from weft.blocks.pooler import ByPlace, Concat, First, Last, Max, Mean
from weft.blocks.position import Learned, RelativeBias, Rotary, Sinusoidal
from weft.blocks.recurrent import GRU, LSTM
from weft.blocks.recurrent_decoder import AttentionGRU, AttentionLSTM, GRUDecoder, LSTMDecoder
from weft.blocks.residual import PostNorm, PreNorm
from weft.blocks.score import Additive, Dot, General, ScaledDot
from weft.blocks.spelled import Spelled
from weft.blocks.sum import Sum
from weft.blocks.token import SharedToken, Token
from weft.blocks.transformer import SharedTransformer, Transformer, TransformerDecoder
from weft.blocks.transformer_layer import TransformerLayer

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
    "ByPlace",
    "ClassifierHead",
    "Concat",
    "Concatenated",
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
    "LatentByPlace",
    "LatentEmbedding",
    "LatentSlot",
    "LayerNorm",
    "LeakyReLU",
    "Learned",
    "Linear",
    "Mark",
    "Max",
    "Mean",
    "MultiHead",
    "Ordered",
    "Patch",
    "PositionwiseFeedForward",
    "PostNorm",
    "PreNorm",
    "Projection",
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
    "Spelled",
    "Sum",
    "SumLast",
    "Tanh",
    "Tied",
    "Token",
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

"""STRUCTURE: the catalog of building blocks. Importing this package registers them."""

from weft.blocks.activation import GELU, GELUTanh, Identity, ReLU, Sigmoid, SiLU, Tanh
from weft.blocks.alignment import Alignment
from weft.blocks.attend import attend, look, recording
from weft.blocks.bag import BagOfWords
from weft.blocks.cnn import CNN
from weft.blocks.crf import CRF
from weft.blocks.feedforward import Gated, PositionwiseFeedForward
from weft.blocks.head import ClassifierHead, Tied, Untied
from weft.blocks.linear import Linear
from weft.blocks.multihead import MultiHead
from weft.blocks.norm import LayerNorm, RMSNorm
from weft.blocks.ordered import Ordered
from weft.blocks.pooler import Concat, First, Last, Max, Mean
from weft.blocks.position import Learned, Rotary, Sinusoidal
from weft.blocks.recurrent import GRU, LSTM
from weft.blocks.recurrent_decoder import AttentionGRU, AttentionLSTM, GRUDecoder, LSTMDecoder
from weft.blocks.residual import PostNorm, PreNorm
from weft.blocks.score import Additive, Dot, General, ScaledDot
from weft.blocks.spelled import Spelled
from weft.blocks.sum import Sum
from weft.blocks.token import Token
from weft.blocks.transformer import Transformer, TransformerDecoder
from weft.blocks.transformer_layer import TransformerLayer

__all__ = [
    "CNN",
    "CRF",
    "GELU",
    "GRU",
    "LSTM",
    "Additive",
    "Alignment",
    "AttentionGRU",
    "AttentionLSTM",
    "BagOfWords",
    "ClassifierHead",
    "Concat",
    "Dot",
    "First",
    "GELUTanh",
    "GRUDecoder",
    "Gated",
    "General",
    "Identity",
    "LSTMDecoder",
    "Last",
    "LayerNorm",
    "Learned",
    "Linear",
    "Max",
    "Mean",
    "MultiHead",
    "Ordered",
    "PositionwiseFeedForward",
    "PostNorm",
    "PreNorm",
    "RMSNorm",
    "ReLU",
    "Rotary",
    "ScaledDot",
    "SiLU",
    "Sigmoid",
    "Sinusoidal",
    "Spelled",
    "Sum",
    "Tanh",
    "Tied",
    "Token",
    "Transformer",
    "TransformerDecoder",
    "TransformerLayer",
    "Untied",
    "attend",
    "look",
    "recording",
]

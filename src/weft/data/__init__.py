"""DATA: source -> tokenizer -> dataset -> order -> batch."""

from weft.data.bpe import BPE
from weft.data.character import Character
from weft.data.codec import load_codec, save_codec
from weft.data.columns import Column, InMemory, Store, TokenDataset
from weft.data.dates import Dates
from weft.data.feed import Feed, Padding, Sweep, evaluation_batches
from weft.data.labelled import LabelledText
from weft.data.order import Buckets, permute
from weft.data.parallel import ParallelText
from weft.data.plain import PlainText
from weft.data.word import Word

__all__ = [
    "BPE",
    "Buckets",
    "Character",
    "Column",
    "Dates",
    "Feed",
    "InMemory",
    "LabelledText",
    "Padding",
    "ParallelText",
    "PlainText",
    "Store",
    "Sweep",
    "TokenDataset",
    "Word",
    "evaluation_batches",
    "load_codec",
    "permute",
    "save_codec",
]

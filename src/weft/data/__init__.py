"""DATA: source -> tokenizer -> dataset -> order -> batch."""

from weft.data.bpe import BPE
from weft.data.byte import Byte
from weft.data.byte_bpe import ByteBPE
from weft.data.character import Character
from weft.data.codec import load_codec, save_codec
from weft.data.columns import Column, TokenDataset
from weft.data.dates import Dates
from weft.data.encoding import example_of
from weft.data.feed import Feed, Padding, Sweep, evaluation_batches
from weft.data.image import read_image
from weft.data.labelled import LabelledText
from weft.data.labelled_images import LabelledImages
from weft.data.masking import with_masks
from weft.data.mirrored import MirroredText
from weft.data.multiple_choice import MultipleChoice
from weft.data.order import Buckets, permute
from weft.data.pairs import SentencePairs
from weft.data.parallel import ParallelText
from weft.data.plain import PlainText
from weft.data.prepared import Prepared
from weft.data.published import Published
from weft.data.questions import Questions
from weft.data.rows import rows
from weft.data.sentinels import WithSentinels
from weft.data.tagged import TaggedText
from weft.data.unigram import Unigram
from weft.data.vocabulary import survives
from weft.data.word import Word
from weft.data.wordpiece import WordPiece

__all__ = [
    "BPE",
    "Buckets",
    "Byte",
    "ByteBPE",
    "Character",
    "Column",
    "Dates",
    "Feed",
    "LabelledImages",
    "LabelledText",
    "MirroredText",
    "MultipleChoice",
    "Padding",
    "ParallelText",
    "PlainText",
    "Prepared",
    "Published",
    "Questions",
    "SentencePairs",
    "Sweep",
    "TaggedText",
    "TokenDataset",
    "Unigram",
    "WithSentinels",
    "Word",
    "WordPiece",
    "evaluation_batches",
    "example_of",
    "load_codec",
    "permute",
    "read_image",
    "rows",
    "save_codec",
    "survives",
    "with_masks",
]

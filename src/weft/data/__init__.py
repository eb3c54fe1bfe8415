"""DATA: source -> tokenizer -> dataset -> order -> batch."""

from weft.core.fields import read_image
from weft.data.augment.color_jitter import ColorJitter
from weft.data.augment.cutmix import CutMix
from weft.data.augment.horizontal_flip import HorizontalFlip
from weft.data.augment.mixup import Mixup
from weft.data.augment.random_crop import RandomCrop
from weft.data.augment.random_erasing import RandomErasing
from weft.data.augment.random_resized_crop import RandomResizedCrop
from weft.data.augment.several_of import SeveralOf
from weft.data.codec import fields_file, load_codec, save_codec
from weft.data.columns import Column, TokenDataset
from weft.data.encoding import encode_example, encode_examples
from weft.data.feed import EvaluationFeed, Feed, PaddingStats, evaluation_batches
from weft.data.order import Buckets, permute
from weft.data.prepared import PreparedDataset
from weft.data.sources.autoencoding_text import AutoencodingText
from weft.data.sources.dates import Dates
from weft.data.sources.image_text import ImageText
from weft.data.sources.labeled_images import LabeledImages
from weft.data.sources.labeled_text import LabeledText
from weft.data.sources.mixture import Mixture
from weft.data.sources.multiple_choice import MultipleChoice
from weft.data.sources.parallel_text import ParallelText
from weft.data.sources.plain_text import PlainText
from weft.data.sources.python_data import cache_rows
from weft.data.sources.question_answering import QuestionAnswering
from weft.data.sources.sentence_pairs import SentencePairs
from weft.data.sources.tagged_text import TaggedText
from weft.data.sources.text_to_text import TextToText
from weft.data.tokenizers.bpe import BPE
from weft.data.tokenizers.byte import Byte
from weft.data.tokenizers.byte_bpe import ByteBPE
from weft.data.tokenizers.character import Character
from weft.data.tokenizers.mask_tokens import with_mask_tokens
from weft.data.tokenizers.pretrained import PretrainedTokenizer
from weft.data.tokenizers.sentinels import WithSentinels
from weft.data.tokenizers.unigram import Unigram
from weft.data.tokenizers.vocabulary import is_lossless
from weft.data.tokenizers.word import Word
from weft.data.tokenizers.wordpiece import WordPiece

__all__ = [
    "BPE",
    "AutoencodingText",
    "Buckets",
    "Byte",
    "ByteBPE",
    "Character",
    "ColorJitter",
    "Column",
    "CutMix",
    "Dates",
    "EvaluationFeed",
    "Feed",
    "HorizontalFlip",
    "ImageText",
    "LabeledImages",
    "LabeledText",
    "Mixture",
    "Mixup",
    "MultipleChoice",
    "PaddingStats",
    "ParallelText",
    "PlainText",
    "PreparedDataset",
    "PretrainedTokenizer",
    "QuestionAnswering",
    "RandomCrop",
    "RandomErasing",
    "RandomResizedCrop",
    "SentencePairs",
    "SeveralOf",
    "TaggedText",
    "TextToText",
    "TokenDataset",
    "Unigram",
    "WithSentinels",
    "Word",
    "WordPiece",
    "cache_rows",
    "encode_example",
    "encode_examples",
    "evaluation_batches",
    "fields_file",
    "is_lossless",
    "load_codec",
    "permute",
    "read_image",
    "save_codec",
    "with_mask_tokens",
]

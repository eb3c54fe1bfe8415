"""Unigram language model tokenizer, as in SentencePiece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

import numpy as np
from tokenizers import decoders, models, normalizers

from weft.core.fields import Special
from weft.core.options import Vocab
from weft.core.registry import block
from weft.data.tokenizers.unigram_lattice import SegmentationLattice
from weft.data.tokenizers.vocabulary import VocabularyTokenizer, count_pieces, most_frequent, split_by

_SPACE = "▁"
# As for BPE: a word, a number or a run of symbols, with the mark of the space before it, and further spaces. "<" is isolated, so
# that no piece can be the name of a special token.
_PIECES = "|".join(
    [
        r"<|▁+(?=▁)",
        r"▁?[\p{L}\p{M}]+",
        r"▁?\p{N}+",
        r"▁?[^\s\p{L}\p{M}\p{N}<▁]+",
        r"▁|\s+",
    ]
)
_MAX_PIECE, _MAX_WORD = 16, 64
"""Maximum characters of a piece; longer words are split for training."""


def train_unigram(words: Counter[str], alphabet: list[str], size: int) -> list[tuple[str, float]]:
    """Return at most ``size`` pieces with log p(piece), the most probable first.

    Expectation maximization over all segmentations of the words. After every second step, the pieces with the smallest loss
    count(x) (log p(x) - log p(best segmentation of x)) are pruned, a quarter at most. Single characters are kept.
    """
    words = _known_runs(words, set(alphabet))
    counts = _substrings(words)
    found = sorted((p for p in counts if len(p) > 1), key=lambda piece: (-counts[piece] * len(piece), piece))[: 10 * size]
    pieces = [*alphabet, *found]
    indices = {piece: index for index, piece in enumerate(pieces)}
    lattice, weights = SegmentationLattice(list(words), indices, _MAX_PIECE), np.array(list(words.values()), np.float64)
    own = SegmentationLattice(pieces, indices, _MAX_PIECE, full_words=False)
    alive = np.arange(len(pieces))
    scores = _log_probabilities(np.array([counts[piece] for piece in pieces], np.float64))
    while True:
        expected = lattice.expected(_log_probabilities(lattice.expected(scores, weights)), weights)
        scores = _log_probabilities(expected)
        is_character = alive < len(alphabet)
        if len(alive) <= size:
            break
        others = own.best(_scatter(scores, alive, len(pieces)))[alive]
        loss = np.where(is_character, np.inf, expected * (scores - np.where(is_character, 0, others)))
        kept = np.sort(np.argsort(-loss, kind="stable")[: max(size, len(alive) * 3 // 4)])
        index = np.full(len(alive), -1)
        index[kept] = np.arange(len(kept))
        lattice.keep(index)
        own.keep(_remaining(alive[kept], len(pieces)))
        alive, scores = alive[kept], scores[kept]
    useful = is_character | (expected >= 0.5)
    learned = [(pieces[i], round(float(score), 6)) for i, score, use in zip(alive, scores, useful, strict=True) if use]
    return sorted(learned, key=lambda entry: (-entry[1], entry[0]))


def _known_runs(words: Counter[str], characters: set[str]) -> Counter[str]:
    """Runs of known characters of bounded length; sorted, because floating-point sums depend on the order."""
    parts: Counter[str] = Counter()
    for word, count in sorted(words.items()):
        for known, run in groupby(word, characters.__contains__):
            part = "".join(run)
            for start in range(0, len(part) if known else 0, _MAX_WORD):
                parts[part[start : start + _MAX_WORD]] += count
    return parts


def _substrings(words: Counter[str]) -> dict[str, int]:
    """Counts of single characters and of all longer substrings that occur at least twice (Apriori: so do both their ends)."""
    counts: dict[str, int] = {}
    for size in range(1, _MAX_PIECE + 1):
        level: Counter[str] = Counter()
        for word, count in words.items():
            for start in range(len(word) - size + 1):
                piece = word[start : start + size]
                if size == 1 or (piece[:-1] in counts and piece[1:] in counts):
                    level[piece] += count
        fresh = {piece: count for piece, count in level.items() if count > 1 or size == 1}
        if not fresh:
            break
        counts |= fresh
    return counts


def _log_probabilities(counts: np.ndarray) -> np.ndarray:
    """Log relative frequencies, with a floor for pieces that are never used."""
    counts = np.maximum(counts, 1e-6)
    return np.log(counts / counts.sum())


def _scatter(scores: np.ndarray, alive: np.ndarray, size: int) -> np.ndarray:
    """Scores by original piece index; -inf for pruned pieces."""
    out = np.full(size, -np.inf)
    out[alive] = scores
    return out


def _remaining(alive: np.ndarray, size: int) -> np.ndarray:
    out = np.full(size, -1)
    out[alive] = alive
    return out


@block("unigram")
class Unigram(VocabularyTokenizer):
    """Unigram language model: the most probable segmentation of a text into subwords.

    encode(x) = argmax over segmentations x = p_1 ... p_k of sum_i log p(p_i). A space becomes ▁ and belongs to the word after
    it; the first word gets one too. Texts of known characters are decoded exactly (except ▁, which becomes a space). A run of
    unseen characters is one ``<unk>``.

    Kudo 2018, https://arxiv.org/abs/1804.10959

    Args:
        vocab_size: Maximum number of ids: the 7 special ones, all characters (the most frequent, if there are too many), then
            longer pieces. Fewer if further pieces are not used.
        lowercase: Whether to lower-case texts.

    Example:
        >>> pieces = Unigram(vocab_size=20)
        >>> pieces.train(["low lower lowest", "  low", "slow"])
        >>> pieces.tokens(pieces.encode("low  lowest"))
        ['▁low', '▁', '▁lowe', 's', 't']
        >>> pieces.decode(pieces.encode("low  lowest"))
        'low  lowest'
    """

    model, pre_tokenizer = "Unigram", "Split"

    def __init__(self, *, vocab_size: Vocab = 8000, lowercase: bool = False):
        super().__init__(vocab_size=vocab_size, lowercase=lowercase)

    def normalizer(self) -> normalizers.Normalizer:
        marks = [normalizers.Prepend(_SPACE), normalizers.Replace(" ", _SPACE)]
        return normalizers.Sequence([normalizers.Lowercase(), *marks] if self.lowercase else marks)

    def train(self, texts: Iterable[str]) -> None:
        words = count_pieces(map(self.normalize, texts), split_by(_PIECES))
        if not words:
            raise ValueError("cannot train the tokenizer: the texts are empty")
        characters: Counter[str] = Counter()
        for word, count in words.items():
            for character in word:
                characters[character] += count
        limit = self.vocab_size - len(Special.NAMES)
        # not trained by the library, whose result depends on hash-table order
        pieces = train_unigram(words, most_frequent(characters, limit), limit)
        model = models.Unigram([*((name, 0.0) for name in Special.NAMES), *pieces], Special.unk, False)
        inner = self.assemble(model, split_by(_PIECES))
        inner.decoder = decoders.Sequence([decoders.Replace(_SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        self.adopt(inner)

    def join(self, symbols: list[str]) -> str:
        return "".join(symbols).replace(_SPACE, " ").removeprefix(" ")

"""Text as pieces of words: the unigram language model of SentencePiece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

import numpy as np
from tokenizers import decoders, models, normalizers

from weft.core.fields import Special
from weft.core.options import Vocab
from weft.core.registry import block
from weft.data.tokenizers.unigram_lattice import Segmentations
from weft.data.tokenizers.vocabulary import VocabularyTokenizer, count_pieces, most_frequent, split

_SPACE = "▁"
# As for BPE: a word, a number or a run of signs, with the mark of the space before it, and what further spaces there are. "<"
# stands alone, so that no piece can ever be the name of a special id.
_PIECES = "|".join(
    [
        r"<|▁+(?=▁)",
        r"▁?[\p{L}\p{M}]+",
        r"▁?\p{N}+",
        r"▁?[^\s\p{L}\p{M}\p{N}<▁]+",
        r"▁|\s+",
    ]
)
_LONGEST, _WORD = 16, 64
"""Most characters of a piece; longer words are learned from in parts."""


def learn(words: Counter[str], alphabet: list[str], size: int) -> list[tuple[str, float]]:
    """At most ``size`` pieces with log p(piece), the most probable first.

    Expectation maximisation over all cuts of the words. After every second step, those of the pieces go (a quarter at most)
    whose absence costs the least: count(x) (log p(x) - log p(best cut of x)). Single characters stay.
    """
    words = _parts(words, set(alphabet))
    counts = _substrings(words)
    found = sorted((p for p in counts if len(p) > 1), key=lambda piece: (-counts[piece] * len(piece), piece))[: 10 * size]
    pieces = [*alphabet, *found]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    cuts, weights = Segmentations(list(words), numbers, _LONGEST), np.array(list(words.values()), np.float64)
    own = Segmentations(pieces, numbers, _LONGEST, whole=False)
    alive = np.arange(len(pieces))
    scores = _log(np.array([counts[piece] for piece in pieces], np.float64))
    while True:
        expected = cuts.expected(_log(cuts.expected(scores, weights)), weights)
        scores = _log(expected)
        letter = alive < len(alphabet)
        if len(alive) <= size:
            break
        others = own.best(_whole(scores, alive, len(pieces)))[alive]
        cost = np.where(letter, np.inf, expected * (scores - np.where(letter, 0, others)))
        kept = np.sort(np.argsort(-cost, kind="stable")[: max(size, len(alive) * 3 // 4)])
        number = np.full(len(alive), -1)
        number[kept] = np.arange(len(kept))
        cuts.keep(number)
        own.keep(_gone(alive[kept], len(pieces)))
        alive, scores = alive[kept], scores[kept]
    useful = letter | (expected >= 0.5)
    learned = [(pieces[i], round(float(score), 6)) for i, score, use in zip(alive, scores, useful, strict=True) if use]
    return sorted(learned, key=lambda entry: (-entry[1], entry[0]))


def _parts(words: Counter[str], letters: set[str]) -> Counter[str]:
    """Runs of known letters, none too long; sorted, because the order of a sum is seen in its last digits."""
    parts: Counter[str] = Counter()
    for word, number in sorted(words.items()):
        for known, run in groupby(word, letters.__contains__):
            part = "".join(run)
            for start in range(0, len(part) if known else 0, _WORD):
                parts[part[start : start + _WORD]] += number
    return parts


def _substrings(words: Counter[str]) -> dict[str, int]:
    """Counts of the single characters and of all longer pieces that occur twice. Both ends of such a piece occur twice too."""
    counts: dict[str, int] = {}
    for size in range(1, _LONGEST + 1):
        level: Counter[str] = Counter()
        for word, number in words.items():
            for start in range(len(word) - size + 1):
                piece = word[start : start + size]
                if size == 1 or (piece[:-1] in counts and piece[1:] in counts):
                    level[piece] += number
        fresh = {piece: number for piece, number in level.items() if number > 1 or size == 1}
        if not fresh:
            break
        counts |= fresh
    return counts


def _log(counts: np.ndarray) -> np.ndarray:
    """Logarithms of shares; what was never used is not impossible."""
    counts = np.maximum(counts, 1e-6)
    return np.log(counts / counts.sum())


def _whole(scores: np.ndarray, alive: np.ndarray, size: int) -> np.ndarray:
    """The scores by the pieces' first numbers."""
    out = np.full(size, -np.inf)
    out[alive] = scores
    return out


def _gone(alive: np.ndarray, size: int) -> np.ndarray:
    out = np.full(size, -1)
    out[alive] = alive
    return out


@block("unigram")
class Unigram(VocabularyTokenizer):
    """The most probable cut of a text into pieces, each piece with a probability of its own.

    encode(x) = argmax over cuts x = p_1 ... p_k of sum_i log p(p_i). A space becomes ▁ and belongs to the word after it; the
    text's first word gets one too. So the tokens of a text, put together, are the text: one of known characters comes back
    exactly (but ▁ itself as a space). Characters that training did not see are ``<unk>``, neighbouring ones together.

    Kudo 2018, https://arxiv.org/abs/1804.10959

    Args:
        size: Most ids: the 7 special ones, all characters (the most frequent, if there are too many), then longer pieces.
            Fewer when there are not so many that help.
        lowercase: Whether texts are lower-cased first.

    Example:
        >>> pieces = Unigram(size=20)
        >>> pieces.train(["low lower lowest", "  low", "slow"])
        >>> pieces.tokens(pieces.encode("low  lowest"))
        ['▁low', '▁', '▁lowe', 's', 't']
        >>> pieces.decode(pieces.encode("low  lowest"))
        'low  lowest'
    """

    model, cut = "Unigram", "Split"

    def __init__(self, *, size: Vocab = 8000, lowercase: bool = False):
        super().__init__(size=size, lowercase=lowercase)

    def normaliser(self) -> normalizers.Normalizer:
        marks = [normalizers.Prepend(_SPACE), normalizers.Replace(" ", _SPACE)]
        return normalizers.Sequence([normalizers.Lowercase(), *marks] if self.lowercase else marks)

    def train(self, texts: Iterable[str]) -> None:
        words = count_pieces(map(self.normalise, texts), split(_PIECES))
        if not words:
            raise ValueError("there is no text to find pieces of words in")
        letters: Counter[str] = Counter()
        for word, number in words.items():
            for letter in word:
                letters[letter] += number
        room = self.size - len(Special.NAMES)
        # not the library's training, whose result depends on the order of a hash table
        pieces = learn(words, most_frequent(letters, room), room)
        model = models.Unigram([*((name, 0.0) for name in Special.NAMES), *pieces], Special.unk, False)
        inner = self.assemble(model, split(_PIECES))
        inner.decoder = decoders.Sequence([decoders.Replace(_SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        self.adopt(inner)

    def join(self, symbols: list[str]) -> str:
        return "".join(symbols).replace(_SPACE, " ").removeprefix(" ")

"""Lattice of all segmentations of words into pieces, with dynamic programming over all words at once.

A boundary between two characters is a node, a piece is an edge between two nodes. Nodes of all words are numbered
consecutively, and all words are processed in parallel: one vectorized step per position, whatever the number of words.
Suffixes: E edges, N nodes, W words, P pieces.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class _Traversal:
    """Edges in topological order, and the start of the edges into each node."""

    edges: np.ndarray
    starts: np.ndarray
    nodes: np.ndarray
    steps: np.ndarray

    @classmethod
    def of(cls, into_E: np.ndarray, rank_N: np.ndarray) -> _Traversal:
        """``rank_N``: nodes of lower rank are completed first."""
        edges = np.lexsort((into_E, rank_N[into_E]))
        into = into_E[edges]
        starts = np.flatnonzero(np.r_[True, into[1:] != into[:-1]]) if len(into) else np.zeros(0, np.int64)
        nodes = into[starts]
        ranks = rank_N[nodes]
        return cls(edges, starts, nodes, np.flatnonzero(np.r_[True, ranks[1:] != ranks[:-1]]) if len(nodes) else starts)

    def run(self, value_N: np.ndarray, from_E: np.ndarray, score_E: np.ndarray, add: np.ufunc) -> np.ndarray:
        """value[node] = add over incoming edges of value[origin] + score."""
        for step, first in enumerate(self.steps):
            last = self.steps[step + 1] if step + 1 < len(self.steps) else len(self.starts)
            start = self.starts[first]
            end = self.starts[last] if last < len(self.starts) else len(self.edges)
            edges = self.edges[start:end]
            value_N[self.nodes[first:last]] = add.reduceat(
                value_N[from_E[edges]] + score_E[edges], self.starts[first:last] - start
            )
        return value_N


class SegmentationLattice:
    """All segmentations of words into pieces.

    Args:
        words: Non-empty words.
        pieces: Index of each piece.
        max_length: Maximum number of characters per piece.
        full_words: Whether a piece may be a complete word.
    """

    def __init__(self, words: Sequence[str], pieces: Mapping[str, int], max_length: int, full_words: bool = True):
        starts, ends, indices = array("q"), array("q"), array("q")
        get, node = pieces.get, 0
        for word in words:
            size = len(word)
            for i in range(size):
                for j in range(i + 1, min(size, i + max_length) + 1):
                    piece = get(word[i:j])
                    if piece is not None and (full_words or j - i < size):
                        starts.append(node + i)
                        ends.append(node + j)
                        indices.append(piece)
            node += size + 1
        nodes_W = np.array([len(word) + 1 for word in words])
        self.last_W = np.cumsum(nodes_W) - 1
        self.first_W = self.last_W - nodes_W + 1
        self.word_N = np.repeat(np.arange(len(words)), nodes_W)
        self.rank_N = np.arange(len(self.word_N)) - self.first_W[self.word_N]
        self._set(np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64), np.frombuffer(indices, np.int64))

    def _set(self, start_E: np.ndarray, end_E: np.ndarray, piece_E: np.ndarray) -> None:
        self.start_E, self.end_E, self.piece_E = start_E, end_E, piece_E
        self._forward, self._backward = _Traversal.of(end_E, self.rank_N), _Traversal.of(start_E, -self.rank_N)

    def keep(self, index_P: np.ndarray) -> None:
        """Remove pieces: ``index_P`` has the new index of each piece, -1 for removed ones."""
        kept = index_P[self.piece_E] >= 0
        self._set(self.start_E[kept], self.end_E[kept], index_P[self.piece_E[kept]])

    def best(self, score_P: np.ndarray) -> np.ndarray:
        """Return the best score of each word (Viterbi): max over segmentations of the sum of piece scores; -inf if none."""
        return self._run(self._forward, self.first_W, self.start_E, score_P, np.maximum)[self.last_W]

    def expected(self, score_P: np.ndarray, weight_W: np.ndarray) -> np.ndarray:
        """Return expected piece counts by forward-backward, with p(segmentation) proportional to exp(sum of scores).

        Word w has the weight weight_W[w].
        """
        forward_N = self._run(self._forward, self.first_W, self.start_E, score_P, np.logaddexp)
        backward_N = self._run(self._backward, self.last_W, self.end_E, score_P, np.logaddexp)
        word_E = self.word_N[self.start_E]
        log_E = forward_N[self.start_E] + score_P[self.piece_E] + backward_N[self.end_E] - forward_N[self.last_W][word_E]
        return np.bincount(self.piece_E, np.exp(log_E) * weight_W[word_E], minlength=len(score_P))

    def _run(self, traversal: _Traversal, at_W: np.ndarray, from_E: np.ndarray, score_P: np.ndarray, add: np.ufunc) -> np.ndarray:
        value_N = np.full(len(self.word_N), -np.inf)
        value_N[at_W] = 0
        return traversal.run(value_N, from_E, score_P[self.piece_E], add)

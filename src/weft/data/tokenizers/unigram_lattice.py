"""All ways to cut words into pieces, summed over without writing them out.

A place between two characters is a node, a piece from one place to another is an edge. Nodes of all words are numbered one
after the other, and the words are gone through in step: one sweep per position, whatever the number of words.
Suffixes: E edges, N nodes, W words, P pieces.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class _Sweep:
    """Edges in the order in which they are passed, and where in it the edges into one node begin."""

    edges: np.ndarray
    begins: np.ndarray
    nodes: np.ndarray
    steps: np.ndarray

    @classmethod
    def of(cls, into_E: np.ndarray, rank_N: np.ndarray) -> _Sweep:
        """``rank_N``: nodes of a lower rank are finished first."""
        edges = np.lexsort((into_E, rank_N[into_E]))
        into = into_E[edges]
        begins = np.flatnonzero(np.r_[True, into[1:] != into[:-1]]) if len(into) else np.zeros(0, np.int64)
        nodes = into[begins]
        ranks = rank_N[nodes]
        return cls(edges, begins, nodes, np.flatnonzero(np.r_[True, ranks[1:] != ranks[:-1]]) if len(nodes) else begins)

    def run(self, value_N: np.ndarray, from_E: np.ndarray, score_E: np.ndarray, add: np.ufunc) -> np.ndarray:
        """value[node] = add over edges into it of value[where it comes from] + score."""
        for step, first in enumerate(self.steps):
            last = self.steps[step + 1] if step + 1 < len(self.steps) else len(self.begins)
            start = self.begins[first]
            end = self.begins[last] if last < len(self.begins) else len(self.edges)
            edges = self.edges[start:end]
            value_N[self.nodes[first:last]] = add.reduceat(
                value_N[from_E[edges]] + score_E[edges], self.begins[first:last] - start
            )
        return value_N


class Segmentations:
    """The ways to cut each of ``words`` into ``pieces``.

    Args:
        words: What is cut; none of them empty.
        pieces: The number of each piece.
        longest: Most characters of a piece.
        whole: Whether a piece may be a whole word.
    """

    def __init__(self, words: Sequence[str], pieces: Mapping[str, int], longest: int, whole: bool = True):
        starts, ends, numbers = array("q"), array("q"), array("q")
        get, node = pieces.get, 0
        for word in words:
            size = len(word)
            for i in range(size):
                for j in range(i + 1, min(size, i + longest) + 1):
                    piece = get(word[i:j])
                    if piece is not None and (whole or j - i < size):
                        starts.append(node + i)
                        ends.append(node + j)
                        numbers.append(piece)
            node += size + 1
        nodes_W = np.array([len(word) + 1 for word in words])
        self.last_W = np.cumsum(nodes_W) - 1
        self.first_W = self.last_W - nodes_W + 1
        self.word_N = np.repeat(np.arange(len(words)), nodes_W)
        self.rank_N = np.arange(len(self.word_N)) - self.first_W[self.word_N]
        self._set(np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64), np.frombuffer(numbers, np.int64))

    def _set(self, start_E: np.ndarray, end_E: np.ndarray, piece_E: np.ndarray) -> None:
        self.start_E, self.end_E, self.piece_E = start_E, end_E, piece_E
        self._forward, self._backward = _Sweep.of(end_E, self.rank_N), _Sweep.of(start_E, -self.rank_N)

    def keep(self, number_P: np.ndarray) -> None:
        """Leave only some pieces: ``number_P`` has the new number of each, -1 for those that go."""
        stays = number_P[self.piece_E] >= 0
        self._set(self.start_E[stays], self.end_E[stays], number_P[self.piece_E[stays]])

    def best(self, score_P: np.ndarray) -> np.ndarray:
        """For each word the highest score of a cut: max over cuts of the sum of the pieces' scores; -inf where there is none."""
        return self._from(self._forward, self.first_W, self.start_E, score_P, np.maximum)[self.last_W]

    def expected(self, score_P: np.ndarray, weight_W: np.ndarray) -> np.ndarray:
        """How often each piece is used, where p(cut) is proportional to exp(sum of scores) and word w counts weight_w times."""
        forward_N = self._from(self._forward, self.first_W, self.start_E, score_P, np.logaddexp)
        backward_N = self._from(self._backward, self.last_W, self.end_E, score_P, np.logaddexp)
        word_E = self.word_N[self.start_E]
        log_E = forward_N[self.start_E] + score_P[self.piece_E] + backward_N[self.end_E] - forward_N[self.last_W][word_E]
        return np.bincount(self.piece_E, np.exp(log_E) * weight_W[word_E], minlength=len(score_P))

    def _from(self, sweep: _Sweep, at_W: np.ndarray, from_E: np.ndarray, score_P: np.ndarray, add: np.ufunc) -> np.ndarray:
        value_N = np.full(len(self.word_N), -np.inf)
        value_N[at_W] = 0
        return sweep.run(value_N, from_E, score_P[self.piece_E], add)

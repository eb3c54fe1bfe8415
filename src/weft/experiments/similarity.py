"""Semantic textual similarity: correlation of the cosine similarity of sentence embeddings with gold scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.data.sources.sentence_pairs import SentencePairs
from weft.evaluate import Correlation, EvaluationResult
from weft.evaluate.reference import parse_number
from weft.experiments.scaffold.table import detect_columns
from weft.inference.embedding import TextEmbedder, open_embedder

COLUMNS = ("first", "second", "label", "column_names")
"""Options that name the columns of a table of pairs."""


def evaluate_similarity(
    model: str | Path | TextEmbedder, files: Sequence[str | Path], columns: Mapping[str, Any] | None = None
) -> EvaluationResult:
    """Return the Pearson and Spearman correlation of the cosine similarity of sentence pairs with their gold scores.

    similarity_i = cos(e(first_i), e(second_i)), with the embeddings e of ``open_embedder``; nothing is trained

    Cer et al. 2017 (STS Benchmark), https://arxiv.org/abs/1708.00055

    Args:
        model: An embedder, a run folder with an encoder, the folder of a published encoder, or a name such as ``minilm``.
        files: Tables (TSV, CSV, JSON Lines) with two texts and a score.
        columns: Options ``first``, ``second``, ``label`` and ``column_names`` of the data source sentence-pairs; those that are
            missing are detected, as ``weft new`` does.
    """
    if not files:
        raise ValueError("similarity is evaluated on sentence pairs: pass a table with two texts and a score")
    options = dict(columns or {})
    if unknown := [name for name in options if name not in COLUMNS]:
        raise ValueError(f"unknown option {unknown[0]!r} of a table of sentence pairs; known: {', '.join(COLUMNS)}")
    pairs, dropped = _read_pairs([str(file) for file in files], options)
    embed = model if isinstance(model, TextEmbedder) else open_embedder(model)
    before = embed.truncated
    first_ND, second_ND = (embed([pair[name] for pair in pairs]) for name in ("first", "second"))
    similarity_N = _cosine(first_ND, second_ND)
    predictions, metric = [f"{similarity:.9g}" for similarity in similarity_N.tolist()], Correlation()
    remarks = [f"{sum(dropped.values()):,} rows were left out: " + ", ".join(f"{n:,} {why}" for why, n in dropped.items())]
    truncated = embed.truncated - before
    return EvaluationResult(
        {**metric.compute(predictions, pairs), "pairs": len(pairs)},
        dict(enumerate(predictions)),
        dict(enumerate(pairs)),
        remarks=[
            *(remarks if dropped else []),
            *([f"truncated {truncated:,} texts to {embed.max_length} tokens"] if truncated else []),
        ],
        higher_is_better=dict(metric.higher_is_better),  # pyright: ignore[reportArgumentType]
        split="files",
        metrics=[metric],
    )


def _cosine(first_ND: np.ndarray, second_ND: np.ndarray) -> np.ndarray:
    lengths_N = np.linalg.norm(first_ND, axis=1) * np.linalg.norm(second_ND, axis=1)
    return (first_ND * second_ND).sum(1) / np.maximum(lengths_N, 1e-12)


def _read_pairs(files: list[str], options: dict[str, Any]) -> tuple[list[dict[str, str]], Counter[str]]:
    """The pairs with their scores, and the numbers of rows that are left out, by reason."""
    for file in files:
        if not Path(file).is_file():
            raise ValueError(f"{file}: file not found")
    if not options.keys() >= {"first", "second", "label"}:
        options = detect_columns(files[0], options) | options
    source = SentencePairs(train=files, label_type="number", **options)
    pairs, dropped = list[dict[str, str]](), Counter[str]()
    for row in source.rows([source.cursor(files)]):
        if row.problem:
            raise ValueError(f"{row.where}: {row.problem}; fix or remove the row")
        if not row.cells or not row.cells["first"] or not row.cells["second"]:
            dropped["with an empty text"] += 1
        elif not row.cells["label"]:
            dropped["without a score"] += 1
        else:
            try:
                parse_number(row.cells["label"], "reference", 0)
            except ValueError:
                raise ValueError(
                    f"{row.where}: the score is {row.cells['label'][:40]!r}, which is not a number; name the column of the "
                    "scores with data.label=COLUMN"
                ) from None
            pairs.append(dict(row.cells))
    if len(pairs) < 2:
        raise ValueError(f"{', '.join(files)}: {len(pairs)} pairs with a score; a correlation needs at least 2")
    return pairs, dropped

"""``weft embed``."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import message, print_line, read_lines
from weft.cli.options import InputLines, Model, command
from weft.core.printable import printable_json

SUFFIXES = (".npy", ".jsonl")


@command
def embed(
    model: Model,
    file: InputLines = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the embeddings: .npy, or .jsonl with the texts.")
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="TEXT", help="Semantic search: print the most similar lines.")] = None,
    top_k: Annotated[int, typer.Option(help="Number of lines that --query prints.", min=1)] = 5,
) -> None:
    """Compute sentence embeddings, and search lines by cosine similarity.

    Without --out and --query, print JSON lines.
    """
    import numpy as np

    from weft.core.files import write_bytes
    from weft.core.io import write_text
    from weft.inference.embedding import open_embedder

    if out is not None and out.suffix not in SUFFIXES:
        raise ValueError(f"--out {out}: unknown format {out.suffix or 'without suffix'}; use {' or '.join(SUFFIXES)}")
    encoder = open_embedder(model)
    texts = list(read_lines(file))
    if not texts:
        raise ValueError(f"{file or 'standard input'} is empty; give at least one line to embed")
    vectors = encoder(texts)
    if encoder.truncated:
        message(f"truncated {encoder.truncated} of {len(texts)} lines to {encoder.max_length} tokens")
    records = (
        json.dumps({"text": text, "vector": [round(float(x), 6) for x in vector]}, ensure_ascii=False)
        for text, vector in zip(texts, vectors, strict=True)
    )
    if out is not None:
        if out.suffix == ".npy":
            buffer = io.BytesIO()
            np.save(buffer, vectors)
            write_bytes(out, buffer.getvalue())
        else:
            write_text(out, "".join(record + "\n" for record in records))
        message(f"wrote {len(vectors)} embeddings of dimension {vectors.shape[1]} to {out}")
    if query is not None:
        for similarity, text in encoder.nearest(query, texts, vectors, top_k):
            print_line(f"{similarity:.4f}\t{text}")
    elif out is None:
        for record in records:
            print_line(printable_json(record))

"""Vectors of texts, and the texts nearest to one. N texts, D width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.batch import pad
from weft.blocks import First, Mean
from weft.files import read_json
from weft.folder import RunFolder
from weft.models import Seq2SeqClassifier
from weft.slots import Codec

BUDGET = 4096
"""Places of a batch, padding included."""
POOLING, LENGTH = "1_Pooling/config.json", "sentence_bert_config.json"
"""Files in which a folder of sentence-transformers says how tokens are pooled, and the most of them."""


@dataclass
class Vectors:
    """A trained or published encoder as a function from texts to vectors.

    Args:
        model: A structure that encodes.
        codec: Its fields and tokenizer.
        pooler: From the vectors of tokens to one of the text.
        length: Most tokens of a text, with its frame; what is longer is cut, and counted in ``cut``.
        normalise: Whether vectors are made 1 long.
    """

    model: Any
    codec: Codec
    pooler: Any
    length: int
    normalise: bool = True
    cut: int = 0

    def __call__(self, texts: Iterable[str]) -> np.ndarray:
        """N x D vectors, in the order of the texts. The longest are computed first, in batches with little padding."""
        field = self.codec.info.given()[0]
        room = self.length - len(field.frame.first) - len(field.frame.last)
        encoded = self.codec.tokenizers[field.space].encode_batch(list(texts))
        self.cut += sum(len(ids) > room for ids in encoded)
        rows = [np.asarray(field.frame.around([np.asarray(ids[:room], np.int64)])) for ids in encoded]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        device = next(self.model.parameters()).device
        found = np.zeros((len(rows), self.model.dim), np.float32)
        start = 0
        with torch.inference_mode():
            while start < len(order):
                width = max(1, len(rows[order[start]]))
                some = order[start : start + max(1, BUDGET // width)]
                vectors = self.pooler(self.model.encode(pad([rows[i] for i in some]).to(device))).float()
                found[some] = (torch.nn.functional.normalize(vectors, dim=-1) if self.normalise else vectors).cpu().numpy()
                start += len(some)
        return found

    def nearest(self, query: str, texts: Sequence[str], vectors: np.ndarray, most: int = 5) -> list[tuple[float, str]]:
        """The texts whose vectors are most like the query's, with their cosines, best first."""
        asked = self([query])[0]
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(asked)
        score = vectors @ asked / np.maximum(lengths, 1e-12)
        best = np.argsort(-score, kind="stable")[:most]
        return [(float(score[i]), texts[i]) for i in map(int, best)]


def open_vectors(name: str | Path, device: str = "auto") -> Vectors:
    """The vectors of a published encoder, or of a trained run that encodes.

    A folder of sentence-transformers says how its tokens are pooled; other published encoders are averaged; a run's classifier
    has its own pooler.
    """
    from weft.opened import open_published
    from weft.run import load

    if RunFolder(name).is_run():
        run = load(name, device)
        if not hasattr(run.model, "encode"):
            raise ValueError(f"{name} encodes nothing that a vector could be made of")
        field = run.codec.info.given()[0] if run.codec else None
        assert run.codec is not None and field is not None
        own = None if isinstance(run.model, Seq2SeqClassifier) else getattr(run.model, "pooler", None)  # its pools the decoder
        pooler = own or Mean(run.model.dim)
        return Vectors(run.model, run.codec, *_told(RunFolder(name).path, run.model.dim, pooler, field.length + 8))
    run = open_published(name, task="encode", device=device)
    assert run.codec is not None
    folder = Path(run.codec.tokenizers["text"].from_)  # pyright: ignore[reportAttributeAccessIssue]
    length = run.codec.info["text"].length
    return Vectors(run.model, run.codec, *_told(folder, run.model.dim, Mean(run.model.dim), length))


def _told(folder: Path, dim: int, pooler: Any, length: int) -> tuple[Any, int]:
    """The pooler and the length that a folder says; those given where it says nothing."""
    if (file := folder / POOLING).is_file():
        pooler = First(dim) if read_json(file).get("pooling_mode_cls_token") else Mean(dim)
    if (file := folder / LENGTH).is_file():
        length = min(length, int(read_json(file).get("max_seq_length") or length))
    return pooler, length

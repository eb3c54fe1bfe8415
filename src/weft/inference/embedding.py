"""Sentence embeddings and semantic search, compatible with sentence-transformers.

Shape suffixes: N texts, D dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.blocks import FirstPooler, LastPooler, MaxPooler, MeanPooler
from weft.core.batch import Instance, collate
from weft.core.contracts import Codec
from weft.core.example import MarkedIds
from weft.core.fields.tokenized import cut_text
from weft.core.seq import Seq
from weft.data.encoding import encode_examples
from weft.generate.frontier import positions
from weft.inference.engine import answers, encoder_budget
from weft.inference.load import load
from weft.inference.published import open_published
from weft.inference.trained_run import TrainedRun
from weft.models import Seq2SeqClassifier
from weft.pretrained.sentence_layout import MODULES, POOLING, pooling_modes, read_head, read_modules, read_object
from weft.training.run_folder import RunFolder
from weft.training.threads import share_processors

MAX_ROWS = 512
"""Maximum number of texts per batch."""
LENGTH, SENTENCES, TOKENIZER = "sentence_bert_config.json", "config_sentence_transformers.json", "tokenizer_config.json"
"""Files of sentence-transformers with the maximum length and with the prompts, and that of the tokenizer."""


@dataclass
class TextEmbedder:
    """Sentence embeddings of a trained run or a published encoder: a function from texts to vectors.

    Args:
        model: A structure that encodes.
        codec: Its fields and tokenizer.
        pooler: Pools the hidden states of a text to one vector.
        max_length: Maximum number of tokens of a text, special tokens included; longer texts are truncated.
        lowercase: Whether texts are lowercased.
        normalize: Whether vectors are scaled to unit length.
        truncated: Number of texts that were truncated so far.
    """

    model: Any
    codec: Codec
    pooler: Callable[[Seq], Tensor]
    max_length: int
    lowercase: bool = False
    normalize: bool = True
    truncated: int = 0

    def __call__(self, texts: Iterable[str]) -> np.ndarray:
        """Return N x D embeddings, in the order of the texts."""
        found = list(self.stream(texts))
        return np.stack(found) if found else np.zeros((0, self.model.dim), np.float32)

    def stream(self, texts: Iterable[str], batch_size: int = MAX_ROWS) -> Iterator[np.ndarray]:
        """Yield the embedding of each text, in order: for more texts than fit into memory.

        Args:
            texts: Texts.
            batch_size: Maximum number of texts per batch.
        """
        device = next(self.model.parameters()).device
        return answers(
            texts,
            self._encode,
            self._vectors,
            length=len,
            model=self.model,
            max_rows=batch_size,
            max_tokens=encoder_budget(device),
        )

    def _vectors(self, rows: list[Any], numbers: list[int]) -> np.ndarray:
        """The embeddings of the texts of a batch."""
        instances = [Instance(text=row) for row in rows]
        text = collate(instances, numbers)["text"].to(next(self.model.parameters()).device)
        vectors = self.pooler(self.model.encode(text)).float()
        return (torch.nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors).cpu().numpy()

    def _encode(self, texts: list[str], first: int) -> list[np.ndarray | MarkedIds]:
        """The input ids of texts, with the characters of each word where the model needs them; truncated texts are counted."""
        field = self.codec.info.input_texts()[0]
        room = max(0, self.max_length - field.frame.size(1))
        short = [cut_text(text, room) for text in texts]
        cased = [text.lower() for text in short] if self.lowercase else short
        if field.characters:
            names = [other.name for other in self.codec.info.texts()]
            examples = encode_examples(self.codec, [dict.fromkeys(names, text) for text in cased])
            encoded = [example[field.name] for example in examples]
        else:
            encoded = [np.asarray(ids, np.int64) for ids in self.codec.tokenizers[field.space].encode_batch(cased)]
        lengths = zip(encoded, short, texts, strict=True)
        self.truncated += sum(len(ids) > room or len(kept) < len(text) for ids, kept, text in lengths)
        return [field.frame.around([ids[:room]]) for ids in encoded]

    def nearest(self, query: str, texts: Sequence[str], vectors: np.ndarray, top_k: int = 5) -> list[tuple[float, str]]:
        """Semantic search: return the ``top_k`` texts with the highest cosine similarity to the query, best first.

        Args:
            query: The text to search for.
            texts: The texts to search.
            vectors: Their embeddings, N x D.
            top_k: Number of texts to return.
        """
        query_D = self([query])[0]
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query_D)
        score = vectors @ query_D / np.maximum(lengths, 1e-12)
        best = np.argsort(-score, kind="stable")[:top_k]
        return [(float(score[i]), texts[i]) for i in map(int, best)]


def open_embedder(name: str | Path, device: str = "auto") -> TextEmbedder:
    """Load a published encoder, or the encoder of a trained run, for sentence embeddings.

    Pooling follows the files of sentence-transformers where the folder has them; a trained run uses its own pooler; other models
    use mean pooling.

    Args:
        name: Run folder, folder in the Hugging Face layout, or name of a packaged model.
        device: Device to compute on.
    """
    share_processors()
    return embedder_of(load(name, device) if RunFolder(name).is_run() else open_published(name, task="encode", device=device))


def embedder_of(trained: TrainedRun) -> TextEmbedder:
    """Return the sentence embeddings of an opened run or pretrained model. See ``open_embedder``."""
    model, codec = trained.model, trained.codec
    if not hasattr(model, "encode"):
        raise ValueError(f"{trained.name} has no encoder, so it has no embeddings")
    field = codec.info.input_texts()[0]
    if trained.folder is None:
        folder = Path(codec.tokenizers[field.space].from_)  # pyright: ignore[reportAttributeAccessIssue]
        length = positions(model) or field.max_length
        return TextEmbedder(model, codec, *_pooling_options(folder, model.dim, MeanPooler(model.dim), length))
    own = None if isinstance(model, Seq2SeqClassifier) else getattr(model, "pooler", None)  # which pools the decoder
    length = min(field.max_length + 8, positions(model) or field.max_length + 8)
    return TextEmbedder(model, codec, *_pooling_options(trained.folder, model.dim, own or MeanPooler(model.dim), length))


def _pooling_options(
    folder: Path, dim: int, pooler: Callable[[Seq], Tensor], length: int
) -> tuple[Callable[[Seq], Tensor], int, bool]:
    """Pooler, maximum length and lowercasing from the files of a folder; ``pooler`` and ``length`` are the defaults."""
    if (file := folder / _pooling_config(folder)).is_file():
        modes = pooling_modes(file)
        pooler = MODES[modes[0]](dim) if len(modes) == 1 else ConcatPooling(modes, dim)
    return pooler, max_length_of(folder, length), bool(read_object(folder / LENGTH).get("do_lower_case"))


def max_length_of(folder: Path, length: int) -> int:
    """Maximum length from the files of sentence-transformers, or of the tokenizer; at most ``length``."""
    for name, key in ((LENGTH, "max_seq_length"), (TOKENIZER, "model_max_length")):
        value = read_object(folder / name).get(key)
        if isinstance(value, int) and value > 0:
            return min(length, value)
    return length


def _pooling_config(folder: Path) -> str:
    """Path of the pooling config of sentence-transformers. Raises ValueError for unsupported modules and prompts."""
    path, modules = POOLING, read_modules(folder)
    known = ("Transformer", "Pooling", "Normalize", *(["Dense"] if read_head(folder) else []))
    if other := [kind for kind, _ in modules if kind not in known]:
        raise ValueError(f"{folder / MODULES}: the module {other[0]} is not supported; supported: {', '.join(known)}")
    if paths := [path for kind, path in modules if kind == "Pooling"]:
        path = f"{paths[0]}/config.json"
    config = read_object(folder / SENTENCES)
    default = config.get("default_prompt_name") or ""
    if (config.get("prompts") or {}).get(default):
        raise ValueError(f"{folder / SENTENCES}: default_prompt_name is {default!r}, but prompts are not supported")
    return path


def _mean_sqrt_length(x: Seq) -> Tensor:
    """Sum of the hidden states divided by the square root of the length."""
    return MeanPooler(x.data.shape[-1])(x) * x.lengths().clamp(min=1).sqrt()[:, None].to(x.data.dtype)


def _weighted_mean(x: Seq) -> Tensor:
    """Mean of the hidden states weighted by their positions 1, 2, ... (SGPT)."""
    weight_BT = torch.where(x.real(), x.real().long().cumsum(1), 0).to(x.data.dtype)
    return (weight_BT[..., None] * x.data).sum(1) / weight_BT.sum(1, keepdim=True).clamp(min=1)


MODES: dict[str, Callable[[int], Callable[[Seq], Tensor]]] = {
    "cls": FirstPooler,
    "max": MaxPooler,
    "mean": MeanPooler,
    "mean_sqrt_len_tokens": lambda dim: _mean_sqrt_length,
    "weightedmean": lambda dim: _weighted_mean,
    "lasttoken": LastPooler,
}
"""Poolers by the name of sentence-transformers, as functions of the dimension."""


class ConcatPooling:
    """Concatenation of several poolers of sentence-transformers.

    Args:
        modes: Names of the poolers.
        dim: Dimension of the hidden states.
    """

    def __init__(self, modes: Sequence[str], dim: int):
        self.modes = list(modes)
        self.poolers = [MODES[mode](dim) for mode in modes]

    def __call__(self, x: Seq) -> Tensor:
        return torch.cat([pooler(x) for pooler in self.poolers], -1)

"""Vectors of texts, and the texts nearest to one. N texts, D width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.blocks import FirstPooler, LastPooler, MaxPooler, MeanPooler
from weft.core.batch import pad
from weft.core.contracts import Codec
from weft.core.io import read_json
from weft.core.seq import Seq
from weft.generate.frontier import positions
from weft.inference.load import load
from weft.inference.published import open_published
from weft.models import Seq2SeqClassifier
from weft.training.run_folder import RunFolder

BUDGET = 4096
"""Most places of a batch, padding included."""
SHARE = 256
"""Places of a batch for each thread of a CPU: small batches have less padding and stay in its caches. There are two shares at
least, as products of fewer rows are slower."""
POOLING, LENGTH = "1_Pooling/config.json", "sentence_bert_config.json"
"""Files in which a folder of sentence-transformers says how tokens are pooled, and the most of them."""
MODULES, SENTENCES, TOKENIZER = "modules.json", "config_sentence_transformers.json", "tokenizer_config.json"
"""Files in which it says what it consists of, what stands before its texts, and (also) the most tokens."""


@dataclass
class TextEmbedder:
    """A trained or published encoder as a function from texts to vectors.

    Args:
        model: A structure that encodes.
        codec: Its fields and tokenizer.
        pooler: From the vectors of tokens to one of the text.
        length: Most tokens of a text, with its frame; what is longer is cut, and counted in ``cut``.
        lower: Whether texts are lower-cased first.
        normalise: Whether vectors are made 1 long.
    """

    model: Any
    codec: Codec
    pooler: Any
    length: int
    lower: bool = False
    normalise: bool = True
    cut: int = 0

    def __call__(self, texts: Iterable[str]) -> np.ndarray:
        """N x D vectors, in the order of the texts. The longest are computed first, in batches with little padding."""
        field = self.codec.info.input_texts()[0]
        room = max(0, self.length - len(field.frame.first) - len(field.frame.last))
        encoded = self.codec.tokenizers[field.space].encode_batch([text.lower() if self.lower else text for text in texts])
        self.cut += sum(len(ids) > room for ids in encoded)
        rows = [np.asarray(field.frame.around([np.asarray(ids[:room], np.int64)])) for ids in encoded]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        device = next(self.model.parameters()).device
        found = np.zeros((len(rows), self.model.dim), np.float32)
        budget = min(BUDGET, SHARE * max(2, torch.get_num_threads())) if device.type == "cpu" else BUDGET
        start = 0
        with torch.inference_mode():
            while start < len(order):
                width = max(1, len(rows[order[start]]))
                some = order[start : start + max(1, budget // width)]
                vectors = self.pooler(self.model.encode(pad([rows[i] for i in some]).to(device))).float()
                if vectors.shape[1] != found.shape[1]:  # several poolers side by side
                    found = np.zeros((len(rows), vectors.shape[1]), np.float32)
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


def open_embedder(name: str | Path, device: str = "auto") -> TextEmbedder:
    """The vectors of a published encoder, or of a trained run that encodes.

    A folder of sentence-transformers says how its tokens are pooled; other published encoders are averaged; a run's classifier
    has its own pooler.
    """
    if RunFolder(name).is_run():
        run = load(name, device)
        if not hasattr(run.model, "encode"):
            raise ValueError(f"{name} encodes nothing that a vector could be made of")
        field = run.codec.info.input_texts()[0]
        own = None if isinstance(run.model, Seq2SeqClassifier) else getattr(run.model, "pooler", None)  # its pools the decoder
        pooler = own or MeanPooler(run.model.dim)
        length = min(field.max_length + 8, positions(run.model) or field.max_length + 8)
        return TextEmbedder(run.model, run.codec, *_told(RunFolder(name).path, run.model.dim, pooler, length))
    run = open_published(name, task="encode", device=device)
    folder = Path(run.codec.tokenizers["text"].from_)  # pyright: ignore[reportAttributeAccessIssue]
    length = positions(run.model) or run.codec.info["text"].max_length
    return TextEmbedder(run.model, run.codec, *_told(folder, run.model.dim, MeanPooler(run.model.dim), length))


def _told(folder: Path, dim: int, pooler: Any, length: int) -> tuple[Any, int, bool]:
    """The pooler, the length and whether texts are lower-cased, as a folder says; what is given where it says nothing."""
    place = _check_modules(folder)
    if (file := folder / place).is_file():
        modes = modes_of(file)
        pooler = MODES[modes[0]](dim) if len(modes) == 1 else ConcatPooling(modes, dim)
    return pooler, length_told(folder, length), bool(_object(folder / LENGTH).get("do_lower_case"))


def length_told(folder: Path, length: int) -> int:
    """Most tokens of a text: what sentence-transformers was told, or else the tokenizer, if the model has room for it."""
    for name, key in ((LENGTH, "max_seq_length"), (TOKENIZER, "model_max_length")):
        told = _object(folder / name).get(key)
        if isinstance(told, int) and told > 0:
            return min(length, told)
    return length


def modes_of(file: Path) -> list[str]:
    """How a folder of sentence-transformers pools, as it is written now or in older versions."""
    content = _object(file)
    named = content.get("pooling_mode") or [mode for key, mode in KEYS.items() if content.get(key)] or ["mean"]
    modes = [named] if isinstance(named, str) else list(named)
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise ValueError(f"{file}: there is no pooling_mode {unknown[0]!r} (known: {', '.join(MODES)})")
    return modes


def _check_modules(folder: Path) -> str:
    """Where a folder of sentence-transformers says how it pools. Raises ValueError for what weft would leave out."""
    place, file = POOLING, folder / MODULES
    if file.is_file():
        modules = read_json(file)
        if not isinstance(modules, list) or not all(isinstance(m, dict) and isinstance(m.get("type"), str) for m in modules):
            raise ValueError(f"{file}: is not a list of modules, each with its type")
        kinds = [module["type"].rpartition(".")[2] for module in modules]
        if other := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
            raise ValueError(f"{file}: has a {other[0]}, but vectors are made with Transformer, Pooling and Normalize alone")
        paths = [str(m.get("path", "")) for m, kind in zip(modules, kinds, strict=True) if kind == "Pooling"]
        place = f"{paths[0]}/config.json" if paths else place
    said = _object(folder / SENTENCES)
    if (said.get("prompts") or {}).get(said.get("default_prompt_name") or ""):
        raise ValueError(
            f"{folder / SENTENCES}: texts shall begin with the prompt {said['default_prompt_name']!r}, and here have none"
        )
    return place


def _object(file: Path) -> dict[str, Any]:
    """A JSON file's content; nothing, if it is not there."""
    content = read_json(file) if file.is_file() else {}
    if not isinstance(content, dict):
        raise ValueError(f"{file}: is not an object of JSON")
    return content


def _root_mean(x: Seq) -> Tensor:
    """The sum of the vectors, divided by the root of their number."""
    return MeanPooler(x.data.shape[-1])(x) * x.lengths().clamp(min=1).sqrt()[:, None].to(x.data.dtype)


def _rising_mean(x: Seq) -> Tensor:
    """The average, in which the first vector counts once, the second twice, and so on."""
    weight_BT = torch.where(x.real(), x.real().long().cumsum(1), 0).to(x.data.dtype)
    return (weight_BT[..., None] * x.data).sum(1) / weight_BT.sum(1, keepdim=True).clamp(min=1)


MODES: dict[str, Any] = {
    "cls": FirstPooler,
    "max": MaxPooler,
    "mean": MeanPooler,
    "mean_sqrt_len_tokens": lambda dim: _root_mean,
    "weightedmean": lambda dim: _rising_mean,
    "lasttoken": LastPooler,
}
"""Names of sentence-transformers: dim -> from the vectors of tokens to one of the text."""
KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""In older folders each has a key of its own; newer versions read those too."""


class ConcatPooling:
    """Poolers of sentence-transformers, side by side."""

    def __init__(self, modes: Sequence[str], dim: int):
        self.modes = list(modes)
        self.poolers = [MODES[mode](dim) for mode in modes]

    def __call__(self, x: Seq) -> Tensor:
        return torch.cat([pooler(x) for pooler in self.poolers], -1)

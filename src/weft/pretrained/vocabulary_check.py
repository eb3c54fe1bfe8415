"""Whether the ids that a published model knows are those of the data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weft.core.contracts import Embedder, Structure, Tokenizer
from weft.core.hub import name_of_model
from weft.core.registry import name_of
from weft.data.tokenizers.pretrained import PretrainedTokenizer
from weft.pretrained.folder import Published

_SAME = 0.5
"""At least this share of the tokens must be those of the model's own tokenizer: some may stand in the place of unused ones."""


def check_ids(model: Structure, tokenizers: Mapping[str, Tokenizer]) -> None:
    """Raises ValueError where a structure begins with published weights, and what it reads or writes has other ids.

    No text is read for it: a tokenizer that still has to learn never gives the ids that a published one gives.

    Args:
        model: The structure; its own ``weights`` count, not those of its parts.
        tokenizers: Of the data by id space, as they are before they have learned.
    """
    if model.weights is None or not (Path(model.weights) / "config.json").is_file():  # a run's may be of the same words
        return
    published, name = Published(model.weights), name_of_model(model.weights)
    for space in dict.fromkeys(part.space for part in model.modules() if isinstance(part, Embedder)):
        if space in tokenizers and (why := _foreign(published, tokenizers[space])):
            beside = f"; set it to {{type: pretrained, from: {name}}}" if published.ids is not None else ""
            raise ValueError(f"{name} does not know the ids of the tokenizer of {space!r}: {why}{beside}")


def _foreign(published: Published, tokenizer: Tokenizer) -> str:
    """What tells that these are not the ids of a published model; nothing where they may be."""
    rows, own, what = published.layout.field(published.config).vocab, published.ids, name_of(type(tokenizer))
    try:
        number = tokenizer.vocab
    except ValueError:  # it has to learn
        if own is not None:
            return f"{what} learns its own from the data"
        return f"{what} has at most {tokenizer.max_vocab():,}, and there are {rows:,}" if tokenizer.max_vocab() < rows else ""
    if number > rows or number < (rows if own is None else own):
        there = f"{rows:,}" if own in (None, rows) else f"{own:,}, or with spare ones {rows:,}"
        return f"{what} has {number:,}, and there are {there}"
    if own is None:
        return ""
    ids = range(own)
    same = sum(
        a == b for a, b in zip(tokenizer.tokens(ids), PretrainedTokenizer(from_=str(published.path)).tokens(ids), strict=True)
    )
    return f"{what} has as many, but other tokens ({same:,} of {own:,} are the same)" if same < _SAME * own else ""

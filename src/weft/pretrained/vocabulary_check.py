"""Check that a published model and the data use the same token ids."""

from __future__ import annotations

from collections.abc import Mapping

from weft.core.contracts import Embedder, Structure, Tokenizer
from weft.core.fields import TextField
from weft.core.hub import name_of_model
from weft.core.registry import name_of
from weft.data.tokenizers.pretrained import PretrainedTokenizer
from weft.pretrained.folder import PublishedModel, is_published

_MIN_EQUAL = 0.5
"""Minimum fraction of equal tokens: users replace unused tokens of a vocabulary by their own."""


def check_vocabulary(model: Structure, tokenizers: Mapping[str, Tokenizer]) -> None:
    """Raise ValueError if a structure is initialized from a published model whose token ids are not those of the data.

    No text is read: a tokenizer that is trained on the data never has the ids of a published one.

    Args:
        model: The structure; its own ``weights`` are checked, not those of inner structures.
        tokenizers: The tokenizers of the data by vocabulary, before they are trained.
    """
    if model.weights is None or not is_published(model.weights):  # a run may have the same vocabulary
        return
    published, name = PublishedModel(model.weights), name_of_model(model.weights)
    for space in dict.fromkeys(part.space for part in model.modules() if isinstance(part, Embedder)):
        if space in tokenizers and (why := _difference(published, tokenizers[space])):
            advice = f"; set it to {{type: pretrained, from: {name}}}" if published.tokenizer_size is not None else ""
            raise ValueError(f"{name} has other token ids than the tokenizer of {space!r}: {why}{advice}")


def _difference(published: PublishedModel, tokenizer: Tokenizer) -> str:
    """Why a tokenizer has not the ids of a published model; empty if it may have them."""
    text = published.family.field(published.config)
    if not isinstance(text, TextField):
        return "it reads images"
    embeddings, size, name = text.vocab, published.tokenizer_size, name_of(type(tokenizer))
    try:
        found = tokenizer.vocab
    except ValueError:  # not trained yet
        if size is not None:
            return f"{name} is trained on the data"
        bound = tokenizer.max_vocab()
        return f"{name} has at most {bound:,} ids, the model {embeddings:,}" if bound < embeddings else ""
    if found > embeddings or found < (embeddings if size is None else size):
        expected = f"{embeddings:,}" if size in (None, embeddings) else f"{size:,} (padded to {embeddings:,})"
        return f"{name} has {found:,} ids, the model {expected}"
    if size is None:
        return ""
    ids = range(size)
    own = PretrainedTokenizer(from_=str(published.path)).tokens(ids)
    same = sum(a == b for a, b in zip(tokenizer.tokens(ids), own, strict=True))
    return f"only {same:,} of the {size:,} tokens of {name} are the model's" if same < _MIN_EQUAL * size else ""

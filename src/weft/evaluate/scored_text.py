"""The part of each text that a model scored: a truncated text keeps its full raw text, but only its first tokens have a loss."""

from __future__ import annotations

from weft.core.contracts import Codec, Dataset, Tokenizer
from weft.core.example import ids_of
from weft.data.ledger import WORDS_LOST


def scored_example(dataset: Dataset, codec: Codec, row: int) -> dict[str, str]:
    """Return the raw example with its truncated texts shortened to the tokens that the model saw.

    The cell ``words lost`` counts the words that are missing then; a word that is cut inside counts as scored.

    Args:
        dataset: The examples.
        codec: Their fields and tokenizers.
        row: Index of the example.
    """
    raw, lost = dict(dataset.raw(row)), 0
    for field in codec.info.texts():
        if field.words or field.name not in raw or int(dataset.lengths[field.name][row]) < field.max_length:
            continue  # the raw text of pretokenized words is shortened when it is truncated
        ids, text, tokenizer = ids_of(dataset[row][field.name]).tolist(), raw[field.name], codec.tokenizers[field.space]
        full = tokenizer.encode(text)
        if len(full) > len(ids) and full[: len(ids)] == ids:  # the text of a split row is decoded and may encode differently
            raw[field.name] = _prefix(tokenizer, text, ids)
            lost += len(text.split()) - len(raw[field.name].split())
    return raw | {WORDS_LOST: str(lost)} if lost else raw


def _prefix(tokenizer: Tokenizer, text: str, ids: list[int]) -> str:
    try:
        return text[: tokenizer.offsets(text)[len(ids) - 1][1]]
    except TypeError:  # a tokenizer without offsets
        return tokenizer.decode(ids)

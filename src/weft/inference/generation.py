"""Text generation with a trained run: prompts in length-limited batches, hypotheses in the order of the prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from weft.core.batch import Instance
from weft.core.contracts import Decodes, Search
from weft.core.example import surround
from weft.core.fields import Field
from weft.core.outputs import Hypothesis
from weft.core.registry import Build
from weft.core.seq import Seq
from weft.data import encode_example
from weft.data.encoding import cut_text
from weft.data.requests import encoder_field
from weft.generate.frontier import positions

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

MAX_BATCH_TOKENS = 16_384
"""Token budget of a batch, padding included."""


def hypotheses(
    trained: TrainedRun, texts: Iterable[str], search: Search | Build[Search] | None = None, batch_size: int = 64
) -> Iterator[list[Hypothesis]]:
    """Yield the hypotheses for each text, best first. A language model continues the text; an encoder-decoder encodes it.

    Args:
        trained: A run whose model decodes.
        texts: Prompts or source texts.
        search: Decoding algorithm; None = that of the recipe.
        batch_size: Maximum number of texts per batch.
    """
    _check_model(trained)
    if isinstance(texts, str):
        raise ValueError(f"expected a list of texts, got one string; pass generate([{texts[:40]!r}])")
    texts = (_checked_text(text, number) for number, text in enumerate(texts, 1))
    searcher: Any = trained.evaluation().search if search is None else search if isinstance(search, Search) else search()
    info, model = trained.codec.info, trained.model
    target, source = info[info.target], encoder_field(model, info)
    if source is None:
        field, encoded = target, (_prompt(trained, text, target, line) for line, text in enumerate(texts, 1))
    else:
        field, encoded = source, (_source(trained, text, source) for text in texts)
    for first, group in _batches(encoded, batch_size):
        limits, keys = [searcher.limit(len(ids)) for ids in group], list(range(first, first + len(group)))
        batch = trained.collate([Instance({field.name: ids}) for ids in group])
        try:
            with torch.inference_mode():
                memory = None if source is None else model.memory(batch)
                prompt = batch[field.name] if source is None else _start(trained, len(group))
                found = searcher(model, memory, prompt=prompt, limits=limits, keys=keys)
        except ValueError as error:
            raise ValueError(f"lines {first + 1} to {first + len(group)}: {error}") from None
        yield from found


def _check_model(trained: TrainedRun) -> None:
    if Decodes not in trained.model.provides():
        raise ValueError(f"the model of {trained.name} has no decoder and cannot generate text; use predict")
    if getattr(trained.model, "class_conditional", False):
        raise ValueError(
            f"{trained.name} generates class-conditionally; use weft.systems.latent_text.space.open_latent(RUN): "
            ".transfer(texts, CLASS) rewrites texts, .sample(number, CLASS) samples new ones"
        )


def _checked_text(text: Any, number: int) -> str:
    if not isinstance(text, str):
        raise ValueError(f"text {number} is {str(text)[:40]!r} of type {type(text).__name__}; expected str")
    return text


def _source(trained: TrainedRun, text: str, field: Field) -> Any:
    return field.frame.around([encode_example(trained.codec, {field.name: text}, trained.count_truncated)[field.name]])


def _prompt(trained: TrainedRun, text: str, target: Field, line: int) -> Any:
    """Return the ids that a language model continues: start ids and text; the BOS token for an empty text."""
    codec, max_length = trained.codec, positions(trained.model)
    ids = encode_example(codec, {target.name: text}, trained.count_truncated)[target.name]
    start = () if trained.start_ids == () and len(ids) else trained.start_ids or (target.special.bos,)
    if -1 in start:
        raise ValueError(f"line {line} is empty, and the tokenizer of this model has no BOS token; pass a non-empty text")
    # a run that weft trained truncates a long prompt, as in training
    full = ids if trained.start_ids is None else codec.encode(target.name, cut_text(text, max_length or target.max_length))
    tokens = len(start) + len(full)
    if max_length is not None and tokens > max_length:
        raise ValueError(f"line {line} has {tokens} tokens, but the model has {max_length} positions; pass a shorter text")
    return surround(start, ids, [])


def _start(trained: TrainedRun, rows: int) -> Seq | None:
    if trained.start_ids is None:
        return None
    return Seq(torch.tensor([trained.start_ids] * rows, device=trained.device))


def _batches(rows: Iterable[Any], batch_size: int) -> Iterator[tuple[int, list[Any]]]:
    """Yield batches with the number of their first row: up to ``batch_size`` rows and ``MAX_BATCH_TOKENS`` padded tokens."""
    group: list[Any] = []
    first = longest = 0
    for row in rows:
        if group and (len(group) + 1) * max(longest, len(row)) > MAX_BATCH_TOKENS:
            yield first, group
            first, group, longest = first + len(group), [], 0
        group.append(row)
        longest = max(longest, len(row))
        if len(group) == batch_size:  # at once: an interactive user waits for the output before typing the next line
            yield first, group
            first, group, longest = first + len(group), [], 0
    if group:
        yield first, group

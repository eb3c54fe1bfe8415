"""Text generation with a trained run: prompts in length-limited batches, hypotheses in the order of the prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from weft.core.batch import Instance
from weft.core.contracts import Decodes, Search
from weft.core.example import surround
from weft.core.fields import TextField
from weft.core.fields.tokenized import cut_text
from weft.core.outputs import Hypothesis
from weft.core.registry import Build
from weft.core.seq import Seq
from weft.data import encode_examples
from weft.data.requests import encoder_field
from weft.generate.frontier import positions
from weft.inference.engine import BATCH_SIZE, MAX_DECODER_TOKENS, answers

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun


def hypotheses(
    trained: TrainedRun, texts: Iterable[str], search: Search | Build[Search] | None = None, batch_size: int = BATCH_SIZE
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
    searcher: Any = trained.evaluation().search if search is None else search if isinstance(search, Search) else search()
    generator = _Generator(trained, searcher)
    return answers(
        texts,
        generator.encode,
        generator.compute,
        length=len,
        model=trained.model,
        max_rows=batch_size,
        max_tokens=MAX_DECODER_TOKENS,
    )


class _Generator:
    """Encodes texts and generates from them.

    Args:
        trained: The run.
        search: The decoding algorithm.
    """

    def __init__(self, trained: TrainedRun, search: Any):
        self.trained, self.search = trained, search
        info = trained.codec.info
        self.target, self.source = info.text(info.target), encoder_field(trained.model, info)
        self.field = self.target if self.source is None else self.source

    def encode(self, texts: list[str], first: int) -> list[Any]:
        """The input ids of the texts of a window."""
        checked = [_checked_text(text, number) for number, text in enumerate(texts, first + 1)]
        rows = [{self.field.name: text} for text in checked if isinstance(text, str)]
        examples = iter(encode_examples(self.trained.codec, rows, self.trained.count_truncated) if rows else [])
        return [
            text if isinstance(text, ValueError) else self._input(text, next(examples)[self.field.name], number)
            for number, text in enumerate(checked, first + 1)
        ]

    def _input(self, text: str, ids: Any, line: int) -> Any:
        return _prompt(self.trained, text, ids, self.target, line) if self.source is None else self.field.frame.around([ids])

    def compute(self, inputs: list[Any], numbers: list[int]) -> list[list[Hypothesis]]:
        """Generate from the texts of a batch. Samples depend on the number of the text, not on the batch."""
        trained, limits = self.trained, [self.search.limit(len(ids)) for ids in inputs]
        batch = replace(trained.collate([Instance({self.field.name: ids}) for ids in inputs]), rows=tuple(numbers))
        with batch.naming("the input"):
            if self.source is None:
                return self.search(trained.model, None, prompt=batch[self.field.name], limits=limits, keys=numbers)
            memory = trained.model.memory(batch)
            return self.search(trained.model, memory, prompt=_start(trained, len(inputs)), limits=limits, keys=numbers)


def _check_model(trained: TrainedRun) -> None:
    if Decodes not in trained.model.provides():
        raise ValueError(f"the model of {trained.name} has no decoder and cannot generate text; use predict")
    if getattr(trained.model, "class_conditional", False):
        raise ValueError(
            f"{trained.name} generates class-conditionally; use weft.systems.latent_text.space.open_latent(RUN): "
            ".transfer(texts, CLASS) rewrites texts, .sample(number, CLASS) samples new ones"
        )


def _checked_text(text: Any, number: int) -> str | ValueError:
    if isinstance(text, str):
        return text
    return ValueError(f"text {number} is {str(text)[:40]!r} of type {type(text).__name__}; expected str")


def _prompt(trained: TrainedRun, text: str, ids: Any, target: TextField, line: int) -> Any:
    """The ids that a language model continues: start ids and text; the BOS token for an empty text. An error for other texts."""
    codec, max_length = trained.codec, positions(trained.model)
    start = () if trained.start_ids == () and len(ids) else trained.start_ids or (target.special.bos,)
    if -1 in start:
        return ValueError(f"line {line} is empty, and the tokenizer of this model has no BOS token; pass a non-empty text")
    # a run that weft trained truncates a long prompt, as in training
    cut = trained.start_ids is not None and len(ids) >= target.max_length
    full = codec.encode(target.name, cut_text(text, max_length or target.max_length)) if cut else ids
    tokens = len(start) + len(full)
    if max_length is not None and tokens > max_length:
        return ValueError(f"line {line} has {tokens} tokens, but the model has {max_length} positions; pass a shorter text")
    return surround(start, ids, [])


def _start(trained: TrainedRun, rows: int) -> Seq | None:
    if trained.start_ids is None:
        return None
    return Seq(torch.tensor([trained.start_ids] * rows, device=trained.device))

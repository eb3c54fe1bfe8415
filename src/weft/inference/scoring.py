"""Log-likelihood of given texts under a model that decodes: what prompting and perplexity have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch

from weft.core.batch import FlatTargets, Instance
from weft.data.requests import encoder_field
from weft.inference.engine import answers, encoder_budget, instance_length

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

_Request = TypeVar("_Request")


class Likelihood(NamedTuple):
    """The log-likelihood of a text and its number of tokens."""

    logprob: float
    tokens: int


def log_likelihoods(
    run: TrainedRun, requests: Iterable[_Request], encode: Callable[[list[_Request], int], Sequence[Instance | ValueError]]
) -> Iterator[Likelihood]:
    """Yield the log-likelihood of each request, in order: sum_t log p(y_t | y_<t, x) over its target tokens.

    Args:
        run: A run whose model decodes.
        requests: What is scored.
        encode: Maps requests, and the number of the first one, to instances: ``input`` of the decoder, ``picks`` with the target
            tokens, and the text of the encoder if there is one. See ``weft.inference.engine.answers``.
    """
    model: Any = run.model
    source = encoder_field(model, run.codec.info)

    def compute(instances: list[Instance], numbers: list[int]) -> Iterator[Likelihood]:
        batch = run.collate(instances)
        hidden = model.decode(batch["input"], model.memory(batch) if source is not None else None).hidden
        picks: FlatTargets = batch["picks"]
        nll_N = model.head.nll(picks.gather(hidden), picks.target_N).double()
        row_N = picks.index_N // batch["input"].width
        logprob_B = -torch.zeros(len(batch), dtype=torch.double, device=nll_N.device).index_add(0, row_N, nll_N)
        for logprob, instance in zip(logprob_B.tolist(), instances, strict=True):
            yield Likelihood(logprob, len(instance["picks"].ids))

    return answers(requests, encode, compute, length=instance_length, model=run.model, max_tokens=encoder_budget(run.device))

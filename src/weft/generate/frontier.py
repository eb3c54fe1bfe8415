"""The frontier of a search: the last hidden state and the decoding state of every unfinished sequence.

N unfinished sequences; other suffixes as in seq.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.blocks import LearnedPositionEmbedder
from weft.core.contracts import Decodes
from weft.core.fields import TextField
from weft.core.seq import Memory, Seq


@dataclass(frozen=True)
class Frontier:
    """The unfinished sequences of a search.

    Args:
        model: A structure that decodes.
        hidden_ND: Hidden states from which the next token is predicted.
        state: The decoding state of the model.
    """

    model: Decodes
    hidden_ND: Tensor
    state: Any

    def logprobs(self) -> Tensor:
        """N x V log-probabilities of the next token, with -inf for ids that are never generated.

        PAD, BOS, MASK, CLS and SEP are excluded *after* the softmax, so that the log-probability of a sequence is the one that
        the model was trained with, whatever the search.
        """
        logp_NV = self.model.head(self.hidden_ND).float().log_softmax(-1)
        for never in forbidden(self.model.target, logp_NV.shape[1]):
            logp_NV[:, never] = -torch.inf
        if not (logp_NV.amax(-1) > -torch.inf).all():
            raise ValueError(
                "no token has a probability above 0: the weights have diverged or were not loaded, or the inputs are too large"
            )
        return logp_NV

    def advance(self, index: Tensor, token: Tensor) -> Frontier:
        """Append a token to each sequence in ``index``, which may repeat a sequence (a fork) or leave it out."""
        state, device = self.state, self.hidden_ND.device
        # select copies the state; most steps of a greedy search keep all rows in order.
        if index.tolist() != list(range(len(self.hidden_ND))):
            state = state.select(index.to(device))
        done = self.model.step(Seq(token.to(device)[:, None]), state)
        return Frontier(self.model, done.hidden.data[:, -1], done.state)


def forbidden(field: TextField, vocab: int) -> list[int]:
    """Ids that are never generated. An id that is also EOS or UNK is allowed (the BOS of GPT-2 is its EOS)."""
    special = field.special
    never = {special.pad, special.bos, special.mask, special.cls, special.sep} - {*field.eos_ids(), special.unk}
    return sorted(i for i in never if 0 <= i < vocab)


def positions(model: object) -> int | None:
    """Maximum number of tokens that the model can generate, prompt included; None = unlimited."""
    embedder = getattr(model, "target_embedder", None) or getattr(model, "embedder", None)
    lengths = (
        [part.length for part in embedder.modules() if isinstance(part, LearnedPositionEmbedder)] if embedder is not None else []
    )
    return min(lengths, default=None)


def bounded(model: Decodes, prompt: Seq | None, limits: Sequence[int]) -> list[int]:
    """The limits, clipped to the positions of the model; the last generated token needs no position."""
    most = positions(model)
    if most is None:
        return list(limits)
    read = [len(model.target.decoder_prefix())] * len(limits) if prompt is None else prompt.lengths().tolist()
    if len(read) != len(limits):
        return list(limits)  # prefill refuses that
    if long := [row for row, tokens in enumerate(read) if tokens > most and limits[row] > 0]:
        raise ValueError(f"the prompt of row {long[0]} has {read[long[0]]} tokens; the model has {most} positions: shorten it")
    return [min(limit, max(most - tokens + 1, 0)) for limit, tokens in zip(limits, read, strict=True)]


def prefill(model: Decodes, memory: Memory | None, prompt: Seq | None, limits: Sequence[int], keep: Sequence[int]) -> Frontier:
    """Encode the prompts of the rows ``keep`` in one step. Without a prompt, a row starts with BOS, or with
    ``TextField.decoder_prefix`` where the decoder has a memory."""
    rows = len(limits)
    for name, given in (("memory", memory), ("prompt", prompt)):
        if given is not None and given.rows != rows:
            raise ValueError(f"got {rows} limits for the {given.rows} rows of the {name}; pass one limit per row")
    if prompt is None:
        apart = memory is not None and len(memory.sources) > 0
        first = model.target.decoder_prefix() if apart else (model.target.special.bos,)
        prompt = Seq(torch.tensor([first] * rows, dtype=torch.long, device=_device(model, memory)))
    if len(keep) < rows:
        index = torch.tensor(keep, device=prompt.data.device)
        prompt, memory = prompt.select(index), None if memory is None else memory.select(index)
    real_BT = prompt.real()
    if (empty := (~real_BT.any(1)).nonzero().flatten()).numel():
        raise ValueError(f"the prompt of row {keep[int(empty[0])]} is empty; start it with BOS")
    done = model.step(prompt, model.start(memory, len(keep)))
    at_T = torch.arange(prompt.width, device=real_BT.device)
    last_B = torch.where(real_BT, at_T, -1).amax(1)
    return Frontier(model, done.hidden.data[torch.arange(len(keep), device=last_B.device), last_B], done.state)


def _device(model: Any, memory: Memory | None) -> torch.device:
    if memory is not None and memory.sources:
        return memory.sources[0].data.device
    if memory is not None and memory.vector is not None:
        return memory.vector.device
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))

"""Writing with a gradient: every token is a mixture of all. Suffixes: see seq.py."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.seq import Memory, Seq
from weft.generate.frontier import forbidden, positions


def write_softly(model: Any, memory: Memory, *, length: int, temperature: float = 0.5, straight_through: bool = False) -> Seq:
    """Soft ids of a text that the model writes from a memory, token by token; each is read again as it is.

    y_t = softmax((logits_t + g) / temperature),  g = -log(-log u) for each symbol,  u uniform on (0, 1)

    While the model is in evaluation mode there is no noise g, so that the result is a function of the memory. A row ends with the
    first step at which the end mark weighs most: that step is real, what follows is padding. With noise, argmax y_t is a sample
    of the model's own distribution. What no search generates weighs nothing.

    Jang et al. 2017, https://arxiv.org/abs/1611.01144; Maddison et al. 2017, https://arxiv.org/abs/1611.00712

    Args:
        model: A structure that decodes.
        memory: What it writes from, with B rows.
        length: Most tokens to write, the end mark included.
        temperature: Mixtures come near to single symbols as it goes to 0.
        straight_through: Whether a token is the symbol that weighs most, while its gradient is the mixture's.

    Returns:
        B x T x V with a mask.

    >>> from weft.core.fields import Field, Info
    >>> from weft.models import LanguageModel
    >>> model = LanguageModel(Info({"text": Field("text", 11)}), dim=8)
    >>> text = write_softly(model, Memory(vector=torch.zeros(2, 8)), length=3)
    >>> text.rows, text.data.shape[-1], float(text.data[0, 0].sum().round())
    (2, 11, 1.0)
    """
    most = positions(model)
    if length < 1 or (most is not None and length > most):
        raise ValueError(
            f"length is {length}, but it must be at least 1" + (f" and at most {most}, the model's positions" * bool(most))
        )
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature:g}, but it must be above 0")
    special, rows = model.target.special, memory.rows
    state = model.start(memory, rows)
    token = torch.full((rows, 1), special.bos, device=_device(memory))
    never = torch.tensor(forbidden(model.target, model.target.vocab), device=token.device)
    soft: list[Tensor] = []
    real: list[Tensor] = []
    going_B = torch.ones(rows, dtype=torch.bool, device=token.device)
    for _ in range(length):
        done = model.step(Seq(token), state)
        logits_BV = model.head(done.hidden.data[:, -1]).float().index_fill(1, never, -torch.inf)
        soft.append(_mixture(logits_BV, temperature, straight_through, model.training))
        real.append(going_B)
        going_B = going_B & (soft[-1].argmax(-1) != special.eos)
        if going_B.device.type != "meta" and not bool(going_B.any()):
            break
        token, state = soft[-1][:, None], done.state
    return Seq(torch.stack(soft, 1), torch.stack(real, 1))


def unended(text: Seq, eos: int) -> Tensor:
    """How many rows of soft ids were cut at the most tokens, before their end mark.

    >>> end, other = [0.1, 0.9], [0.8, 0.2]
    >>> unended(Seq(torch.tensor([[other, end], [other, other]]), torch.tensor([[True, True], [True, True]])), eos=1).item()
    1.0
    """
    last_B = text.data[:, -1].argmax(-1) != eos
    return (last_B if text.mask is None else last_B & text.mask[:, -1]).sum().float()


def _mixture(logits_BV: Tensor, temperature: float, straight_through: bool, noisy: bool) -> Tensor:
    if noisy:
        logits_BV = logits_BV - torch.rand_like(logits_BV).log().neg().log()  # exponential_() is far slower on a CPU
    soft_BV = (logits_BV / temperature).softmax(-1)
    if not straight_through:
        return soft_BV
    hard_BV = F.one_hot(soft_BV.argmax(-1), soft_BV.shape[-1]).to(soft_BV.dtype)
    return hard_BV + (soft_BV - soft_BV.detach())


def _device(memory: Memory) -> torch.device:
    return memory.vector.device if memory.vector is not None else memory.sources[0].data.device

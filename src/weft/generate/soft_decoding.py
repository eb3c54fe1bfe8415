"""Differentiable decoding with soft tokens (Gumbel-softmax). Suffixes: see seq.py."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.seq import Memory, Seq
from weft.generate.frontier import forbidden, positions


def soft_decode(model: Any, memory: Memory, *, max_length: int, temperature: float = 0.5, straight_through: bool = False) -> Seq:
    """Decode soft ids from a memory, token by token; each soft token is the next input.

    y_t = softmax((logits_t + g) / temperature),  g = -log(-log u) for each symbol,  u uniform on (0, 1)

    In evaluation mode there is no noise g, so the result is a function of the memory. A row ends at the first step whose most
    probable symbol is EOS: that step is real, the rest is padding. With noise, argmax y_t is a sample from the model's
    distribution. Ids that are never generated have weight 0.

    Jang et al. 2017, https://arxiv.org/abs/1611.01144; Maddison et al. 2017, https://arxiv.org/abs/1611.00712

    Args:
        model: A structure that decodes.
        memory: What the decoder is conditioned on, with B rows.
        max_length: Maximum number of tokens, EOS included.
        temperature: Soft tokens approach one-hot vectors as it goes to 0.
        straight_through: Use the one-hot argmax in the forward pass and the gradient of the soft token in the backward pass.

    Returns:
        B x T x V with a mask.

    >>> from weft.core.fields import Info, TextField
    >>> from weft.models import LanguageModel
    >>> model = LanguageModel(Info({"text": TextField("text", 11)}), dim=8)
    >>> text = soft_decode(model, Memory(vector=torch.zeros(2, 8)), max_length=3)
    >>> text.rows, text.data.shape[-1], float(text.data[0, 0].sum().round())
    (2, 11, 1.0)
    """
    most = positions(model)
    if max_length < 1 or (most is not None and max_length > most):
        raise ValueError(
            f"max_length is {max_length}; it must be at least 1" + (f" and at most {most}, the model's positions" if most else "")
        )
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature:g}; it must be above 0")
    special, rows = model.target.special, memory.rows
    state = model.start(memory, rows)
    token = torch.full((rows, 1), special.bos, device=_device(memory))
    never = torch.tensor(forbidden(model.target, model.target.vocab), device=token.device)
    soft: list[Tensor] = []
    real: list[Tensor] = []
    going_B = torch.ones(rows, dtype=torch.bool, device=token.device)
    for _ in range(max_length):
        done = model.step(Seq(token), state)
        logits_BV = model.head(done.hidden.data[:, -1]).float().index_fill(1, never, -torch.inf)
        soft.append(_mixture(logits_BV, temperature, straight_through, model.training))
        real.append(going_B)
        going_B = going_B & (soft[-1].argmax(-1) != special.eos)
        if going_B.device.type != "meta" and not bool(going_B.any()):
            break
        token, state = soft[-1][:, None], done.state
    return Seq(torch.stack(soft, 1), torch.stack(real, 1))


def count_unfinished(text: Seq, eos: int) -> Tensor:
    """Number of rows of soft ids that reached the maximum length without EOS.

    >>> end, other = [0.1, 0.9], [0.8, 0.2]
    >>> count_unfinished(Seq(torch.tensor([[other, end], [other, other]])), eos=1).item()
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

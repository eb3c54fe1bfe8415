"""The one function through which every softmax over keys goes, and how to watch it. Suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.dropout import dropout as drop
from weft.blocks.dropout import is_eager_cpu
from weft.core.contracts import Attention, Position, Score
from weft.core.masks import Causal, Mask
from weft.core.seq import KV, Seq

Recorder = Callable[[nn.Module, Tensor], None]
"""Is called with the module that attends and its weights, B x H x T x S (before dropout)."""

_RECORDERS: ContextVar[tuple[Recorder, ...]] = ContextVar("recorders", default=())


@contextmanager
def record_attention(recorder: Recorder) -> Iterator[None]:
    """Show ``recorder`` the exact weights of every attention inside the context, whatever kernel is in use otherwise."""
    token = _RECORDERS.set((*_RECORDERS.get(), recorder))
    try:
        yield
    finally:
        _RECORDERS.reset(token)


def attend(
    query_BHTK: Tensor,
    key_BHSK: Tensor,
    value_BHSK: Tensor,
    score: Score,
    *,
    owner: nn.Module,
    allow: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    training: bool = False,
) -> Tensor:
    """softmax(score(q, k) + bias) v over the keys that are allowed. A query that may look at nothing gets zeros.

    Args:
        query_BHTK: Queries.
        key_BHSK: Keys, prepared by the score.
        value_BHSK: Values; their width may differ from that of the keys.
        score: How well a query fits a key.
        owner: The module that attends, for recorders.
        allow: True = may look; can be broadcast to B x H x T x S. None = everything.
        bias: Added to the scores; can be broadcast to B x H x T x S.
        causal: Query t sees the keys up to t (T = S): as ``allow`` would say, but kernels need no matrix for it.
        dropout: Share of the weights that training zeroes.
        training: Whether to drop.
    """
    recorders = () if torch.compiler.is_compiling() else _RECORDERS.get()  # a context variable breaks the graph
    rate = dropout if training else 0.0
    # torch has no fast kernel with dropout on a CPU: there the steps below are faster, with masks of our own.
    fused = score.scale is not None and not recorders and not (rate and is_eager_cpu(query_BHTK))
    if causal and (bias is not None or not fused):
        shape = query_BHTK.shape[-2], key_BHSK.shape[-2]
        allow = torch.ones(shape, dtype=torch.bool, device=query_BHTK.device).tril()
        causal = False
    sees = None
    if allow is not None:
        # A row without any key has no softmax: let it look everywhere, and drop what it saw.
        sees = allow.any(-1, keepdim=True)
        if is_eager_cpu(sees) and bool(sees.all()):
            sees = None
        else:
            allow = allow | ~sees
    if fused:
        mask = allow
        if bias is not None:
            bias = bias.to(query_BHTK.dtype)
            mask = bias if allow is None else bias.masked_fill(~allow, -torch.inf)
        out_BHTK = F.scaled_dot_product_attention(
            query_BHTK, key_BHSK, value_BHSK, attn_mask=mask, dropout_p=rate, is_causal=causal, scale=score.scale
        )
        return out_BHTK if sees is None else out_BHTK.masked_fill(~sees, 0.0)
    score_BHTS = score(query_BHTK, key_BHSK)
    if bias is not None:
        score_BHTS = score_BHTS + bias
    if allow is not None:
        score_BHTS = score_BHTS.masked_fill(~allow, -torch.inf)
    weight_BHTS = score_BHTS.softmax(-1).to(value_BHSK.dtype)
    if sees is not None:
        weight_BHTS = weight_BHTS.masked_fill(~sees, 0.0)
    for recorder in recorders:
        recorder(owner, weight_BHTS)
    return drop(weight_BHTS, rate) @ value_BHSK


def attend_sequence(
    owner: Attention,
    score: Score,
    query_BHTK: Tensor,
    query: Seq,
    kv: KV,
    mask: Mask,
    position: Position | None,
    dropout: float,
) -> Tensor:
    """``attend`` for a sequence: positions turn the queries and bend the scores, ``mask`` and padding say what is allowed."""
    bias = None
    if position is not None:
        query_BHTK = position.rotate(query_BHTK, query.positions())
        bias = position.bias(query.positions(), kv.position)
    causal = _triangle(query, kv, mask)
    allow = None if causal else attention_mask(query, kv, mask)
    return attend(
        query_BHTK,
        kv.key,
        kv.value,
        score,
        owner=owner,
        allow=allow,
        bias=bias,
        causal=causal,
        dropout=dropout,
        training=owner.training,
    )


def attention_mask(query: Seq, kv: KV, mask: Mask) -> Tensor | None:
    """What ``mask`` and the memory's padding leave to look at: B x 1 x (T or 1) x S, or None for everything."""
    allow_BTS = mask.allow(query.positions(), kv.position)
    real_B11S = None if kv.mask is None else kv.mask[:, None, None]
    if allow_BTS is None:
        return real_B11S
    return allow_BTS[:, None] if real_B11S is None else allow_BTS[:, None] & real_B11S


def _triangle(query: Seq, kv: KV, mask: Mask) -> bool:
    """Whether ``mask`` is the lower triangle, as far as that can be known without looking at the numbers."""
    unmarked = query.mask is None and kv.mask is None and "position" not in query.marks
    return type(mask) is Causal and unmarked and kv.width == query.width

"""Record the attention weights of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from weft.blocks.attention.attend import record_attention
from weft.inspect.attention_html import recorded_html


class AttentionMaps(dict[str, list[Tensor]]):
    """Recorded attention weights by module name. A notebook shows the first example as heat maps."""

    def _repr_html_(self) -> str:
        return recorded_html(self)


@contextmanager
def attention(model: nn.Module) -> Iterator[AttentionMaps]:
    """Record the exact weights of every attention module in ``model``, with any kernel.

    The maps are keyed by module name. Each has one B x H x T x S tensor per call, in the order of the calls (B examples,
    H heads, T queries, S keys): a forward pass gives one, decoding one per step. They are detached copies of the weights before
    dropout. The weights of a query sum to 1, or are all 0 where the mask lets it attend to no key.

    Args:
        model: Any module with attention modules of weft inside.

    Example:
        >>> import torch
        >>> from weft.blocks.attention.multihead import MultiHeadAttention
        >>> from weft.core.masks import Full
        >>> from weft.core.seq import Seq
        >>> model = torch.nn.ModuleDict({"mixer": MultiHeadAttention(8, 8, heads=2)})
        >>> x = Seq(torch.ones(1, 3, 8))
        >>> with attention(model) as maps:
        ...     y = model["mixer"](x, model["mixer"].project(x), Full())
        >>> maps["mixer"][0].shape
        torch.Size([1, 2, 3, 3])
    """
    names = {module: name for name, module in model.named_modules()}
    maps = AttentionMaps()

    def record(owner: nn.Module, weight_BHTS: Tensor) -> None:
        if owner in names:
            maps.setdefault(names[owner], []).append(weight_BHTS.detach().clone())

    with record_attention(record):
        yield maps

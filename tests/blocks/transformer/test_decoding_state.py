"""Decoding state of a Transformer: the keys and values of the memory follow the rows, and are copied only for other sources."""

from __future__ import annotations

import torch

from weft.blocks import TransformerDecoder
from weft.core.seq import Memory, Seq


def test_keys_and_values_of_the_memory_are_copied_only_where_a_row_gets_another_source() -> None:
    torch.manual_seed(0)
    memory, x = Seq(torch.randn(2, 5, 8)), Seq(torch.randn(4, 1, 8))
    decoder = TransformerDecoder(8, 8).eval()
    with torch.inference_mode():
        state = decoder.start(Memory((memory,)), 2)
        beams = state.select(torch.tensor([0, 0, 1, 1]))
        swapped = beams.select(torch.tensor([1, 0, 3, 3]))
        assert swapped.context is beams.context
        crossed = swapped.select(torch.tensor([0, 2, 1, 3]))
        again = crossed.select(torch.tensor([0, 3, 2, 1]))
        assert crossed.context is not swapped.context and again.context is crossed.context
        found = decoder.step(x, again).hidden.data
        wanted = decoder.step(x, decoder.start(Memory((memory.select(torch.tensor([0, 1, 0, 1])),)), 4)).hidden.data
    torch.testing.assert_close(found, wanted)

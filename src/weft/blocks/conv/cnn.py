"""Convolutional encoder. Shape suffixes: W kernel size times D features; others: see seq.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.activation import Sigmoid
from weft.blocks.conv.gated_convolution import GatedUnit, taps
from weft.blocks.norm import LayerNorm
from weft.blocks.transformer.residual import PreNorm
from weft.core.contracts import Activation, Encoder, Norm, Residual
from weft.core.masks import Causal, Full, Mask
from weft.core.options import Count, KernelSize, Layers
from weft.core.registry import Build, block
from weft.core.seq import Seq


class DilatedConvolution(GatedUnit):
    """Gated convolution with a dilation, over windows centered at each position."""

    def __init__(self, dim: int, kernel_size: int, dilation: int, gate: Build[Activation]):
        super().__init__(kernel_size * dim, dim, gate)
        self.kernel_size, self.dilation = kernel_size, dilation

    def forward(self, x: Tensor, causal: bool = False) -> Tensor:
        return super().forward(windows(x, self.kernel_size, self.dilation, causal))


@block("cnn")
class CNN(Encoder):
    """Convolutional encoder: stacked gated convolutions with residual connections and a receptive field that grows with depth.

    h_l = residual(h_l-1, f_l),  f_l(x)_t = (V w_t + b) * gate(U w_t + c),  w_t = [x_t-kd; ...; x_t; ...; x_t+kd]

    with k = (kernel_size - 1) / 2 and d the dilation of the layer

    The sequence is zero-padded. Under the mask Causal, inputs after t are zero too, so that the same weights serve both masks.

    Dauphin et al. 2017, https://arxiv.org/abs/1612.08083; Gehring et al. 2017 (residual connections),
    https://arxiv.org/abs/1705.03122; dilations for tagging: Strubell et al. 2017, https://arxiv.org/abs/1702.02098

    Args:
        layers: Number of convolutions.
        kernel_size: Kernel size in positions; odd.
        dilations: Dilation of each layer; a shorter list is cycled.
        gate: Activation of the gate; sigmoid gives gated linear units.
        residual: Residual connection around each convolution, which also has dropout.
        norm: Normalization after the last layer; None = none.

    Example:
        >>> CNN(4, layers=2, dilations=[1, 2])(Seq(torch.ones(2, 3, 4))).data.shape
        torch.Size([2, 3, 4])
    """

    supported_masks = (Full, Causal)

    def __init__(
        self,
        dim: int,
        *,
        layers: Layers = 2,
        kernel_size: KernelSize = 3,
        dilations: list[Count] = [1],
        gate: Build[Activation] = Sigmoid,
        residual: Build[Residual] = PreNorm,
        norm: Build[Norm] | None = LayerNorm,
    ):
        super().__init__(dim)
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size is {kernel_size}, but must be odd; use {kernel_size + 1}")
        if not dilations:
            raise ValueError("dilations is empty, but needs at least one value, such as [1]")
        cycled = [dilations[i % len(dilations)] for i in range(layers)]
        self.layers = nn.ModuleList([DilatedConvolution(dim, kernel_size, dilation, gate) for dilation in cycled])
        self.residuals = nn.ModuleList([residual(dim) for _ in range(layers)])
        self.norm = None if norm is None else norm(dim)

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        self.check_mask(mask)
        causal = isinstance(mask, Causal)
        padding_BT1 = None if x.mask is None else ~x.mask[..., None]
        h_BTD = x.data if padding_BT1 is None else x.data.masked_fill(padding_BT1, 0.0)
        states = [x]
        for layer, residual in zip(self.layers, self.residuals, strict=True):

            def convolve(y_BTD: Tensor, layer: nn.Module = layer) -> Tensor:
                return layer(y_BTD if padding_BT1 is None else y_BTD.masked_fill(padding_BT1, 0.0), causal)

            h_BTD = residual(h_BTD, convolve)
            states.append(x.with_data(h_BTD))
        if self.norm is not None:
            states[-1] = x.with_data(self.norm(h_BTD))
        return states


def windows(x_BTD: Tensor, kernel_size: int, dilation: int = 1, causal: bool = False) -> Tensor:
    """B x T x W: concatenated vectors of the window around each position; zeros outside and, if ``causal``, after it.

    Example:
        >>> windows(torch.tensor([[[1.0], [2.0]]]), 3).tolist()
        [[[0.0, 1.0, 2.0], [1.0, 2.0, 0.0]]]
    """
    reach = kernel_size // 2 * dilation
    inputs = taps(F.pad(x_BTD, (0, 0, reach, reach)), kernel_size, dilation)
    if causal:
        inputs = [tap if i <= kernel_size // 2 else torch.zeros_like(tap) for i, tap in enumerate(inputs)]
    return torch.cat(inputs, -1)

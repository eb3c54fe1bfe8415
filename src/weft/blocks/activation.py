"""Functions of each number. Each maps a tensor of any shape to one of the same shape."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.contracts import Activation
from weft.core.options import Fraction
from weft.core.registry import block


@block("relu")
class ReLU(Activation):
    """The positive part.

    max(x, 0)

    Example:
        >>> import torch
        >>> ReLU()(torch.tensor([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x)


@block("leaky-relu")
class LeakyReLU(Activation):
    """The positive part, and a little of the negative one.

    max(x, 0) + slope min(x, 0)

    Maas et al. 2013; in critics: Radford et al. 2016, https://arxiv.org/abs/1511.06434

    Args:
        slope: The share of the negative part that is left.

    Example:
        >>> import torch
        >>> LeakyReLU()(torch.tensor([-1.0, 2.0])).tolist()
        [-0.20000000298023224, 2.0]
    """

    def __init__(self, *, slope: Fraction = 0.2):
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, self.slope)


@block("gelu")
class GELU(Activation):
    """The number times the chance that a normal variable stays below it.

    x Phi(x)

    Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415

    Example:
        >>> import torch
        >>> GELU()(torch.zeros(1)).item()
        0.0
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x)


@block("gelu-tanh")
class GELUTanh(Activation):
    """GELU by its approximation with tanh, as in GPT-2.

    x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))

    Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415

    Example:
        >>> import torch
        >>> GELUTanh()(torch.zeros(1)).item()
        0.0
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate="tanh")


@block("silu")
class SiLU(Activation):
    """The number times its sigmoid, also called swish.

    x sigmoid(x)

    Ramachandran et al. 2017, https://arxiv.org/abs/1710.05941

    Example:
        >>> import torch
        >>> SiLU()(torch.zeros(1)).item()
        0.0
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(x)


@block("tanh")
class Tanh(Activation):
    """The hyperbolic tangent.

    (e^x - e^-x) / (e^x + e^-x)

    Example:
        >>> import torch
        >>> Tanh()(torch.zeros(1)).item()
        0.0
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)


@block("sigmoid")
class Sigmoid(Activation):
    """The logistic function.

    1 / (1 + e^-x)

    Example:
        >>> import torch
        >>> Sigmoid()(torch.zeros(1)).item()
        0.5
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x)


@block("identity")
class Identity(Activation):
    """The number itself.

    x

    Example:
        >>> import torch
        >>> Identity()(torch.ones(1)).item()
        1.0
    """

    def forward(self, x: Tensor) -> Tensor:
        return x

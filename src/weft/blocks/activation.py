"""Element-wise activation functions, for tensors of any shape."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.contracts import Activation
from weft.core.options import Fraction
from weft.core.registry import block


@block("relu")
class ReLU(Activation):
    """Rectified linear unit.

    y = max(x, 0)

    Nair and Hinton 2010

    Example:
        >>> import torch
        >>> ReLU()(torch.tensor([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """

    nonnegative = True

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x)


@block("relu6")
class ReLU6(Activation):
    """Rectified linear unit with the maximum 6, whose values suit low precision.

    y = min(max(x, 0), 6)

    Krizhevsky 2010; in MobileNet v2: Sandler et al. 2018, https://arxiv.org/abs/1801.04381

    Example:
        >>> import torch
        >>> ReLU6()(torch.tensor([-1.0, 2.0, 8.0])).tolist()
        [0.0, 2.0, 6.0]
    """

    nonnegative = True

    def forward(self, x: Tensor) -> Tensor:
        return F.relu6(x)


@block("elu-plus-one")
class ELUPlusOne(Activation):
    """Exponential linear unit plus one, which is positive: the feature map of linear attention.

    y = x + 1 for x > 0, exp(x) otherwise

    Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236

    Example:
        >>> import torch
        >>> ELUPlusOne()(torch.tensor([0.0, 2.0])).tolist()
        [1.0, 3.0]
    """

    nonnegative = True

    def forward(self, x: Tensor) -> Tensor:
        return F.elu(x) + 1


@block("leaky-relu")
class LeakyReLU(Activation):
    """Leaky rectified linear unit: a ReLU with a small slope for negative inputs.

    y = max(x, 0) + a min(x, 0), with a the negative slope

    Maas et al. 2013; in GAN discriminators: Radford et al. 2016, https://arxiv.org/abs/1511.06434

    Args:
        negative_slope: Slope for negative inputs.

    Example:
        >>> import torch
        >>> LeakyReLU()(torch.tensor([-1.0, 2.0])).tolist()
        [-0.20000000298023224, 2.0]
    """

    def __init__(self, *, negative_slope: Fraction = 0.2):
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, self.negative_slope)


@block("gelu")
class GELU(Activation):
    """Gaussian error linear unit.

    y = x Phi(x), with Phi the cumulative distribution function of the standard normal distribution

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
    """Tanh approximation of GELU, as in GPT-2.

    y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))

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
    """Sigmoid linear unit, also known as Swish.

    y = x sigmoid(x)

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
    """Hyperbolic tangent.

    y = (e^x - e^-x) / (e^x + e^-x)

    Example:
        >>> import torch
        >>> Tanh()(torch.zeros(1)).item()
        0.0
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)


@block("sigmoid")
class Sigmoid(Activation):
    """Logistic sigmoid.

    y = 1 / (1 + e^-x)

    Example:
        >>> import torch
        >>> Sigmoid()(torch.zeros(1)).item()
        0.5
    """

    nonnegative = True

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x)


@block("identity")
class Identity(Activation):
    """No activation: returns its input.

    y = x

    Example:
        >>> import torch
        >>> Identity()(torch.ones(1)).item()
        1.0
    """

    def forward(self, x: Tensor) -> Tensor:
        return x

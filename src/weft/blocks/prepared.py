"""Weights prepared for inference: copies in the memory layout in which their products are fastest.

Shape suffixes: N rows, D and E features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from weft.blocks import onednn

MAX_BYTES = 2**31
"""Maximum memory of all copies; weights beyond it are used as they are."""
USES_OF_ROW, USES_OF_ROWS = 8, 2
"""Products of one row, and of several, after which a weight is copied. A copy costs about the time that they save."""
MIN_PRODUCT = 2**19
"""Minimum number of multiplications of several rows for oneDNN; with fewer, its setup costs more than it saves."""
MIN_TRANSPOSED = 2**16
"""Minimum number of elements of a weight that is transposed for a single row."""
MIN_REORDERED = 3 * 2**19
"""Minimum number of elements of a weight for which oneDNN's layout is faster than the transposed one for a single row."""

DIGEST_ROWS = 64
"""Number of rows of a weight, about, whose values are compared with those at the time of the copy."""

_ACTIVE: ContextVar[PreparedWeights | None] = ContextVar("prepared", default=None)
_OF_MODEL: WeakKeyDictionary[nn.Module, PreparedWeights] = WeakKeyDictionary()


def prepared_for(model: nn.Module) -> PreparedWeights:
    """The prepared weights of a model, which live as long as the model; copies of weights that have changed are dropped.

    Call it where a use begins. torch does not count changes through ``weight.data`` or through a numpy array on the same
    memory, so some rows of each weight are compared here: a change of the whole weight is noticed, one of a few rows may not be.
    """
    weights = _OF_MODEL.setdefault(model, PreparedWeights())
    weights.drop_changed()
    return weights


def prepared_weights(x_ND: Tensor) -> PreparedWeights | None:
    """The weights that are prepared in this context, if products of this input can use them: float32, CPU, no gradients."""
    if torch.compiler.is_compiling() or (active := _ACTIVE.get()) is None:  # reading a context variable breaks the graph
        return None
    usable = (
        type(x_ND) is Tensor
        and x_ND.dtype == torch.float32
        and x_ND.device.type == "cpu"
        and x_ND.ndim > 1
        and x_ND.numel() > 0
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and torch.backends.mkldnn.enabled
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
    )
    return active if usable else None


class PreparedWeights:
    """Copies of the weights of linear layers, in the memory layouts in which their products are fastest on a CPU.

    Linear layers use them inside ``active`` and without gradients. A single row (a decoding step of one text) is bound by the
    memory bandwidth, which is higher with the transposed weight, and with the blocked layout of oneDNN if the weight is large;
    several rows are fastest with the blocked layout. A weight is copied once it has been used a few times, so that a single pass
    costs nothing. The copies take at most ``MAX_BYTES`` and are freed with this object. A weight that has been replaced, or
    changed in place, is copied again. Results differ from those of torch by rounding only.

    Weights that are computed (adapters, parametrizations), on other devices, or of lower precision are used as they are.

    Example:
        >>> from weft.blocks import Linear
        >>> layer, weights = Linear(4, 6), PreparedWeights()
        >>> with torch.inference_mode(), weights.active():
        ...     layer(torch.ones(1, 4)).shape
        torch.Size([1, 6])
    """

    def __init__(self):
        self.bytes = 0
        """Memory of the copies."""
        self._of: dict[Any, _Prepared] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Linear layers inside the context use these weights."""
        token = _ACTIVE.set(self if onednn.LINEAR is not None and onednn.REORDER is not None else None)
        try:
            yield
        finally:
            _ACTIVE.reset(token)

    def drop_changed(self) -> None:
        """Drop the copies of weights that are gone, or whose values are no longer those that were copied."""
        for key, found in list(self._of.items()):
            if not found.is_unchanged():
                self._drop(key)

    def product(self, x_ND: Tensor, weight_ED: Tensor, bias_E: Tensor | None) -> Tensor | None:
        """x W^T + b for any leading shape; None for a weight that is used as it is."""
        if type(weight_ED) is not nn.Parameter:  # computed anew for each product
            return None
        found = self._entry(id(weight_ED), (weight_ED,))
        return found.product(x_ND, bias_E) if found.eligible else None

    def products(self, x_ND: Tensor, layers: Sequence[nn.Linear]) -> list[Tensor] | None:
        """The products of one input with the weights of several layers; None where one is used as it is.

        As soon as the weights are copied, below each other, it is a single product.
        """
        weights = tuple(layer.weight for layer in layers)
        found = self._entry(tuple(map(id, layers)), (*weights, *(layer.bias for layer in layers if layer.bias is not None)))
        if not found.eligible:
            return None
        if found.copy_for(x_ND) is None:
            return [_plain(x_ND, layer.weight, layer.bias) for layer in layers]
        if found.bias is None:
            found.bias = torch.cat([_bias_of(layer) for layer in layers])
        return list(found.product(x_ND, found.bias).split([len(weight) for weight in weights], -1))

    def _entry(self, key: Any, tensors: tuple[Tensor, ...]) -> _Prepared:
        """The copies of these tensors, up to date."""
        found = self._of.get(key)
        if found is not None and found.is_current(tensors):
            return found
        if found is not None:
            self._drop(key)
        self._of[key] = found = _Prepared(self, tensors)
        return found

    def _drop(self, key: Any) -> None:
        if (found := self._of.pop(key, None)) is not None:  # another thread may have dropped it
            self.bytes -= found.bytes


class _Prepared:
    """Copies of a weight, E x D, or of several below each other.

    Args:
        store: Limits the memory of all copies.
        tensors: The weights, and the biases that are added to the product of several.
    """

    def __init__(self, store: PreparedWeights, tensors: tuple[Tensor, ...]):
        self.store, self.references = store, tuple(map(ref, tensors))
        self.eligible = all(map(_is_eligible, tensors))
        self.state = [_state(tensor) for tensor in tensors] if self.eligible else []
        self.size = sum(tensor.numel() for tensor in tensors if tensor.ndim == 2)
        self.bytes = self.row_uses = self.rows_uses = 0
        self.transposed: Tensor | None = None
        self.reordered: Tensor | None = None
        self.bias: Tensor | None = None
        self.digests: list[Tensor] = []

    def is_current(self, tensors: tuple[Tensor, ...]) -> bool:
        """Whether these are the tensors that were copied, and nobody has changed them since."""
        known = self.references
        if len(tensors) != len(known) or any(of() is not tensor for of, tensor in zip(known, tensors, strict=True)):
            return False
        return not self.eligible or [_state(tensor) for tensor in tensors] == self.state

    @torch.inference_mode()
    def is_unchanged(self) -> bool:
        """Whether the tensors exist and have, in some rows, the values that were copied, in the same precision and memory."""
        tensors = self._tensors()
        if len(tensors) < len(self.references):
            return False
        if not self.digests:
            return True
        return all(map(_is_eligible, tensors)) and all(map(torch.equal, map(_digest, tensors), self.digests))

    def product(self, x_ND: Tensor, bias_E: Tensor | None) -> Tensor:
        copy = self.copy_for(x_ND)
        if copy is None:
            return _plain(x_ND, self._weights()[0], bias_E)
        return F.linear(x_ND, copy, bias_E) if copy is self.transposed else _onednn(x_ND, copy, bias_E)

    def copy_for(self, x_ND: Tensor) -> Tensor | None:
        """The copy for this number of rows; None if there is none, or not yet."""
        rows = x_ND.numel() // x_ND.shape[-1]
        if rows == 1 and self.size < MIN_REORDERED:
            if self.transposed is None and self.size >= MIN_TRANSPOSED:
                self.row_uses += 1
                if self.row_uses > USES_OF_ROW and self._has_room():
                    self.transposed = self._joined().t().contiguous().t()
            return self.transposed
        if rows > 1 and rows * self.size < MIN_PRODUCT:
            return None
        if self.reordered is None:
            self.row_uses += rows == 1
            self.rows_uses += rows > 1
            if (self.row_uses > USES_OF_ROW or self.rows_uses > USES_OF_ROWS) and self._has_room():
                self.reordered = onednn.REORDER(self._joined(), None)
        return self.reordered

    def _tensors(self) -> list[Tensor]:
        return [tensor for of in self.references if (tensor := of()) is not None]

    def _weights(self) -> list[Tensor]:
        return [tensor for tensor in self._tensors() if tensor.ndim == 2]

    def _joined(self) -> Tensor:
        weights = self._weights()
        return weights[0] if len(weights) == 1 else torch.cat(weights)

    def _has_room(self) -> bool:
        needed = 4 * self.size
        if self.store.bytes + needed > MAX_BYTES:
            return False
        self.store.bytes += needed
        self.bytes += needed
        self.digests = self.digests or list(map(_digest, self._tensors()))
        return True


def _is_eligible(tensor: Tensor) -> bool:
    plain = type(tensor) is nn.Parameter and tensor.device.type == "cpu" and tensor.dtype == torch.float32
    return plain and tensor.ndim in (1, 2) and tensor.numel() > 0 and tensor.is_contiguous() and not tensor.is_inference()


def _state(tensor: Tensor) -> tuple[int, int]:
    """What changes with the values of a tensor: changes in place count its versions, other data have another address."""
    return tensor._version, tensor.data_ptr()


def _digest(tensor: Tensor) -> Tensor:
    """The products of some rows, spread over the tensor, with a fixed vector without equal elements."""
    probe_D = (torch.arange(tensor.shape[-1], device=tensor.device) * 0.6180339887) % 1 + 0.5
    rows = tensor.detach() if tensor.ndim == 1 else tensor.detach()[:: max(1, len(tensor) // DIGEST_ROWS)]
    return rows @ probe_D


def _bias_of(layer: nn.Linear) -> Tensor:
    return layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias


def _plain(x_ND: Tensor, weight_ED: Tensor, bias_E: Tensor | None) -> Tensor:
    """The product with a weight as it is."""
    rows = x_ND.numel() // x_ND.shape[-1]
    small = rows == 1 or rows * weight_ED.numel() < MIN_PRODUCT
    return F.linear(x_ND, weight_ED, bias_E) if small else _onednn(x_ND, weight_ED, bias_E)


def _onednn(x_ND: Tensor, weight_ED: Tensor, bias_E: Tensor | None) -> Tensor:
    return onednn.LINEAR(x_ND, weight_ED, bias_E, "none", [], "")

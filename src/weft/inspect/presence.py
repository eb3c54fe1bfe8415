"""A trained model as a function of how present each input feature is: a token, or a patch of an image.

Shape suffixes: N points, F features, K outputs, T positions, D hidden size, C classes or vocabulary, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from weft.core.batch import Batch, Instance, collate
from weft.core.contracts import Embedder
from weft.core.example import MarkedIds, ids_of
from weft.core.fields import ImageField, TokenizedField
from weft.core.seq import Seq

Baseline = Literal["zero", "mask", "unk", "pad", "black", "white"]
"""What an absent feature is replaced with: a vector of zeros (the mean of normalized pixels); the embedding of a special token;
black or white pixels."""

_PIXELS = {"black": 0.0, "white": 255.0}
_TOKENS_PER_PASS = 8192


@dataclass(frozen=True)
class Features:
    """The input features that an output is attributed to.

    Args:
        names: The token of each feature, or the position of a patch.
        fields: The field that each belongs to.
        owners: For each input of the network, the feature of each position (T, or H x W pixels); -1 = none: special tokens.
        grid: Rows and columns of patches; None for texts.
    """

    names: Sequence[str]
    fields: Sequence[str]
    owners: Mapping[str, np.ndarray]
    grid: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class ScoredModel:
    """The scores of a model's outputs for an input, as a function of the presence of each feature.

    With presence a_i between 0 and 1, the embedding of feature i is b_i + a_i (e_i - b_i), with e_i its own and b_i that of the
    baseline. All features at 1 is the input, all at 0 the baseline.

    Args:
        model: The network, in evaluation mode.
        instance: The input.
        features: Its features.
        outputs: Names of the K outputs.
        score: N x K scores of the outputs for a batch of N copies of the input.
        baseline: What replaces an absent feature.
        vocabulary: The field of the tokens, for a baseline that is a token.
        cost: Number of tokens, or of equally large computations, per copy.
        image: The field of the image, whose normalization black and white pixels have.
    """

    model: nn.Module
    instance: Instance
    features: Features
    outputs: Sequence[str]
    score: Callable[[Any, Batch], Tensor]
    baseline: Baseline = "zero"
    vocabulary: TokenizedField | None = None
    cost: int = 1
    image: ImageField | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        image = self.features.grid is not None
        allowed = ("zero", *_PIXELS) if image else tuple(name for name in get_args(Baseline) if name not in ("black", "white"))
        if self.baseline not in allowed:
            of = "an image" if image else "a text"
            raise ValueError(f"baseline is {self.baseline!r}; of {of} it must be one of: {', '.join(allowed)}")
        if self.baseline != "zero" and not image and self._baseline_id() < 0:
            raise ValueError(f"the vocabulary has no {self.baseline} token; use the baseline zero, or another special token")

    def __call__(self, presence_NF: Tensor) -> Tensor:
        """N x K scores, differentiable with respect to the presence."""
        device = next(self.model.parameters()).device
        batch = collate([self.instance] * len(presence_NF), range(len(presence_NF))).to(device)
        with self._mixed(batch, presence_NF.to(device)) as mixed:
            return self.score(self.model, mixed)

    def batches(self, presence_NF: Tensor) -> Iterator[Tensor]:
        """Split points into groups that are computed in one pass."""
        return iter(presence_NF.split(max(1, _TOKENS_PER_PASS // self.cost)))

    def values(self, presence_NF: np.ndarray) -> np.ndarray:
        """N x K scores, without gradients."""
        points_NF = torch.from_numpy(np.asarray(presence_NF, np.float32))
        with torch.no_grad():
            return torch.cat([self(part_NF).double().cpu() for part_NF in self.batches(points_NF)]).numpy()

    def _absent_pixels(self, x_NCHW: Tensor) -> Tensor:
        """The pixels of the baseline."""
        if self.baseline == "zero" or self.image is None:
            return torch.zeros_like(x_NCHW)
        value_CHW = self.image.normalize(np.full(self.image.shape, _PIXELS[self.baseline]))
        return torch.from_numpy(value_CHW).to(x_NCHW).expand_as(x_NCHW)

    @contextmanager
    def _mixed(self, batch: Batch, presence_NF: Tensor) -> Iterator[Batch]:
        """The batch with its features mixed with the baseline: pixels at once, tokens where an embedder reads them."""
        weights = {name: _spread(presence_NF, owner) for name, owner in self.features.owners.items()}
        if self.features.grid is not None:
            ((name, weight_NHW),) = weights.items()
            x = batch[name]
            pixels = torch.lerp(self._absent_pixels(x.data), x.data, weight_NHW[:, None].to(x.data.dtype))
            yield replace(batch, fields={**batch.fields, name: x.with_data(pixels)})
            return
        found: list[str] = []

        def mix(module: Embedder, given: tuple[Seq, ...], embedded: Seq) -> Seq | None:
            name = next((n for n in weights if given and given[0].data is batch[n].data), None)
            if name is None:
                return None
            found.append(name)
            base_NTD = torch.zeros_like(embedded.data)
            if self.baseline != "zero":
                base_NTD = module.forward(self._baseline_tokens(given[0], self.features.owners[name])).data
            return embedded.with_data(torch.lerp(base_NTD, embedded.data, weights[name][..., None].to(base_NTD.dtype)))

        hooks = [module.register_forward_hook(mix) for module in _outermost_embedders(self.model)]
        try:
            # the fused recurrent kernels of CUDA have no gradient in evaluation mode
            with torch.backends.cudnn.flags(enabled=False):
                yield batch
        finally:
            for hook in hooks:
                hook.remove()
        if missing := weights.keys() - set(found):
            raise ValueError(
                f"no embedder of {type(self.model).__name__} reads {', '.join(missing)}; its input has no attribution"
            )

    def _baseline_id(self) -> int:
        return -1 if self.vocabulary is None else getattr(self.vocabulary.special, self.baseline)

    def _baseline_tokens(self, x: Seq, owner_T: np.ndarray) -> Seq:
        """The input with the baseline token in place of every feature."""
        replaced_T = torch.from_numpy(owner_T >= 0).to(x.data.device)
        marks = {
            name: mark.masked_fill(replaced_T[:, None], 0) if name == "characters" else mark for name, mark in x.marks.items()
        }
        return replace(x, data=x.data.masked_fill(replaced_T, self._baseline_id()), marks=marks)


def text_owners(length: int, starts: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """The feature of each of ``length`` positions, from (first position, first feature, number of tokens) of each text."""
    owner_T = np.full(length, -1)
    for position, first, count in starts:
        owner_T[position : position + count] = np.arange(first, first + count)
    return owner_T


def patch_owners(height: int, width: int, patch: int) -> np.ndarray:
    """H x W: the patch of each pixel, in row-major order; the last ones may be cut."""
    columns = -(-width // patch)
    return np.arange(height)[:, None] // patch * columns + np.arange(width)[None] // patch


def length_of(ids: np.ndarray | MarkedIds) -> int:
    """Number of tokens."""
    return len(ids_of(ids))


def log_odds(logit: Tensor, index: Tensor) -> Tensor:
    """log p - log (1 - p) of the classes ``index`` under a softmax over the last dimension; of the shape of ``index``."""
    own = logit.gather(-1, index[..., None]).squeeze(-1)
    return own - logit.scatter(-1, index[..., None], -torch.inf).logsumexp(-1)


def _spread(presence_NF: Tensor, owner: np.ndarray) -> Tensor:
    """The presence of each position; 1 where it has no feature."""
    full = torch.cat([presence_NF, presence_NF.new_ones(len(presence_NF), 1)], 1)
    index = torch.from_numpy(owner).to(full.device)
    return full[:, torch.where(index < 0, full.shape[1] - 1, index)]


def _outermost_embedders(model: nn.Module) -> list[Embedder]:
    """The embedders that are not part of another embedder."""
    found = [module for module in model.modules() if isinstance(module, Embedder)]
    inner = {id(part) for module in found for part in module.modules() if part is not module}
    return [module for module in found if id(module) not in inner]

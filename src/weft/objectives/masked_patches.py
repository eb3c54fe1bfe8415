"""Say the pixels of hidden patches. N patches, M hidden ones, E numbers of a patch, W width of the decoder; see seq.py."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.blocks import Learned, Linear, Transformer, patches_in, patchify, unpatchify
from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Embedder, Encoder, EncodesImages, Objective
from weft.core.example import Example
from weft.core.fields import Field, Info
from weft.core.loss import Loss
from weft.core.options import Count, Dim, Fraction
from weft.core.registry import Build, block
from weft.core.seq import Seq

EPS = 1e-6
"""Added to the variance of a patch."""


@block("masked-patches")
class MaskedPatches(Objective):
    """Hide most patches of an image and say their pixels from those that are left.

    loss = sum_m mean_e (y_me - x_me)^2 over the hidden patches m, with e over the numbers of a patch; the count is their number.
    Of n patches, round(share n) are hidden.

    The encoder is given the patches that are seen and no others, so that with three of four hidden it computes on a quarter of
    them. The decoder, which belongs to the objective and is left behind after training, is given what the encoder made of those,
    the same learned vector at every hidden place, and positions.

    He et al. 2022 (MAE), https://arxiv.org/abs/2111.06377

    Args:
        share: Of an image's patches, how many are hidden.
        size: Side of a patch in pixels, the same as that of the structure.
        decoder: The decoder's layers: n -> n over all patches.
        width: Its width; None = half of the structure's, at least 8.
        position: Vectors that tell the decoder where a patch is.
        normalise: Whether the pixels of each patch are brought to mean 0 and variance 1 before they are asked for.

    Example:
        >>> from weft.core.fields import Field
        >>> objective = MaskedPatches(Info({"image": Field("image", 3, kind="image", length=64)}), 32)
        >>> made = objective.prepare({"image": np.zeros((3, 64, 64), np.float32)}, np.random.default_rng(0), None)
        >>> len(made["seen"]), len(made["hidden"])
        (4, 12)
    """

    needs = (EncodesImages,)

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        share: Fraction = 0.75,
        size: Count = 16,
        decoder: Build[Encoder] = partial(Transformer, position=None),
        width: Dim | None = None,
        position: Build[Embedder] = Learned,
        normalise: bool = True,
    ):
        super().__init__(info, dim)
        if not info.images():
            raise ValueError(f"hides patches of images, but the data ({info.data}) gives: {', '.join(info.fields)}")
        self.field = info.images()[0]
        self.size, self.normalise = size, normalise
        self.patches = patches_in(self.field, size)
        self.budget = round(share * self.patches)
        if not 0 < self.budget < self.patches:
            raise ValueError(
                f"share {share} hides {self.budget} of the {self.patches} patches of an image: "
                "at least one must be hidden, and one seen"
            )
        width = max(8, dim // 2) if width is None else width
        self.narrow = Linear(dim, width)
        self.mask = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.mask)
        self.position = position(width, Field(self.field.name, width, kind="vector", max_length=self.patches + 1))
        self.decoder = decoder(width)
        self.pixels = Linear(width, self.field.vocab * size * size)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        order = rng.permutation(self.patches)
        hidden, seen = np.sort(order[: self.budget]), np.sort(order[self.budget :])
        return Instance(image=np.asarray(example[self.field.name]), seen=seen, hidden=hidden)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": batch["hidden"].data.numel()}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        said_BME = self.say(model, batch)
        asked_BME = self.asked(batch)
        loss_BM = (said_BME.float() - asked_BME).pow(2).mean(-1)
        return Loss.of(loss_BM.sum(), loss_BM.numel())

    def see(self, model: Any, image: Seq, seen_BN: Tensor) -> Seq:
        """What the encoder makes of the seen patches, after the vector of the whole where the embedder has one."""
        embedded = model.embedder(image)
        before = embedded.width - self.patches
        if before not in (0, 1):
            raise ValueError(
                f"the structure makes {embedded.width} vectors of an image that here has {self.patches} patches of {self.size} x "
                f"{self.size} pixels: give both the same size of patches"
            )
        at_BN = seen_BN + before
        if before:
            at_BN = torch.cat([torch.zeros_like(at_BN[:, :1]), at_BN], 1)
        return model.encoder(Seq(_take(embedded.data, at_BN)).mark(position=at_BN))

    def say(self, model: Any, batch: Batch) -> Tensor:
        """B x M x E: what the decoder says of the hidden patches."""
        seen_BN, hidden_BM = batch["seen"].data, batch["hidden"].data
        encoded_BTW = self.narrow(self.see(model, batch["image"], seen_BN).data)
        before = encoded_BTW.shape[1] - seen_BN.shape[1]
        masks_BNW = self.mask.to(encoded_BTW.dtype).expand(len(seen_BN), self.patches, -1)
        places_BNW = seen_BN[..., None].expand(-1, -1, encoded_BTW.shape[-1])
        whole_BNW = masks_BNW.scatter(1, places_BNW, encoded_BTW[:, before:])
        whole = Seq(torch.cat([encoded_BTW[:, :before], whole_BNW], 1))
        # place 0 is that of the vector of the whole, whether there is one or not
        at_BT = whole.positions() + 1 - before
        whole = whole.with_data(whole.data + self.position(whole.mark(position=at_BT)).data)
        return self.pixels(_take(self.decoder(whole).data, hidden_BM + before))

    def asked(self, batch: Batch) -> Tensor:
        """B x M x E: the pixels of the hidden patches."""
        true_BME = _take(patchify(batch["image"].data, self.size), batch["hidden"].data).float()
        if not self.normalise:
            return true_BME
        mean_BM1, variance_BM1 = _moments(true_BME)
        return (true_BME - mean_BM1) / (variance_BM1 + EPS).sqrt()

    def reconstruct(self, model: Any, batch: Batch) -> Tensor:
        """B x C x H x W: the images with what is said of the hidden patches in their place. Where patches are normalised, their
        own mean and variance are put back, which the network does not know."""
        patches_BNE = patchify(batch["image"].data, self.size).float()
        hidden_BM = batch["hidden"].data
        said_BME = self.say(model, batch).float()
        if self.normalise:
            mean_BM1, variance_BM1 = _moments(_take(patches_BNE, hidden_BM))
            said_BME = said_BME * (variance_BM1 + EPS).sqrt() + mean_BM1
        whole_BNE = patches_BNE.scatter(1, hidden_BM[..., None].expand_as(said_BME), said_BME)
        return unpatchify(whole_BNE, self.size, *batch["image"].data.shape[2:])


def _moments(x_BME: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each patch; a patch of one number has the variance 0."""
    return x_BME.mean(-1, keepdim=True), x_BME.var(-1, keepdim=True, correction=min(1, x_BME.shape[-1] - 1))


def _take(x_BTD: Tensor, at_BN: Tensor) -> Tensor:
    """The vectors at these places of each row."""
    return x_BTD.gather(1, at_BN[..., None].expand(-1, -1, x_BTD.shape[-1]))

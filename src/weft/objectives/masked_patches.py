"""Masked autoencoding of images. N patches, M masked, E pixel values of a patch, W decoder size; other suffixes: see seq.py."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.blocks import LearnedPositionEmbedder, Linear, Transformer, patch_count, patchify, unpatchify
from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Embedder, Encoder, EncodesImages, Objective
from weft.core.example import Example
from weft.core.fields import Info, VectorField
from weft.core.loss import Loss
from weft.core.options import Count, Dim, Fraction
from weft.core.registry import Build, block
from weft.core.seq import Seq

EPS = 1e-6
"""Added to the variance of a patch."""


@block("masked-patches")
class MaskedPatches(Objective[EncodesImages]):
    """Masked autoencoder (MAE): mask most patches of an image and reconstruct their pixels from the visible ones.

    loss = sum_m mean_e (y_me - x_me)^2 over the masked patches m and their pixel values e; the count is the number of masked
    patches. Of n patches, round(mask_ratio n) are masked.

    The encoder receives only the visible patches, so at a mask ratio of 0.75 it processes a quarter of them. The decoder belongs
    to the objective and is discarded after training; it receives the encoded visible patches, a shared learned mask token at each
    masked position, and position embeddings.

    He et al. 2022 (MAE), https://arxiv.org/abs/2111.06377

    Args:
        mask_ratio: Fraction of the patches that are masked.
        patch_size: Height and width of a patch in pixels; must equal that of the structure.
        decoder: Layers of the decoder, over all patches.
        decoder_dim: Size of the hidden states of the decoder; None = half of the structure's, at least 8.
        position: Position embeddings of the decoder.
        normalize_pixels: Whether the target pixels of each patch are normalized to mean 0 and variance 1.

    Example:
        >>> from weft.core.fields import ImageField
        >>> objective = MaskedPatches(Info({"image": ImageField("image", 3, 64, 64)}), 32)
        >>> instance = objective.prepare({"image": np.zeros((3, 64, 64), np.float32)}, np.random.default_rng(0), None)
        >>> len(instance["visible"]), len(instance["masked"])
        (4, 12)
    """

    needs = (EncodesImages,)

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        mask_ratio: Fraction = 0.75,
        patch_size: Count = 16,
        decoder: Build[Encoder] = partial(Transformer, position=None),
        decoder_dim: Dim | None = None,
        position: Build[Embedder] = LearnedPositionEmbedder,
        normalize_pixels: bool = True,
    ):
        super().__init__(info, dim)
        if not info.images():
            raise ValueError(
                f"masked-patches needs images, but the fields of the data ({info.data}) are: {', '.join(info.fields)}"
            )
        self.field = info.images()[0]
        self.patch_size, self.normalize_pixels = patch_size, normalize_pixels
        self.patches = patch_count(self.field, patch_size)
        self.budget = round(mask_ratio * self.patches)
        if not 0 < self.budget < self.patches:
            raise ValueError(
                f"mask_ratio {mask_ratio} masks {self.budget} of the {self.patches} patches of an image; "
                "at least one must be masked and one visible"
            )
        decoder_dim = max(8, dim // 2) if decoder_dim is None else decoder_dim
        self.project = Linear(dim, decoder_dim)
        self.mask_token = nn.Parameter(torch.empty(decoder_dim))
        nn.init.normal_(self.mask_token)
        vectors = VectorField(self.field.name, decoder_dim, self.patches + 1)
        self.position = position(decoder_dim, vectors)
        self.decoder = decoder(decoder_dim)
        self.pixel_head = Linear(decoder_dim, self.field.channels * patch_size * patch_size)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        order = rng.permutation(self.patches)
        masked, visible = np.sort(order[: self.budget]), np.sort(order[self.budget :])
        return Instance(image=np.asarray(example[self.field.name]), visible=visible, masked=masked)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": batch["masked"].data.numel()}

    def forward(self, model: EncodesImages, batch: Batch, clock: Clock) -> Loss:
        predicted_BME = self.predict_pixels(model, batch)
        target_BME = self.target_pixels(batch)
        loss_BM = (predicted_BME.float() - target_BME).pow(2).mean(-1)
        return Loss.of(loss_BM.sum(), loss_BM.numel())

    def encode_visible(self, model: EncodesImages, image: Seq, visible_BN: Tensor) -> Seq:
        """The encoded visible patches, after the class token where the embedder has one."""
        embedded = model.embedder(image)
        before = embedded.width - self.patches
        if before not in (0, 1):
            raise ValueError(
                f"the structure embeds an image as {embedded.width} vectors, but the objective has {self.patches} patches of "
                f"{self.patch_size} x {self.patch_size} pixels; set the same patch size in both"
            )
        at_BN = visible_BN + before
        if before:
            at_BN = torch.cat([torch.zeros_like(at_BN[:, :1]), at_BN], 1)
        return model.encoder(Seq(_gather(embedded.data, at_BN)).mark(position=at_BN))

    def predict_pixels(self, model: EncodesImages, batch: Batch) -> Tensor:
        """B x M x E: predicted pixels of the masked patches."""
        visible_BN, masked_BM = batch["visible"].data, batch["masked"].data
        encoded_BTW = self.project(self.encode_visible(model, batch["image"], visible_BN).data)
        before = encoded_BTW.shape[1] - visible_BN.shape[1]
        masks_BNW = self.mask_token.to(encoded_BTW.dtype).expand(len(visible_BN), self.patches, -1)
        index_BNW = visible_BN[..., None].expand(-1, -1, encoded_BTW.shape[-1])
        patches_BNW = masks_BNW.scatter(1, index_BNW, encoded_BTW[:, before:])
        x = Seq(torch.cat([encoded_BTW[:, :before], patches_BNW], 1))
        # position 0 is reserved for the class token, whether there is one or not
        at_BT = x.positions() + 1 - before
        x = x.with_data(x.data + self.position(x.mark(position=at_BT)).data)
        return self.pixel_head(_gather(self.decoder(x).data, masked_BM + before))

    def target_pixels(self, batch: Batch) -> Tensor:
        """B x M x E: target pixels of the masked patches."""
        target_BME = _gather(patchify(batch["image"].data, self.patch_size), batch["masked"].data).float()
        if not self.normalize_pixels:
            return target_BME
        mean_BM1, variance_BM1 = _moments(target_BME)
        return (target_BME - mean_BM1) / (variance_BM1 + EPS).sqrt()

    def reconstruct(self, model: EncodesImages, batch: Batch) -> Tensor:
        """B x C x H x W: the images with the predicted pixels in the masked patches. Where pixels are normalized, the prediction
        is rescaled with the true mean and variance of each patch, which the network does not predict."""
        patches_BNE = patchify(batch["image"].data, self.patch_size).float()
        masked_BM = batch["masked"].data
        predicted_BME = self.predict_pixels(model, batch).float()
        if self.normalize_pixels:
            mean_BM1, variance_BM1 = _moments(_gather(patches_BNE, masked_BM))
            predicted_BME = predicted_BME * (variance_BM1 + EPS).sqrt() + mean_BM1
        image_BNE = patches_BNE.scatter(1, masked_BM[..., None].expand_as(predicted_BME), predicted_BME)
        return unpatchify(image_BNE, self.patch_size, *batch["image"].data.shape[2:])


def _moments(x_BME: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each patch; the variance of a single value is 0."""
    return x_BME.mean(-1, keepdim=True), x_BME.var(-1, keepdim=True, correction=min(1, x_BME.shape[-1] - 1))


def _gather(x_BTD: Tensor, at_BN: Tensor) -> Tensor:
    """B x N x D: the vectors at these positions of each row."""
    return x_BTD.gather(1, at_BN[..., None].expand(-1, -1, x_BTD.shape[-1]))

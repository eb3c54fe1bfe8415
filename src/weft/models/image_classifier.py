"""Image classification: an image network and a classification head."""

from __future__ import annotations

from torch import Tensor

from weft.blocks import ClassifierHead, ResNet
from weft.blocks.dropout import DropoutLayer
from weft.core.contracts import Backbone, Classifies, Head, Structure
from weft.core.fields import Info
from weft.core.options import Dropout, FileOrFolder
from weft.core.registry import Build, block
from weft.core.seq import Seq
from weft.models.image_encoder import image_field


@block("image-classifier")
class ImageClassifier(Structure, Classifies):
    """Image classification with a convolutional network or a Vision Transformer.

    p(label | image) = softmax(head(dropout(encoder.vector(image))))

    The target is the field ``label``: one class, several labels or a number, as the objective needs it.

    Args:
        encoder: The image network, such as resnet18 or vit.
        head: Classification head: logits over the classes.
        dropout: Dropout probability of the image vector.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random. The
            head is initialized at random where the number of classes differs.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> from weft.core.fields import ImageField, LabelField
        >>> info = Info({"image": ImageField("image", 3, 32, 32), "label": LabelField("label", 2)})
        >>> ImageClassifier(info, encoder=partial(ResNet, layers=[1, 1], dims=[8, 16]))(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        info: Info,
        *,
        encoder: Build[Backbone] = ResNet,
        head: Build[Head] = ClassifierHead,
        dropout: Dropout = 0.0,
        weights: FileOrFolder | None = None,
    ):
        super().__init__(info, weights=weights)
        self.encoder = encoder(image_field(info))
        self.dim = self.encoder.dim
        self.drop = DropoutLayer(dropout)
        self.classifier = head(self.dim, info["label"], None)

    def features(self, x: Seq) -> Tensor:
        pixels_BCHW = x.data.to(next(self.parameters()).dtype)
        return self.drop(self.encoder.vector(pixels_BCHW))

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        """B x C, the logits of the classes. See ``Structure``."""
        return self.classifier(self.features(Seq.of(x, mask)))

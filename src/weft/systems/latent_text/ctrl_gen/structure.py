"""Ctrl-Gen: class-conditional text VAE with a text classifier. Suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from weft.blocks import MeanPooler
from weft.core.contracts import Injection, Pooler, Structure
from weft.core.fields import Info
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.models.language_model import LanguageModel
from weft.models.text_encoder import TextEncoder
from weft.models.text_vae import TextVAE
from weft.systems.latent_text.cara.protocols import ClassifiesTexts, build_text_classifier, label_field
from weft.systems.latent_text.cara.structure import EMBEDDED, TEXT_CLASSIFIER


@block("ctrl-gen")
class CtrlGen(TextVAE, ClassifiesTexts):
    """Class-conditional text VAE with a text classifier (the paper's discriminator).

    q(z|x) = N(mu, exp(logvar)),  p(x | z, y) = prod_t p(x_t | x_<t, [z; v_y]),  p(z) = N(0, 1),  q_D(y | x)

    Hu et al. 2017, https://arxiv.org/abs/1703.00955

    Args:
        latent: Number of latent dimensions.
        label_dim: Dimension of the class embeddings v.
        encoder: A structure that Encodes: text-encoder, bert, pretrained.
        pooler: Pools the encoder outputs to one vector.
        decoder: A language model: language-model, gpt2, pretrained.
        injections: How z and the class condition the decoder.
        text_classifier: Auxiliary classifier of texts that accepts soft tokens.
        weights: Run folder to initialize weights of the same name from; None = random initialization.

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> label = LabelField("label", 2, labels=("bad", "good"))
        >>> info = Info({"source": TextField("source", 11), "target": TextField("target", 11), "label": label}, target="target")
        >>> CtrlGen(info, latent=4).class_conditional
        True
    """

    def __init__(
        self,
        info: Info,
        *,
        latent: Dim = 32,
        label_dim: Dim = 32,
        encoder: Build[Structure] = partial(TextEncoder, head=None),
        pooler: Build[Pooler] = MeanPooler,
        decoder: Build[Structure] = LanguageModel,
        injections: list[Build[Injection]] = EMBEDDED,
        text_classifier: Build[Structure] = TEXT_CLASSIFIER,
        weights: FileOrFolder | None = None,
    ):
        label_field(info)
        super().__init__(
            info,
            latent=latent,
            encoder=encoder,
            pooler=pooler,
            decoder=decoder,
            injections=injections,
            label_dim=label_dim,
            weights=weights,
        )
        self.text_classifier = build_text_classifier(text_classifier, info)

    def substructures(self) -> Mapping[str, Structure | Sequence[Structure]]:
        return {**super().substructures(), "text_classifier": self.text_classifier}

"""Ctrl-Gen: a text VAE that is told a class, with a listener. Suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from weft.blocks import Mean
from weft.core.contracts import Injection, Pooler, Structure
from weft.core.fields import Info
from weft.core.options import Place, Width
from weft.core.registry import Build, block
from weft.models.language_model import LanguageModel
from weft.models.text_encoder import TextEncoder
from weft.models.text_vae import TextVAE
from weft.systems.latent_text.cara.protocols import Listens, classes_in, listener_of
from weft.systems.latent_text.cara.structure import EMBEDDED, LISTENER


@block("ctrl-gen")
class CtrlGen(TextVAE, Listens):
    """A text VAE whose decoder is told the class, with a listener that says the class of a text (the paper's discriminator).

    q(z|x) = N(mu, exp(logvar)),  p(x | z, y) = prod_t p(x_t | x_<t, [z; v_y]),  p(z) = N(0, 1),  q_D(y | x) by the listener

    Hu et al. 2017, https://arxiv.org/abs/1703.00955

    Args:
        latent: Width of the latent space.
        label_dim: Width of the classes' vectors v.
        encoder: A structure that encodes: text-encoder, bert, pretrained.
        pooler: Makes one vector of what was read.
        decoder: A language model: language-model, gpt2, pretrained.
        injections: How z and the class enter what is written.
        listener: A structure that says the class of a text, and reads soft ids.
        weights: A run's folder from which all weights of the same name are taken; None = random ones.

    Example:
        >>> from weft.core.fields import Field
        >>> label = Field("label", 2, kind="label", labels=("bad", "good"))
        >>> info = Info({"source": Field("source", 11), "target": Field("target", 11), "label": label}, target="target")
        >>> CtrlGen(info, latent=4).labelled
        True
    """

    def __init__(
        self,
        info: Info,
        *,
        latent: Width = 32,
        label_dim: Width = 32,
        encoder: Build[Structure] = partial(TextEncoder, head=None),
        pooler: Build[Pooler] = Mean,
        decoder: Build[Structure] = LanguageModel,
        injections: list[Build[Injection]] = EMBEDDED,
        listener: Build[Structure] = LISTENER,
        weights: Place | None = None,
    ):
        classes_in(info)
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
        self.listener = listener_of(listener, info)

    def substructures(self) -> Mapping[str, Structure | Sequence[Structure]]:
        return {**super().substructures(), "listener": self.listener}

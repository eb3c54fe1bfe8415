"""Decoder-only language model. Suffixes: see seq.py."""

from __future__ import annotations

from torch import Tensor

from weft.blocks import ClassifierHead, SumEmbedder, TiedHead, TransformerDecoder
from weft.core.contracts import (
    CHOICE,
    Classifies,
    Decoder,
    Embedder,
    Head,
    ModelsLanguage,
    Pooler,
    ScoresChoices,
    Structure,
)
from weft.core.fields import Info, TextsField
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("language-model")
class LanguageModel(Structure, ModelsLanguage, Classifies, ScoresChoices):
    """Autoregressive language model; with a pooler it also classifies texts or scores choices.

    p(x_t | x_<t) = softmax(head(decoder(embedder(x_<t)))),  p(label | x) = softmax(classifier(pooler(decoder(embedder(x))))),
    p(i | x_1, x_2, ...) = softmax_i(classifier(pooler(decoder(embedder(x_i))))) with one logit per choice

    Radford et al. 2018 (GPT), who train both heads jointly

    Args:
        dim: Hidden size.
        embedder: Embeds the tokens.
        decoder: Causal decoder, without cross-attention.
        head: Logits over the vocabulary.
        pooler: Pools the hidden states into the vector that is classified; None = a language model only.
        classifier: Logits over the classes of the field ``label``, or one logit per choice where the data has the field
            ``choices``; not built without a pooler.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> import torch
        >>> from weft.core.fields import TextField
        >>> model = LanguageModel(Info({"text": TextField("text", 11)}), dim=8)
        >>> model(torch.tensor([[7, 8, 9]])).shape
        torch.Size([1, 3, 11])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Dim = 128,
        embedder: Build[Embedder] = SumEmbedder,
        decoder: Build[Decoder] = TransformerDecoder,
        head: Build[Head] = TiedHead,
        pooler: Build[Pooler] | None = None,
        classifier: Build[Head] = ClassifierHead,
        weights: FileOrFolder | None = None,
    ):
        super().__init__(info, weights=weights)
        self.dim = dim
        self.target = info.text("text" if "text" in info else info.target)
        self.embedder = embedder(dim, self.target)
        self.decoder = decoder(dim, None)
        self.head = head(dim, self.target, self.embedder)
        self.pooler = None if pooler is None else pooler(dim)
        self.scores_choices = bool(info.of_kind(TextsField))
        if pooler is not None and self.scores_choices:
            self.choice_head = classifier(dim, CHOICE, None)
        elif pooler is not None:
            self.classifier = classifier(dim, info["label"], None)

    def embed(self, x: Seq) -> Seq:
        return self.embedder(x)

    def features(self, x: Seq) -> Tensor:
        if self.pooler is None:
            raise ValueError(
                "this LanguageModel has no pooler, so it does not classify; set the option pooler, for example to last"
            )
        return self.pooler(self.decode(x, None).hidden)

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        """B x T x V, the logits of the token after each prefix. With a pooler: B x C, of the classes, or B, of each choice.

        See ``Structure``.
        """
        if self.pooler is None:
            return self.next_token_logits(Seq.of(x, mask), None)
        features_BD = self.features(Seq.of(x, mask))
        return self.choice_head(features_BD)[:, 0] if self.scores_choices else self.classifier(features_BD)

    def provides(self) -> tuple[type, ...]:
        unused = {Classifies, ScoresChoices}
        if self.pooler is not None:
            unused.remove(ScoresChoices if self.scores_choices else Classifies)
        return tuple(p for p in super().provides() if p not in unused)

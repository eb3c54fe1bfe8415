"""0 -> n: a decoder alone. Suffixes: see seq.py."""

from __future__ import annotations

from torch import Tensor

from weft.blocks import ClassifierHead, Sum, Tied, TransformerDecoder
from weft.core.contracts import (
    CHOICE,
    Classifies,
    Decoder,
    Decodes,
    Embedder,
    Head,
    ModelsLanguage,
    Pooler,
    ScoresChoices,
    Structure,
)
from weft.core.fields import Info
from weft.core.options import Place, Width
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("language-model")
class LanguageModel(Structure, Decodes, ModelsLanguage, Classifies, ScoresChoices):
    """Writes a text from nothing but its beginning; with a pooler it also says the text's class, or which of several is right.

    p(x_t | x_<t) = softmax(head(decoder(x_<t))),  p(label | x) = softmax(classifier(pooler(decoder(x)))),  and of several texts
    p(i | x_1, x_2, ...) = softmax_i(classifier(pooler(decoder(x_i)))), which has one logit then

    Radford et al. 2018 (GPT), who train both at once

    Args:
        dim: Width of all vectors between the parts.
        embedder: Vectors of the tokens.
        decoder: Over the text; it looks at nothing else.
        head: Logits over the ids.
        pooler: Makes the vector that is classified; None = the model does not classify.
        classifier: Logits over the classes of the field ``label``, or one for each of the texts of ``choices`` where rows have
            several; not built without a pooler.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> model = LanguageModel(Info({"text": Field("text", 11)}), dim=8)
        >>> model.decode(Seq(torch.tensor([[7, 8, 9]])), None).hidden.data.shape
        torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Width = 128,
        embedder: Build[Embedder] = Sum,
        decoder: Build[Decoder] = TransformerDecoder,
        head: Build[Head] = Tied,
        pooler: Build[Pooler] | None = None,
        classifier: Build[Head] = ClassifierHead,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        self.dim = dim
        self.target = info["text"] if "text" in info else info[info.target]
        self.embedder = embedder(dim, self.target)
        self.decoder = decoder(dim, None)
        self.head = head(dim, self.target, self.embedder)
        self.pooler = None if pooler is None else pooler(dim)
        self.chooses = any(f.kind == "texts" for f in info.tokenized())
        if pooler is not None and self.chooses:
            self.choice_head = classifier(dim, CHOICE, None)
        elif pooler is not None:
            self.classifier = classifier(dim, info["label"], None)

    def embed(self, x: Seq) -> Seq:
        return self.embedder(x)

    def features(self, x: Seq) -> Tensor:
        if self.pooler is None:
            raise ValueError("this language model does not classify; give it a pooler, such as last")
        return self.pooler(self.decode(x, None).hidden)

    def provides(self) -> tuple[type, ...]:
        without = {Classifies, ScoresChoices} - (
            set() if self.pooler is None else {ScoresChoices if self.chooses else Classifies}
        )
        return tuple(p for p in super().provides() if p not in without)

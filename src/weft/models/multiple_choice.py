"""n -> 1 for each of several texts: an encoder, a pooler, and a head that says one number. Suffixes: see seq.py."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from weft.blocks import LSTM, ClassifierHead, Max, Sum
from weft.core.contracts import CHOICE, Embedder, Encoder, Encodes, Head, Pooler, ScoresChoices, Structure
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Place, Width
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("multiple-choice")
class MultipleChoiceModel(Structure, Encodes, ScoresChoices):
    """Says which of several texts (field ``choices``) is right, by one logit for each.

    p(i | x_1, x_2, ...) = softmax_i(head(pooler(encoder(x_i)))),  x_i = the question and choice i as one sequence

    Devlin et al. 2019 (BERT, section 4.4), https://arxiv.org/abs/1810.04805

    Args:
        dim: Width of all vectors between the parts.
        embedder: Vectors of the tokens.
        encoder: n -> n, over a question with one of its choices.
        pooler: n -> 1, over what was encoded.
        head: One logit.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> model = Chooser(Info({"choices": Field("choices", 11, kind="texts")}), dim=8)
        >>> model.choice_head(model.features(Seq(torch.tensor([[7, 6, 8, 2], [7, 6, 9, 2]])))).shape
        torch.Size([2, 1])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Width = 128,
        embedder: Build[Embedder] = Sum,
        encoder: Build[Encoder] = partial(LSTM, bidirectional=True),
        pooler: Build[Pooler] = Max,
        head: Build[Head] = ClassifierHead,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        field = info["choices"]
        if field.kind != "texts":
            raise ValueError(f"needs several texts to choose from, but in the data ({info.data}) 'choices' is a {field.kind}")
        self.dim = dim
        self.embedder = embedder(dim, field)
        self.encoder = encoder(dim)
        self.pooler = pooler(dim)
        self.choice_head = head(dim, CHOICE, None)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def features(self, x: Seq) -> Tensor:
        return self.pooler(self.encode(x))
